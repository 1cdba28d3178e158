/* Files: read whole or in parts, replaced atomically. "-" is standard input or output. */
#ifndef NEAP_BASE_FILE_H
#define NEAP_BASE_FILE_H

#include <neap/text.h>
#include <stdint.h>

/* *text gets the file's *length bytes and a NUL, to be released as *length + 1 bytes. */
neap_status neap_file_read(neap_allocator *allocator, const char *path, char **text, size_t *length,
                           neap_diag *diag);

/*
 * Writes a file next to `path` and renames it into place, so that a reader sees the old contents or
 * the new, never a part, also when the machine stops. What is not a plain file (a pipe,
 * /dev/stdout) is written directly.
 */
neap_status neap_file_write(neap_allocator *allocator, const char *path, const char *text,
                            size_t length, neap_diag *diag);
/* The same of a text, which is released; its error, if it has one, is returned. */
neap_status neap_file_write_text(neap_text *text, const char *path, neap_diag *diag);

/* A part of a file's contents. */
typedef struct neap_file_piece {
    const void *data;
    size_t length;
} neap_file_piece;

/* The same for contents in several pieces, which are not copied. */
neap_status neap_file_write_pieces(neap_allocator *allocator, const char *path,
                                   const neap_file_piece *pieces, size_t n_pieces, neap_diag *diag);

/* Creates all folders of a file's path. Errors show up when the file is written. */
neap_status neap_file_make_folders(neap_allocator *allocator, const char *path, neap_diag *diag);

/*
 * Opens an ordinary file to read parts of it: *file gets its descriptor, for close(), *bytes its
 * size. A pipe, a device or a folder is refused at once (a pipe without a writer does not block).
 */
neap_status neap_file_open(const char *path, int *file, int64_t *bytes, neap_diag *diag);

/* Exactly `length` bytes from `offset` on; NEAP_INVALID, with the place, if the file is shorter. */
neap_status neap_file_read_at(int file, const char *path, int64_t offset, void *buffer,
                              size_t length, neap_diag *diag);

#endif
