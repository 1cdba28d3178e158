/* The placers in turn, the quick ones first, until the target is reached. */
#include "layout/place.h"

/* Above this many instances placers that are quadratic would take seconds. */
#define FEW 30000

neap_status neap_place(const neap_placement_problem *problem, neap_placement *best, neap_diag *diag)
{
    best->arena = problem->count == 0 ? 0 : INT64_MAX;
    best->bound = problem->least;
    neap_status status = NEAP_OK;
    if (problem->count <= FEW)
        status = neap_place_first_fit(problem, best, diag);
    if (status == NEAP_OK && best->arena > problem->target)
        status = neap_place_online_fit(problem, best, diag);
    if (status == NEAP_OK && best->arena > problem->target && problem->count <= FEW)
        status = neap_place_two_ends(problem, best, diag);
    if (status == NEAP_OK && best->arena > problem->target)
        status = neap_place_squeeze(problem, best, diag);
    return status;
}
