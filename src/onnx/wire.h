/*
 * The wire format of an ONNX file: a bounds-checked walk over protobuf's tags and lengths.
 *
 * protobuf-c copies every `bytes` field and recurses into every message, without limits. So it
 * never sees the file itself but a digest: the fields that neap uses and nothing else, of a nesting
 * that is bounded, with the payload of each tensor replaced by the place where it lies in the file.
 * A gigabyte of weights therefore costs a few hundred bytes here, and is not read at all.
 *
 * The same walk writes a file again with other payloads: everything else is copied byte for byte,
 * and only the lengths of the messages around a changed payload are encoded anew.
 */
#ifndef NEAP_ONNX_WIRE_H
#define NEAP_ONNX_WIRE_H

#include "base/arena.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>

/* In a digest, the contents of `raw_data`: where the payload is in the file. */
typedef struct wire_place {
    uint64_t offset, length;
} wire_place;

/*
 * *digest gets *length bytes from `allocator`. NEAP_INVALID, with the offset, for bytes that are
 * not protobuf's: a length that leaves its message, a varint of more than ten bytes, a group.
 */
neap_status neap_onnx_wire_digest(neap_allocator *allocator, const char *source,
                                  const uint8_t *file, size_t file_length, uint8_t **digest,
                                  size_t *length, neap_diag *diag);

/* What becomes of an initializer, or of a weight that is a Constant node, when a file is written
   again. */
typedef struct wire_patch {
    const char *name;     /* of the initializer, or of the node's output */
    const void *payload;  /* NULL: it stays as it is */
    size_t length;        /* of the payload */
    const char *location; /* its external data are in this file now; NULL: they are not moved */
    int64_t offset;       /* in that file */
    int64_t bytes;
} wire_patch;

/* The patch of this name (not terminated), or NULL. */
typedef const wire_patch *wire_find(const void *patches, const char *name, size_t length);

/* The pieces of a new file. They point into `file`, into the patches, and into the arena. */
typedef struct wire_pieces {
    neap_allocator *allocator;
    neap_arena arena;
    neap_file_piece *items;
    size_t count, capacity;
} wire_pieces;

neap_status neap_onnx_wire_patch(neap_allocator *allocator, const char *source, const uint8_t *file,
                                 size_t file_length, wire_find *find, const void *patches,
                                 wire_pieces *pieces, neap_diag *diag);
void neap_onnx_wire_clear(wire_pieces *pieces);

#endif
