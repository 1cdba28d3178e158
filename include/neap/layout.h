/*
 * neap/layout.h - an address for every storage of a plan.
 *
 * The arena begins with the graph's fixed bytes, then holds every storage instance (a storage from
 * the step that makes it live to the step that ends it) and every workspace while its op runs. What
 * is live together does not overlap; the judge proves it. Offsets are numbered as docs/formats.md
 * says.
 */
#ifndef NEAP_LAYOUT_H
#define NEAP_LAYOUT_H

#include <neap/plan.h>
#include <neap/progress.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_layout_options {
    int64_t alignment; /* every offset is a multiple; default 1 */
    int64_t target;    /* an arena this small is good enough; default -1: the smallest there is */
    neap_progress *progress;
} neap_layout_options;

NEAP_API void neap_layout_options_init(neap_layout_options *options);

/*
 * Places every instance and stores offsets and arena size in the plan. options may be NULL.
 *
 * No arena is smaller than the bytes live together at the peak; that small an arena is found for
 * most plans, and for small ones the smallest there is. The effort is bounded, in steps of work and
 * not in seconds: the same plan always gets the same offsets.
 */
NEAP_API neap_status neap_layout_assign(neap_allocator *allocator, const neap_graph *graph,
                                        neap_plan *plan, const neap_layout_options *options,
                                        neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
