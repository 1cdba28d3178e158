/* Progress of one of several solves. Reports name the part: the batch of a search, the budget of a
   curve. */
#ifndef NEAP_PLANNERS_PART_PROGRESS_H
#define NEAP_PLANNERS_PART_PROGRESS_H

#include <neap/progress.h>

typedef struct part_progress {
    neap_progress base; /* for the solves */
    neap_progress *outer;
    double started; /* neap_clock_seconds at the start of the first solve */
    char part[48];  /* set before each solve */
} part_progress;

/* outer may be NULL. */
void neap_part_progress_init(part_progress *progress, neap_progress *outer, double started);

#endif
