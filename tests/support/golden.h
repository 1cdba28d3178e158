/*
 * golden.h - transcripts compared with files.
 *
 * A transcript is what a user would see in a terminal: each command after a "$", its output, and
 * its exit status if that is not 0. It must equal the golden file to the byte; with
 * NEAP_UPDATE_GOLDEN=1 in the environment the file is written instead.
 */
#ifndef NEAP_TEST_GOLDEN_H
#define NEAP_TEST_GOLDEN_H

#include "run_command.h"

typedef struct transcript {
    char *text; /* NULL while empty */
    size_t length;
} transcript;

/*
 * Runs `program` with a line of words and adds the command as "$ neap <line>" with its results.
 * What follows "solve_seconds": or "solved in" is replaced, for it is never the same twice.
 */
void transcript_run(transcript *t, const char *program, const char *line,
                    const run_options *options);
/* Fails the test where the transcript is not that of the file; clears it. */
void transcript_check(transcript *t, const char *path);

#endif
