/* One of several solves tells its caller where it stands: the batch of a search, the budget of a
   curve, as the phase. */
#ifndef NEAP_PLANNERS_PART_PROGRESS_H
#define NEAP_PLANNERS_PART_PROGRESS_H

#include <neap/progress.h>

typedef struct part_progress {
    neap_progress base; /* for the solves */
    neap_progress *outer;
    double begun;  /* neap_clock_seconds when the whole began */
    char part[48]; /* written by whoever solves */
} part_progress;

/* outer may be NULL. */
void neap_part_progress_init(part_progress *progress, neap_progress *outer, double begun);

#endif
