/* Writes the caller's diagnostic and returns the status: `return neap_fail(...)`. */
#ifndef NEAP_BASE_FAIL_H
#define NEAP_BASE_FAIL_H

#include <neap/status.h>

/* Formats the message into diag (may be NULL; too long ends in "..."), cleans what it quotes, and
 * returns `status`. */
neap_status neap_fail(neap_diag *diag, neap_status status, const char *format, ...)
    NEAP_PRINTF(3, 4);

/* The one message of every failed allocation. */
neap_status neap_fail_no_memory(neap_diag *diag);

/* Returns the status of a call that fails. For functions that have nothing to release. */
#define NEAP_TRY(call)                                                                             \
    do {                                                                                           \
        neap_status tried_ = (call);                                                               \
        if (tried_ != NEAP_OK)                                                                     \
            return tried_;                                                                         \
    } while (0)

#endif
