/*
 * neap/safetensors.h - named tensors in a file that other programs read too.
 *
 * The format is Hugging Face's safetensors: eight bytes with the length of a header (little
 * endian), a JSON header that gives each tensor's dtype, shape and place in the file and, under
 * "__metadata__", texts by key; then the tensors' bytes, without gaps. Nothing in such a file is
 * ever run.
 *
 * Multi-byte elements are little endian in the file; neap writes and reads bytes as they lie in
 * memory, so it supports machines of that order.
 */
#ifndef NEAP_SAFETENSORS_H
#define NEAP_SAFETENSORS_H

#include <neap/allocator.h>
#include <neap/graph.h>
#include <neap/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A text kept with the tensors, such as {"step", "1200"}. */
typedef struct neap_metadata {
    const char *key, *value; /* UTF-8 */
} neap_metadata;

/* ---- Writing ---- */

/* A tensor to be written. */
typedef struct neap_safetensor {
    const char *name; /* UTF-8, its own, not "__metadata__" */
    neap_dtype dtype; /* not NEAP_DTYPE_UNKNOWN */
    uint32_t rank;    /* 0: a scalar */
    const int64_t *shape;
    const void *data; /* product of shape elements, outermost index slowest; NULL if there are none
                       */
} neap_safetensor;

/*
 * Writes a file whole or not at all: to a temporary file in the same folder, which replaces an old
 * one in one step once everything is on the disk. On failure (a full disk, say) the old file is as
 * it was and the temporary one is gone; so it is when the process is killed while it writes, on
 * Linux and file systems with nameless files (O_TMPFILE), but for the instant of the replacement,
 * when path.xxxxxx may stay behind, complete. Needs little memory: the data go from
 * where they lie into the file. They are placed by the size of their elements, largest first, else
 * in the order given, so that each is aligned; equal input gives equal files, byte for byte.
 *
 * NEAP_INVALID for a tensor without dtype, a negative or too large shape, a name or a key that
 * comes twice or is no UTF-8, or a header past 100 MB; NEAP_IO if the file cannot be written.
 */
NEAP_API neap_status neap_safetensors_write(neap_allocator *allocator, const char *path,
                                            const neap_safetensor *tensors, size_t n_tensors,
                                            const neap_metadata *metadata, size_t n_metadata,
                                            neap_diag *diag);

/* ---- Reading ---- */

typedef struct neap_safetensors neap_safetensors;

/* A tensor of a file that was opened; lives as long as that. */
typedef struct neap_safetensors_entry {
    const char *name;
    neap_dtype dtype;       /* NEAP_DTYPE_UNKNOWN for those neap does not compute with: see below */
    const char *dtype_name; /* the file's word, such as "F32" */
    uint32_t rank;
    const int64_t *shape; /* rank extents, outermost first; NULL when rank is 0 */
    int64_t offset;       /* of the first byte, from the beginning of the file */
    int64_t bytes;
} neap_safetensors_entry;

/*
 * Opens a file and checks all of it that is not data: a header that is complete, at most 100 MB
 * long and well-formed; names and keys that come once; dtypes of the format (those neap does not
 * compute with - BOOL, I8, I16, U16, U32, U64, C64, F8_E4M3, F8_E5M2, F8_E8M0 - are taken as
 * bytes); sizes that are those of dtype and shape; and data that fill the file without gap, overlap
 * or rest. Memory in the order of the header's length is used, the data stay in the file, which is
 * held open.
 *
 * NEAP_INVALID names the file and the place in the header (line and column, counted from the
 * header's first byte); NEAP_IO if it cannot be read or is no ordinary file. *file is NULL then.
 */
NEAP_API neap_status neap_safetensors_open(neap_allocator *allocator, const char *path,
                                           neap_safetensors **file, neap_diag *diag);
/* NULL is fine. */
NEAP_API void neap_safetensors_close(neap_safetensors *file);

/* The tensors, in the order of their names' bytes. */
NEAP_API size_t neap_safetensors_count(const neap_safetensors *file);
NEAP_API const neap_safetensors_entry *neap_safetensors_at(const neap_safetensors *file,
                                                           size_t index);
/* The tensor of that name, or NULL. */
NEAP_API const neap_safetensors_entry *neap_safetensors_find(const neap_safetensors *file,
                                                             const char *name);

/*
 * Copies a tensor's bytes; `capacity` is the buffer's size and must be entry->bytes at least.
 * NEAP_INVALID if it is less, or the file was cut off since it was opened.
 */
NEAP_API neap_status neap_safetensors_read(const neap_safetensors *file,
                                           const neap_safetensors_entry *entry, void *buffer,
                                           size_t capacity, neap_diag *diag);

/* The texts, in the order of their keys' bytes. */
NEAP_API size_t neap_safetensors_metadata_count(const neap_safetensors *file);
NEAP_API const neap_metadata *neap_safetensors_metadata_at(const neap_safetensors *file,
                                                           size_t index);
/* The text of that key, or NULL. */
NEAP_API const char *neap_safetensors_metadata(const neap_safetensors *file, const char *key);

#ifdef __cplusplus
}
#endif
#endif
