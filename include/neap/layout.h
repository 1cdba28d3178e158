/*
 * neap/layout.h - an address for every storage of a plan.
 *
 * The arena starts with the graph's fixed bytes. After them come every storage instance (one
 * lifetime of a storage, from the step that makes it live to the step that frees it) and every
 * workspace while its op runs. Memory that is live at the same time does not overlap; the judge
 * checks this. docs/formats.md defines the numbering of the offsets.
 */
#ifndef NEAP_LAYOUT_H
#define NEAP_LAYOUT_H

#include <neap/plan.h>
#include <neap/progress.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_layout_options {
    int64_t alignment; /* every offset is a multiple of this; default 1 */
    int64_t target;    /* stop at an arena of at most this size; default -1: as small as possible */
    double seconds; /* stop after so many, but use them while the arena exceeds the target, if there
                       is one; default 0: the effort is fixed */
    int threads;    /* default 0: one a processor; they do not change the offsets */
    neap_progress *progress; /* several threads may ask it at once whether to stop */
} neap_layout_options;

NEAP_API void neap_layout_options_init(neap_layout_options *options);

/*
 * Places every instance and stores the offsets and the arena size in the plan. options may be NULL.
 *
 * No arena is smaller than the peak of live bytes. For most plans an arena of exactly that size is
 * found, and for small plans the smallest possible one. Unless options->seconds is set, the effort
 * is limited by steps of work, not by time, so that the same plan always gets the same offsets.
 */
NEAP_API neap_status neap_layout_assign(neap_allocator *allocator, const neap_graph *graph,
                                        neap_plan *plan, const neap_layout_options *options,
                                        neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
