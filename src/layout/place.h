/*
 * Placement: offsets for instances, such that instances that are live together do not overlap
 * (dynamic storage allocation).
 *
 * A placer gets the best placement known so far and replaces it if it finds a smaller one. It stops
 * when the placement cannot improve or its effort is spent. Effort is counted in steps of work, not
 * in seconds, so the same problem always gives the same placement. Only if the problem has an end,
 * a moment of the clock, does the effort grow with the time that is left. To add a placer, write
 * its file and call it in place.c.
 */
#ifndef NEAP_LAYOUT_PLACE_H
#define NEAP_LAYOUT_PLACE_H

#include "base/clock.h"
#include "base/progress.h"
#include "layout/instances.h"

#include <neap/progress.h>

typedef struct neap_placement_problem {
    const neap_instance *instances; /* of sizes above 0, whose sum fits in 63 bits */
    size_t count;
    int64_t least;  /* the most bytes ever live together: no arena is smaller */
    int64_t target; /* an arena this small is good enough; at least `least` */
    neap_allocator *allocator;
    neap_progress *progress; /* may be NULL; a cancelled placer keeps what it has */
    double end;              /* of neap_clock_seconds: as if cancelled then; 0: none */
    bool is_persistent;      /* searches on until then */
    int threads;             /* 0: as many as there are processors */
} neap_placement_problem;

typedef struct neap_placement {
    int64_t *offsets; /* by instance */
    int64_t arena;    /* the highest end; INT64_MAX before there is a placement of any instance */
    int64_t bound; /* proven: no arena is smaller; at least problem.least once neap_place is done */
} neap_placement;

/* place.c: all of them in turn; `best` needs only room for the offsets. There is a placement in any
   case, even if it is cancelled at once. */
neap_status neap_place(const neap_placement_problem *problem, neap_placement *best,
                       neap_diag *diag);

/* first_fit.c: by decreasing size, each at the lowest address that is free all its life. O(n^2). */
neap_status neap_place_first_fit(const neap_placement_problem *problem, neap_placement *best,
                                 neap_diag *diag);

/* online_fit.c: in order of time, short-lived instances at the far end. O(n log n). */
neap_status neap_place_online_fit(const neap_placement_problem *problem, neap_placement *best,
                                  neap_diag *diag);

/* two_ends.c: the longest-lived first, each at the end of the arena where it leaves fewer gaps.
   O(n^2). */
neap_status neap_place_two_ends(const neap_placement_problem *problem, neap_placement *best,
                                neap_diag *diag);

/* squeeze.c: ever smaller arenas, by searches (portfolio.h) that are complete on small problems and
   find the live peak on most plans. */
neap_status neap_place_squeeze(const neap_placement_problem *problem, neap_placement *best,
                               neap_diag *diag);

static inline bool neap_placement_cancelled(const neap_placement_problem *problem)
{
    return neap_progress_is_cancelled(problem->progress) ||
           (problem->end > 0 && neap_clock_seconds() > problem->end);
}

#endif
