/*
 * neap/progress.h - progress reports of long computations, and how to cancel them.
 *
 * A caller embeds a neap_progress in its own struct and passes its address. The library calls
 * `report` from the calling thread: at the start of each phase, at most a few times per second
 * during it, and once when a plan is finished (fraction 1, with its time and bound). It calls
 * `cancelled` often. A cancelled call ends soon with the best result so far, marked as interrupted.
 */
#ifndef NEAP_PROGRESS_H
#define NEAP_PROGRESS_H

#include <neap/version.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_progress_event {
    const char *part;  /* which of several plans, such as "batch 8"; NULL if there is only one */
    const char *phase; /* such as "planning" or "assigning addresses" */
    double fraction;   /* 0 to 1; negative if not known */
    double seconds;    /* since the start */
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

/*
 * A progress that is cancelled by a flag, for handlers of signals and for callers whose own
 * `cancelled` would be slow, such as other languages:
 *
 *     neap_stop_flag flag;
 *     neap_stop_flag_init(&flag);
 *     request.progress = &flag.base;
 */
typedef struct neap_stop_flag {
    neap_progress base; /* `report` may be set */
    int raised;         /* private */
} neap_stop_flag;

NEAP_API void neap_stop_flag_init(neap_stop_flag *flag); /* not raised, without reports */
/* Cancels. Any thread and any handler of a signal may call it. */
NEAP_API void neap_stop_flag_raise(neap_stop_flag *flag);

/*
 * Whether a solver was left behind and still runs: the methods `checkmate` and `checkmate-lp`
 * return soon after the time limit or a cancellation, while a thread of the solver goes on until it
 * notices. It touches nothing of the caller's. A process that ends normally waits for it; to end at
 * once, flush your streams and call _Exit.
 */
NEAP_API bool neap_has_left_threads(void);

#ifdef __cplusplus
}
#endif
#endif
