/*
 * neap/progress.h - the progress of long work, and how to stop it.
 *
 * A caller embeds a neap_progress in a struct of its own and passes its address. The library calls
 * `report` from the calling thread: at the beginning of each phase, during it a few times a second
 * at most, and once more when a plan is finished (fraction 1, its time and bound). It calls
 * `cancelled` often; a call that is cancelled ends soon with the best result so far, marked as
 * interrupted.
 */
#ifndef NEAP_PROGRESS_H
#define NEAP_PROGRESS_H

#include <neap/version.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_progress_event {
    const char *part;  /* which of several plans, such as "batch 8"; NULL: there is only one */
    const char *phase; /* what is being done, such as "planning" or "assigning addresses" */
    double fraction;   /* 0 to 1, or negative where it cannot be known */
    double seconds;    /* since the work began */
    double best_time;  /* seconds of the best plan so far, or negative */
    double bound_time; /* seconds that no plan can beat, or negative */
} neap_progress_event;

typedef struct neap_progress neap_progress;

struct neap_progress {
    /* May be NULL. */
    void (*report)(neap_progress *self, const neap_progress_event *event);
    /* May be NULL: never cancelled. Must be safe to call from any thread. */
    bool (*cancelled)(neap_progress *self);
};

#ifdef __cplusplus
}
#endif
#endif
