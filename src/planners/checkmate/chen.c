#include "planners/checkmate/chen.h"

#include "base/memory.h"
#include "planners/common/size_sweep.h"

#include <math.h>

enum { LENGTH };

const neap_option neap_chen_sqrt_options[] = {
    [LENGTH] = {.name = "length",
                .meaning = "candidates from one checkpoint to the next; 0 is the square root of "
                           "their number",
                .type = NEAP_OPTION_INTEGER,
                .least = 0,
                .most = 4294967294.0,
                .default_value = 0},
};

/* ---- sqrt ---- */

neap_status neap_chen_use_sqrt(const planner *p, draft *d, candidate_rule rule, neap_diag *diag)
{
    checkpoints c;
    bool *chosen = NULL; /* from 1 */
    neap_status status = neap_checkpoints_build(p, rule, &c, diag);
    uint32_t length = (uint32_t)p->options[LENGTH];
    if (length == 0)
        length = (uint32_t)lround(sqrt((double)c.n));
    if (length == 0)
        length = 1;
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, (size_t)c.n + 1, &chosen, diag);
    for (uint32_t i = 1; i <= c.n && status == NEAP_OK; i++)
        chosen[i] = i % length == 0 || i == c.n;
    if (status == NEAP_OK)
        status = neap_checkpoints_lower(p, d, &c, chosen, diag);
    if (status == NEAP_OK)
        status = neap_checkpoints_report(p, d, &c, chosen, diag);
    NEAP_DELETE(p->allocator, (size_t)c.n + 1, chosen);
    neap_checkpoints_clear(&c);
    return status;
}

/* ---- greedy ---- */

static neap_status lower(void *context, const planner *p, draft *d, const bool *chosen,
                         neap_diag *diag)
{
    return neap_checkpoints_lower(p, d, context, chosen, diag);
}

neap_status neap_chen_use_greedy(const planner *p, draft *d, candidate_rule rule, neap_diag *diag)
{
    checkpoints c;
    size_sweep_answer answer = {0};
    neap_status status = neap_checkpoints_build(p, rule, &c, diag);
    size_t length = (size_t)c.n + 1;
    const size_sweep_problem problem = {c.n, c.d, c.inner, &c, lower};
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, length, &answer.chosen, diag);
    if (status == NEAP_OK)
        status = neap_size_sweep_run(p, d, &problem, &answer, diag);
    if (status == NEAP_OK)
        status = neap_draft_add_number(p, d, "objective", answer.estimate, diag);
    if (status == NEAP_OK)
        status = neap_checkpoints_report(p, d, &c, answer.chosen, diag);
    NEAP_DELETE(p->allocator, length, answer.chosen);
    neap_checkpoints_clear(&c);
    return status;
}
