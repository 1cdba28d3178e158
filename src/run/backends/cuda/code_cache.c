/*
 * A file of compiled code: a line with a word, the format's version, the key's second hash, the
 * number of bytes and their hash; then the bytes.
 */
#include "run/backends/cuda/code_cache.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 80 /* of the first line, with its NUL */

bool neap_cuda_cache_folder(neap_text *path)
{
    const char *own = getenv("NEAP_CACHE_DIR"), *base = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (own && *own)
        neap_text_puts(path, own);
    else if (base && *base)
        neap_text_printf(path, "%s/neap", base);
    else if (home && *home)
        neap_text_printf(path, "%s/.cache/neap", home);
    return path->length > 0 && strcmp(path->text, "none") != 0;
}

/* The path of a key's file; false if there is no folder for it. */
static bool set_path(neap_text *path, const cuda_code_key *key)
{
    if (!neap_cuda_cache_folder(path))
        return false;
    neap_text_printf(path, "/kernels/%s-nvrtc%s", key->name, *key->compiler ? key->compiler : "*");
    return true;
}

static size_t make_head(char *head, const cuda_code_key *key, const char *data, size_t bytes)
{
    uint64_t hash = neap_hash_bytes(NEAP_HASH_BEGIN, data, bytes);
    return (size_t)snprintf(head, HEAD_BYTES, "neap-kernels 1 %016" PRIx64 " %zu %016" PRIx64 "\n",
                            key->check, bytes, hash);
}

/* ---- Reading ---- */

static neap_status read_file(neap_allocator *allocator, const cuda_code_key *key, const char *path,
                             cuda_code *code, bool *found, neap_diag *diag)
{
    char *text, head[HEAD_BYTES];
    size_t length;
    neap_status status = neap_file_read(allocator, path, &text, &length, diag);
    if (status != NEAP_OK)
        return status == NEAP_NO_MEMORY ? status : NEAP_OK;
    const char *line = memchr(text, '\n', length);
    size_t head_length = line ? (size_t)(line - text) + 1 : 0;
    if (line && make_head(head, key, line + 1, length - head_length) == head_length &&
        memcmp(head, text, head_length) == 0) {
        code->bytes = length - head_length;
        status = NEAP_NEW(allocator, code->bytes, &code->data, diag);
        *found = status == NEAP_OK;
        if (*found)
            memcpy(code->data, line + 1, code->bytes);
    }
    NEAP_DELETE(allocator, length + 1, text);
    return status;
}

/* The last of the files that a pattern names. */
static neap_status read_any(neap_allocator *allocator, const cuda_code_key *key,
                            const char *pattern, cuda_code *code, bool *found, neap_diag *diag)
{
    glob_t files;
    neap_status status = NEAP_OK;
    if (glob(pattern, 0, NULL, &files) != 0)
        return NEAP_OK;
    for (size_t i = files.gl_pathc; i > 0 && !*found && status == NEAP_OK; i--)
        status = read_file(allocator, key, files.gl_pathv[i - 1], code, found, diag);
    globfree(&files);
    return status;
}

neap_status neap_cuda_code_read(neap_allocator *allocator, const cuda_code_key *key,
                                cuda_code *code, bool *found, neap_diag *diag)
{
    neap_text path;
    neap_status status = NEAP_OK;
    neap_text_init(&path, allocator);
    *found = false;
    if (set_path(&path, key)) {
        if (path.status != NEAP_OK)
            status = neap_fail_no_memory(diag);
        else if (*key->compiler)
            status = read_file(allocator, key, path.text, code, found, diag);
        else
            status = read_any(allocator, key, path.text, code, found, diag);
    }
    neap_text_clear(&path);
    return status;
}

/* ---- Writing ---- */

void neap_cuda_code_write(neap_allocator *allocator, const cuda_code_key *key,
                          const cuda_code *code)
{
    neap_text path;
    char head[HEAD_BYTES];
    neap_text_init(&path, allocator);
    if (set_path(&path, key) && path.status == NEAP_OK &&
        neap_file_make_folders(allocator, path.text, NULL) == NEAP_OK) {
        neap_file_piece pieces[] = {{head, make_head(head, key, code->data, code->bytes)},
                                    {code->data, code->bytes}};
        (void)neap_file_write_pieces(allocator, path.text, pieces, 2, NULL);
    }
    neap_text_clear(&path);
}
