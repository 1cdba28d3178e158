/*
 * neap/status.h - how a call says whether it worked.
 *
 * Every call that can fail returns a neap_status. NEAP_OK is 0. A call also takes a neap_diag,
 * which may be NULL; when the call fails it holds one line for a person: what was wrong, where, and
 * what would work. The library never prints, exits, aborts or traps a signal.
 *
 * A status speaks of the call. Whether a *plan* was found is an outcome (neap/solve.h): "this
 * budget is infeasible" is a result of a call that worked.
 */
#ifndef NEAP_STATUS_H
#define NEAP_STATUS_H

#include <neap/version.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum neap_status {
    NEAP_OK = 0,
    NEAP_INVALID = 1,     /* the caller's input is wrong: a file, an argument, an option */
    NEAP_NO_MEMORY = 2,   /* an allocation failed; nothing was leaked, nothing was changed */
    NEAP_IO = 3,          /* a file could not be read or written */
    NEAP_UNSUPPORTED = 4, /* valid, but this build or this method cannot do it */
    NEAP_INTERNAL = 5     /* a broken promise inside neap: please report it */
} neap_status;

/* "ok", "invalid", "no_memory", "io", "unsupported", "internal". Never NULL. */
NEAP_API const char *neap_status_name(neap_status status);

#define NEAP_DIAG_CAPACITY 1024

/* Written by a failing call, untouched by a succeeding one. A longer message ends in "...". */
typedef struct neap_diag {
    neap_status status;
    char message[NEAP_DIAG_CAPACITY]; /* one line, UTF-8, without a newline */
} neap_diag;

#ifdef __cplusplus
}
#endif
#endif
