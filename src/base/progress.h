/* Progress reports to the caller and cancellation by it, of which it may want neither
   (neap/progress.h). */
#ifndef NEAP_BASE_PROGRESS_H
#define NEAP_BASE_PROGRESS_H

#include <neap/progress.h>

/* Whether to stop. `progress` may be NULL. */
static inline bool neap_progress_is_cancelled(neap_progress *progress)
{
    return progress && progress->cancelled && progress->cancelled(progress);
}

/* How far a phase is in which no plan is made. `progress` may be NULL. */
static inline void neap_progress_tell(neap_progress *progress, const char *phase, double fraction,
                                      double seconds)
{
    neap_progress_event event = {.phase = phase,
                                 .fraction = fraction,
                                 .seconds = seconds,
                                 .best_time = -1,
                                 .bound_time = -1};
    if (progress && progress->report)
        progress->report(progress, &event);
}

#endif
