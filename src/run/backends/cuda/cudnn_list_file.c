/*
 * Lists of algorithms in files, one for each problem: convolutions/<hash> in the folder of cached
 * kernels.
 *
 * A file is text: a line with a word, the format's version and the hash of what follows; a line
 * with the machine and the problem's signature; then a line of numbers for each algorithm. What is
 * not exactly that counts as not there.
 */
#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "run/backends/cuda/code_cache.h"
#include "run/backends/cuda/cudnn_conv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION    1 /* of the format; that of the search is in the machine's name */
#define HEAD_BYTES 64

/* The machine and the problem, on which the list depends. */
static void put_key(const cuda_backend *backend, const cudnn_conv_list *list, neap_text *text)
{
    neap_text_printf(text, "%s: %s", backend->base.machine, list->sign);
}

/* False if there is no place for it. */
static bool put_path(const cuda_backend *backend, const cudnn_conv_list *list, neap_text *path)
{
    neap_text key;
    if (!backend->base.machine[0] || !neap_cuda_cache_folder(path))
        return false;
    neap_text_init(&key, backend->libraries->allocator);
    put_key(backend, list, &key);
    bool known = key.status == NEAP_OK && !strchr(key.text, '\n');
    if (known)
        neap_text_printf(path, "/convolutions/%016" PRIx64,
                         neap_hash_bytes(NEAP_HASH_BEGIN, key.text, key.length));
    neap_text_clear(&key);
    return known && path->status == NEAP_OK;
}

static size_t put_head(char head[HEAD_BYTES], const char *body, size_t length)
{
    return (size_t)snprintf(head, HEAD_BYTES, "neap-convolution %d %016" PRIx64 "\n", VERSION,
                            neap_hash_bytes(NEAP_HASH_BEGIN, body, length));
}

/* ---- Writing ---- */

static void put_engine(const cudnn_engine *engine, neap_text *text)
{
    neap_text_printf(text, " %" PRId64 " %" PRIu32 " %" PRIu32 " %" PRId64, engine->index,
                     engine->notes, engine->behaviour, engine->n_knobs);
    for (int64_t i = 0; i < engine->n_knobs; i++)
        neap_text_printf(text, " %d %" PRId64, engine->knob_types[i], engine->knob_values[i]);
}

static void put_body(const cuda_backend *backend, const cudnn_conv_list *list, neap_text *text)
{
    put_key(backend, list, text);
    neap_text_putc(text, '\n');
    for (size_t i = 0; i < list->count; i++) {
        const cudnn_candidate *item = &list->items[i];
        neap_text_printf(text, "%d %" PRId64 " %d %" PRId64, item->origin, item->parts, item->fused,
                         item->workspace);
        put_engine(&item->engine, text);
        put_engine(&item->first, text);
        neap_text_putc(text, '\n');
    }
}

void neap_cudnn_list_write(const cuda_backend *backend, const cudnn_conv_list *list)
{
    neap_allocator *allocator = backend->libraries->allocator;
    neap_text path, body;
    char head[HEAD_BYTES];
    neap_text_init(&path, allocator);
    neap_text_init(&body, allocator);
    put_body(backend, list, &body);
    if (put_path(backend, list, &path) && body.status == NEAP_OK &&
        neap_file_make_folders(allocator, path.text, NULL) == NEAP_OK) {
        neap_file_piece pieces[] = {{head, put_head(head, body.text, body.length)},
                                    {body.text, body.length}};
        (void)neap_file_write_pieces(allocator, path.text, pieces, 2, NULL);
    }
    neap_text_clear(&body);
    neap_text_clear(&path);
}

/* ---- Reading ---- */

/* Takes a number off the text; `ok` stays false once there was none in the range. */
static int64_t take(char **text, int64_t least, int64_t most, bool *ok)
{
    char *end = *text;
    errno = 0;
    long long number = strtoll(*text, &end, 10);
    *ok = *ok && end != *text && errno == 0 && number >= least && number <= most;
    *text = end;
    return *ok ? number : least;
}

static void take_engine(char **text, cudnn_engine *engine, bool *ok)
{
    engine->index = take(text, 0, INT32_MAX, ok);
    engine->notes = (uint32_t)take(text, 0, UINT32_MAX, ok);
    engine->behaviour = (uint32_t)take(text, 0, UINT32_MAX, ok);
    engine->n_knobs = take(text, 0, CUDNN_MOST_KNOBS, ok);
    for (int64_t i = 0; i < engine->n_knobs && *ok; i++) {
        engine->knob_types[i] = (int)take(text, INT32_MIN, INT32_MAX, ok);
        engine->knob_values[i] = take(text, INT64_MIN, INT64_MAX, ok);
    }
}

static void take_candidate(char **text, cudnn_candidate *item, bool *ok)
{
    *item = (cudnn_candidate){.build_seconds = -1};
    item->origin = (char)take(text, 0, 127, ok);
    item->parts = take(text, 1, CUDNN_MOST_PARTS, ok);
    item->fused = take(text, 0, 1, ok) != 0;
    item->workspace = take(text, 0, INT64_MAX / 2, ok);
    take_engine(text, &item->engine, ok);
    take_engine(text, &item->first, ok);
    *ok = *ok && **text == '\n';
    *text += *ok;
}

/* `text` ends with a NUL. */
static neap_status take_body(char *text, cudnn_conv_list *list, bool *found, neap_diag *diag)
{
    bool ok = true;
    while (*text && ok) {
        NEAP_TRY(NEAP_RESERVE(list->bag.libraries->allocator, list->count + 1, &list->items,
                              &list->capacity, diag));
        take_candidate(&text, &list->items[list->count], &ok);
        list->count += ok;
    }
    *found = ok;
    list->count = ok ? list->count : 0;
    return NEAP_OK;
}

/* The text behind head and key, or NULL if they are not what they must be. */
static char *skip_head(const cuda_backend *backend, const cudnn_conv_list *list, char *text,
                       size_t length)
{
    char head[HEAD_BYTES], *body = memchr(text, '\n', length);
    neap_text key;
    if (!body)
        return NULL;
    body++;
    size_t body_length = length - (size_t)(body - text),
           head_length = put_head(head, body, body_length);
    if (head_length != (size_t)(body - text) || memcmp(head, text, head_length) != 0)
        return NULL;
    neap_text_init(&key, backend->libraries->allocator);
    put_key(backend, list, &key);
    bool same = key.status == NEAP_OK && key.length < body_length &&
                memcmp(key.text, body, key.length) == 0 && body[key.length] == '\n';
    body += key.length + 1;
    neap_text_clear(&key);
    return same ? body : NULL;
}

neap_status neap_cudnn_list_read(const cuda_backend *backend, cudnn_conv_list *list, bool *found,
                                 neap_diag *diag)
{
    neap_allocator *allocator = backend->libraries->allocator;
    neap_text path;
    char *text = NULL;
    size_t length = 0;
    neap_status status = NEAP_OK;
    *found = false;
    neap_text_init(&path, allocator);
    if (put_path(backend, list, &path) &&
        neap_file_read(allocator, path.text, &text, &length, NULL) == NEAP_OK) {
        char *body = skip_head(backend, list, text, length);
        if (body)
            status = take_body(body, list, found, diag);
        NEAP_DELETE(allocator, length + 1, text);
    }
    neap_text_clear(&path);
    return status;
}
