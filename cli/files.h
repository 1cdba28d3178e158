/* files.h - writes the results of a command to files. */
#ifndef NEAP_CLI_FILES_H
#define NEAP_CLI_FILES_H

#include "options.h"

#include <neap/graph.h>
#include <neap/text.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * neap_file_replace. Returns an exit code, after a line on stderr if it is not CLI_OK.
 */
int cli_file_write(const char *path, const char *text, size_t length);

/*
 * Checks before long work whether its result can be written to a file. Returns an exit code as
 * above. Nothing is written; the disk may still become full.
 */
int cli_file_check(const char *path);

/* Is it "-", standard output? A NULL path is not. */
bool cli_is_stdout(const char *path);
/*
 * Checks that at most one result of a command goes to standard output: JSON, a chart, or a file
 * named "-". Returns an exit code, after a line on stderr if it is not CLI_OK.
 */
int cli_stdout_check(const cli_settings *settings);
/* Whether a file named "-" takes it, so that no summary is printed. */
bool cli_stdout_taken(const cli_settings *settings);
/* The same, but "-" appends the text to the command's output. */
int cli_file_deliver(const char *path, const char *text, size_t length, neap_text *out);
/* A graph, likewise. */
int cli_graph_deliver(const char *path, const neap_graph *graph, neap_text *out);

/* Writes all of a text to an open file; false with errno set. */
bool cli_descriptor_write(int file, const char *text, size_t length);
/* Writes to standard output. CLI_FAILED without a message if it is a pipe that was closed. */
int cli_stdout_write(const char *text, size_t length);

#endif
