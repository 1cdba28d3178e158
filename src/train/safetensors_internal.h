/* What the reader and the writer of safetensors files share: the header. */
#ifndef NEAP_TRAIN_SAFETENSORS_INTERNAL_H
#define NEAP_TRAIN_SAFETENSORS_INTERNAL_H

#include "base/arena.h"

#include <neap/safetensors.h>

#define NEAP_SAFETENSORS_LENGTH_BYTES INT64_C(8)
#define NEAP_SAFETENSORS_HEADER_LIMIT INT64_C(100000000) /* the format's own */

typedef struct neap_safetensors_dtype {
    const char *name;
    neap_dtype dtype;
    int64_t bytes; /* of an element */
} neap_safetensors_dtype;

/* The format's word for one of our dtypes, or NULL. */
const neap_safetensors_dtype *neap_safetensors_dtype_of(neap_dtype dtype);

typedef struct neap_safetensors_header {
    neap_allocator *allocator;
    neap_arena arena;                /* owns all texts and shapes */
    neap_safetensors_entry *entries; /* by name; offsets count from the beginning of the file */
    size_t n_entries, entry_capacity;
    neap_metadata *metadata; /* by key */
    size_t n_metadata, metadata_capacity;
} neap_safetensors_header;

/*
 * Reads a header of `length` bytes that `data_bytes` of data follow, and checks everything
 * neap_safetensors_open promises. `source` names the file. Clear `header` after a failure too.
 */
neap_status neap_safetensors_header_read(neap_safetensors_header *header, neap_allocator *allocator,
                                         const char *source, const char *text, size_t length,
                                         int64_t data_bytes, neap_diag *diag);
void neap_safetensors_header_clear(neap_safetensors_header *header);

/* Copies some bytes of a tensor, which must be within it. */
neap_status neap_safetensors_read_part(const neap_safetensors *file,
                                       const neap_safetensors_entry *entry, int64_t begin,
                                       void *buffer, size_t bytes, neap_diag *diag);

#endif
