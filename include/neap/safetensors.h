/*
 * neap/safetensors.h - named tensors in a file that other programs can read.
 *
 * The format is Hugging Face's safetensors: eight bytes with the length of a header (little
 * endian), a JSON header with the dtype, shape and file position of each tensor and, under
 * "__metadata__", texts by key; then the bytes of the tensors, without gaps. Such a file contains
 * no code.
 *
 * Multi-byte elements are little endian in the file. neap copies bytes without conversion, so it
 * supports little-endian machines only.
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

/* A text stored with the tensors, such as {"step", "1200"}. */
typedef struct neap_metadata {
    const char *key, *value; /* UTF-8 */
} neap_metadata;

/* ---- Writing ---- */

/* A tensor to be written. */
typedef struct neap_safetensor {
    const char *name; /* UTF-8, unique, not "__metadata__" */
    neap_dtype dtype; /* not NEAP_DTYPE_UNKNOWN */
    uint32_t rank;    /* 0: a scalar */
    const int64_t *shape;
    const void *data; /* row-major elements; NULL if there are none */
} neap_safetensor;

/*
 * Writes a file atomically: to a temporary file in the same folder, which replaces the old file
 * once all data is on disk. On failure (such as a full disk) the old file is unchanged and the
 * temporary file is removed. The same holds if the process is killed while writing, on Linux file
 * systems that support O_TMPFILE; only at the moment of replacement may a complete path.xxxxxx
 * remain. Needs little memory: the data is written directly from the caller's arrays. Tensors are
 * ordered by element size, largest first, and otherwise as given, so that each is aligned. Equal
 * input gives equal files, byte for byte.
 *
 * NEAP_INVALID for a tensor without dtype, a negative or too large shape, a name or key that is a
 * duplicate or not UTF-8, or a header over 100 MB; NEAP_IO if the file cannot be written.
 */
NEAP_API neap_status neap_safetensors_write(neap_allocator *allocator, const char *path,
                                            const neap_safetensor *tensors, size_t n_tensors,
                                            const neap_metadata *metadata, size_t n_metadata,
                                            neap_diag *diag);

/* ---- Reading ---- */

typedef struct neap_safetensors neap_safetensors;

/* A tensor of an open file; valid until the file is closed. */
typedef struct neap_safetensors_entry {
    const char *name;
    neap_dtype dtype;       /* NEAP_DTYPE_UNKNOWN for types that neap does not compute with */
    const char *dtype_name; /* as in the file, such as "F32" */
    uint32_t rank;
    const int64_t *shape; /* rank extents, outermost first; NULL when rank is 0 */
    int64_t offset;       /* of the first byte, from the beginning of the file */
    int64_t bytes;
} neap_safetensors_entry;

/*
 * Opens a file and checks everything except the data: the header is complete, well-formed and at
 * most 100 MB long; names and keys are unique; dtypes belong to the format; sizes match dtype and
 * shape; and the data fills the file without gaps, overlaps or trailing bytes. Tensors with a dtype
 * that neap does not compute with (BOOL, I8, I16, U16, U32, U64, C64, F8_E4M3, F8_E5M2, F8_E8M0)
 * are read as bytes. Memory use is proportional to the header; the data stays in the file, which
 * remains open.
 *
 * NEAP_INVALID for an invalid file; the message has the file and the position in the header (line
 * and column, counted from its first byte). NEAP_IO if the file cannot be read or is not a regular
 * file. On failure *file is NULL.
 */
NEAP_API neap_status neap_safetensors_open(neap_allocator *allocator, const char *path,
                                           neap_safetensors **file, neap_diag *diag);
/* `file` may be NULL. */
NEAP_API void neap_safetensors_close(neap_safetensors *file);

/* The tensors, in byte order of their names. */
NEAP_API size_t neap_safetensors_count(const neap_safetensors *file);
NEAP_API const neap_safetensors_entry *neap_safetensors_at(const neap_safetensors *file,
                                                           size_t index);
/* The tensor with this name, or NULL. */
NEAP_API const neap_safetensors_entry *neap_safetensors_find(const neap_safetensors *file,
                                                             const char *name);

/*
 * Copies the bytes of a tensor. `capacity`, the size of the buffer, must be at least entry->bytes.
 * NEAP_INVALID if it is less, or if the file was truncated after it was opened.
 */
NEAP_API neap_status neap_safetensors_read(const neap_safetensors *file,
                                           const neap_safetensors_entry *entry, void *buffer,
                                           size_t capacity, neap_diag *diag);

/* The texts, in byte order of their keys. */
NEAP_API size_t neap_safetensors_metadata_count(const neap_safetensors *file);
NEAP_API const neap_metadata *neap_safetensors_metadata_at(const neap_safetensors *file,
                                                           size_t index);
/* The text with this key, or NULL. */
NEAP_API const char *neap_safetensors_metadata(const neap_safetensors *file, const char *key);

#ifdef __cplusplus
}
#endif
#endif
