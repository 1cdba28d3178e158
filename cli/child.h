/* child.h - runs another program for a short time and reads what it writes. */
#ifndef NEAP_CLI_CHILD_H
#define NEAP_CLI_CHILD_H

#include <neap/text.h>

typedef enum cli_child_end {
    CLI_CHILD_MISSING = 0, /* it could not be started */
    CLI_CHILD_TIMEOUT,     /* it was killed after the time limit, or by Ctrl-C */
    CLI_CHILD_FAILED,      /* its exit status was not 0, or a signal ended it */
    CLI_CHILD_OK
} cli_child_end;

/*
 * Starts a program, found as the shell finds it but without a shell, and appends its standard
 * output to `out`, at most 64 KiB. It reads nothing, and what it writes to stderr is lost.
 * `arguments` starts with the program and ends with NULL.
 */
cli_child_end cli_child_run(char *const *arguments, double seconds, neap_text *out);

#endif
