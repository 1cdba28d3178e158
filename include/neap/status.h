/*
 * neap/status.h - status codes and error messages.
 *
 * Every call that can fail returns a neap_status. NEAP_OK is 0. Such a call also takes a neap_diag,
 * which may be NULL. If the call fails, the diag has a message of one line: what was wrong, where,
 * and what would work. The library never prints, exits, aborts or handles signals.
 *
 * The status is about the call. Whether a *plan* was found is an outcome (neap/solve.h): an
 * infeasible budget is a result of a successful call.
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
    NEAP_NO_MEMORY = 2,   /* an allocation failed; nothing was leaked or changed */
    NEAP_IO = 3,          /* a file could not be read or written */
    NEAP_UNSUPPORTED = 4, /* valid, but this build or this method cannot do it */
    NEAP_INTERNAL = 5     /* a bug in neap: please report it */
} neap_status;

/* "ok", "invalid", "no_memory", "io", "unsupported", "internal". Never NULL. */
NEAP_API const char *neap_status_name(neap_status status);

#define NEAP_DIAG_CAPACITY 1024

/* Written if a call fails, unchanged if it succeeds. A truncated message ends in "...". */
typedef struct neap_diag {
    neap_status status;
    char message[NEAP_DIAG_CAPACITY]; /* one line, UTF-8, without a newline */
} neap_diag;

#ifdef __cplusplus
}
#endif
#endif
