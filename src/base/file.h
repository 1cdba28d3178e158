/* Whole files: read into memory, replaced atomically. "-" is standard input or output. */
#ifndef NEAP_BASE_FILE_H
#define NEAP_BASE_FILE_H

#include <neap/allocator.h>
#include <neap/status.h>

/* *text gets the file's *length bytes and a NUL, to be released as *length + 1 bytes. */
neap_status neap_file_read(neap_allocator *allocator, const char *path, char **text, size_t *length,
                           neap_diag *diag);

/*
 * Writes a file beside `path` and renames it into place, so that a reader sees the old contents or
 * the new, never a part, also when the machine stops. What is not a plain file (a pipe,
 * /dev/stdout) is written directly.
 */
neap_status neap_file_write(neap_allocator *allocator, const char *path, const char *text,
                            size_t length, neap_diag *diag);

#endif
