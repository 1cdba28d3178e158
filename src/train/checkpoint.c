/*
 * Checkpoints. Weights, the state of the optimizer and running statistics are stored by the names
 * of their values. Everything else that determines how training continues is stored as texts, the
 * facts. The fact "checksums" has 16 hexadecimal digits for each array, weights first; "checksum"
 * covers all other facts.
 */
#include "base/arena.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"
#include "graph/graph_internal.h"
#include "train/safetensors_internal.h"
#include "train/trainer_internal.h"

#include <neap/text.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All arrays of a checkpoint: weights first, then each state, then running statistics. */
typedef struct array_list {
    neap_safetensor *items;
    uint32_t *values; /* of the graph: the parameter's master where it has one */
    float **copies;   /* row-major ones of arrays that are not; else NULL */
    size_t count, capacity;
    neap_allocator *allocator;
} array_list;

static int64_t bytes_of(const neap_safetensor *array)
{
    int64_t bytes = sizeof(float);
    for (uint32_t d = 0; d < array->rank; d++)
        bytes *= array->shape[d];
    return bytes;
}

static neap_status list_array(const neap_trainer *t, uint32_t value, const char *name,
                              array_list *list, neap_diag *diag)
{
    neap_array array;
    size_t i = list->count;
    neap_status status = neap_runner_array(t->runner, value, &array, diag);
    if (status != NEAP_OK)
        return status;
    list->items[i] = (neap_safetensor){.name = name,
                                       .dtype = array.dtype,
                                       .rank = array.rank,
                                       .shape = array.shape,
                                       .data = array.data};
    list->values[i] = value;
    list->count++;
    if (array.plain)
        return NEAP_OK;
    status = NEAP_NEW(t->allocator, (size_t)array.elements, &list->copies[i], diag);
    list->items[i].data = list->copies[i];
    return status == NEAP_OK ? neap_runner_read(t->runner, value, list->copies[i], diag) : status;
}

/* Names are those of the graph's values; a parameter's master has the name of the parameter. Sums
   of micro-batches are zero between steps. */
static neap_status list_arrays(const neap_trainer *t, array_list *list, neap_diag *diag)
{
    *list = (array_list){.capacity = 3 * (size_t)t->n_parameters + t->n_statistics,
                         .allocator = t->allocator};
    neap_status status = NEAP_NEW(t->allocator, list->capacity, &list->items, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(t->allocator, list->capacity, &list->values, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(t->allocator, list->capacity, &list->copies, diag);
    for (int s = -1; s < 2 && status == NEAP_OK; s++)
        for (uint32_t i = 0; i < t->n_parameters && status == NEAP_OK; i++) {
            const train_parameter *p = &t->parameters[i];
            uint32_t named = s < 0 ? p->value : p->moments[s];
            uint32_t value = s < 0 && p->master != NEAP_NONE ? p->master : named;
            if (value != NEAP_NONE)
                status = list_array(t, value, neap_graph_value(t->graph, named)->name, list, diag);
        }
    for (uint32_t i = 0; i < t->n_statistics && status == NEAP_OK; i++) {
        uint32_t value = t->statistics[i].value;
        status = list_array(t, value, neap_graph_value(t->graph, value)->name, list, diag);
    }
    return status;
}

static void clear_list(array_list *list)
{
    for (size_t i = 0; list->copies && i < list->count; i++)
        NEAP_DELETE(list->allocator, (size_t)bytes_of(&list->items[i]) / sizeof(float),
                    list->copies[i]);
    NEAP_DELETE(list->allocator, list->capacity, list->copies);
    NEAP_DELETE(list->allocator, list->capacity, list->values);
    NEAP_DELETE(list->allocator, list->capacity, list->items);
}

/* ---- Facts ---- */

#define FORMAT     "neap checkpoint 2"
#define OLD_FORMAT "neap checkpoint 1" /* without inputs, rates and checksums */

enum { MOST_FACTS = 20, DIGITS = 16 };

typedef struct facts {
    neap_metadata items[MOST_FACTS];
    size_t count;
    neap_arena texts;
    neap_status status;
} facts;

/* Adds a fact and takes ownership of the value's text. */
static void add_fact(facts *f, const char *key, neap_text *value)
{
    const char *kept = neap_arena_text(&f->texts, neap_text_get(value), value->length);
    if (value->status != NEAP_OK || !kept)
        f->status = NEAP_NO_MEMORY;
    else
        f->items[f->count++] = (neap_metadata){key, kept};
    neap_text_clear(value);
}

static void add_text(facts *f, const char *key, const char *value)
{
    f->items[f->count++] = (neap_metadata){key, value};
}

static void add_unsigned(const neap_trainer *t, facts *f, const char *key, uint64_t number)
{
    neap_text text;
    neap_text_init(&text, t->allocator);
    neap_text_printf(&text, "%" PRIu64, number);
    add_fact(f, key, &text);
}

static void add_real(const neap_trainer *t, facts *f, const char *key, double number)
{
    neap_text text;
    neap_text_init(&text, t->allocator);
    neap_text_double(&text, number);
    add_fact(f, key, &text);
}

/* "tokens 8x16, targets 8x16": every input that is data. */
static void describe_inputs(const neap_trainer *t, neap_text *text)
{
    neap_text_init(text, t->allocator);
    for (uint32_t v = 0; v < neap_graph_value_count(t->graph); v++) {
        const neap_value *value = neap_graph_value(t->graph, v);
        if (!neap_train_is_data(t->graph, v))
            continue;
        neap_text_printf(text, "%s%s", text->length ? ", " : "", value->name);
        for (uint32_t d = 0; d < value->rank; d++)
            neap_text_printf(text, "%c%lld", d ? 'x' : ' ', (long long)value->shape[d]);
    }
}

static void add_schedule(const neap_trainer *t, facts *f)
{
    const neap_train_options *o = &t->options;
    add_real(t, f, "rate", o->rate.peak);
    add_unsigned(t, f, "warmup", (uint64_t)o->rate.warmup);
    if (o->rate.kind == NEAP_LR_COSINE)
        add_unsigned(t, f, "cosine", (uint64_t)o->rate.steps);
    if (t->optimizer == NEAP_OPTIMIZER_MOMENTUM)
        add_real(t, f, "momentum", neap_op_attr_real(t->update, "momentum", 0));
    add_real(t, f, "weight_decay", neap_op_attr_real(t->update, "weight_decay", 0));
    if (t->clip_norm > 0)
        add_real(t, f, "clip_norm", t->clip_norm);
    if (t->accumulate > 1)
        add_unsigned(t, f, "accumulate", (uint64_t)t->accumulate);
}

/* Of the parameters: f32, or what masters in f32 are rounded to. */
static const char *dtype_of(const neap_trainer *t)
{
    neap_dtype dtype =
        t->n_parameters == 0 ? NEAP_F32 : neap_graph_value(t->graph, t->parameters[0].value)->dtype;
    for (uint32_t i = 0; i < t->n_parameters; i++)
        if (t->parameters[i].master != NEAP_NONE)
            dtype = neap_graph_value(t->graph, t->parameters[i].value)->dtype;
    return neap_dtype_name(dtype);
}

static uint64_t hash_of(const void *words, int64_t bytes, uint64_t hash)
{
    return neap_hash_words(hash, words, (size_t)bytes / sizeof(uint32_t));
}

static void add_checksums(const neap_trainer *t, const array_list *list, facts *f)
{
    neap_text text;
    neap_text_init(&text, t->allocator);
    for (size_t i = 0; i < list->count; i++)
        neap_text_printf(&text, "%016" PRIx64,
                         hash_of(list->items[i].data, bytes_of(&list->items[i]), NEAP_HASH_BEGIN));
    add_fact(f, "checksums", &text);
}

/* The checksum of all facts except itself, independent of their order. */
static uint64_t sum_of(uint64_t sum, const neap_metadata *fact)
{
    if (strcmp(fact->key, "checksum") == 0)
        return sum;
    uint64_t hash = neap_hash_bytes(NEAP_HASH_BEGIN, fact->key, strlen(fact->key) + 1);
    return sum + neap_hash_bytes(hash, fact->value, strlen(fact->value));
}

static void list_facts(const neap_trainer *t, const array_list *list, facts *f)
{
    neap_text inputs, sum;
    uint64_t all = 0;
    add_text(f, "format", FORMAT);
    add_text(f, "network", neap_graph_name(t->graph));
    add_text(f, "optimizer", neap_optimizer_name(t->optimizer));
    if (strcmp(dtype_of(t), "f32") != 0)
        add_text(f, "dtype", dtype_of(t));
    add_text(f, "data", t->options.data);
    add_unsigned(t, f, "step", (uint64_t)t->steps);
    add_unsigned(t, f, "seed", t->options.seed);
    describe_inputs(t, &inputs);
    add_fact(f, "inputs", &inputs);
    add_schedule(t, f);
    add_checksums(t, list, f);
    for (size_t i = 0; i < f->count; i++)
        all = sum_of(all, &f->items[i]);
    neap_text_init(&sum, t->allocator);
    neap_text_printf(&sum, "%016" PRIx64, all);
    add_fact(f, "checksum", &sum);
}

neap_status neap_trainer_save(neap_trainer *t, const char *path, neap_diag *diag)
{
    array_list list;
    facts f = {.status = NEAP_OK};
    if (t->torn)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: step %lld failed after it had updated some parameters; there is "
                         "nothing consistent to save",
                         path, (long long)t->steps + 1);
    neap_arena_init(&f.texts, t->allocator);
    neap_status status = list_arrays(t, &list, diag);
    if (status == NEAP_OK) {
        list_facts(t, &list, &f);
        status = f.status == NEAP_OK ? NEAP_OK : neap_fail_no_memory(diag);
    }
    if (status == NEAP_OK)
        status = neap_safetensors_write(t->allocator, path, list.items, list.count, f.items,
                                        f.count, diag);
    neap_arena_clear(&f.texts);
    clear_list(&list);
    return status;
}

/* ---- Resuming ---- */

static bool same_shape(const neap_safetensors_entry *entry, const neap_safetensor *array)
{
    return entry->dtype == array->dtype && entry->rank == array->rank &&
           memcmp(entry->shape, array->shape, array->rank * sizeof *array->shape) == 0;
}

static neap_status fail_other(const neap_safetensors *file, const char *path, const neap_trainer *t,
                              const char *what, const char *name, neap_diag *diag)
{
    const char *ours = neap_graph_name(t->graph),
               *theirs = neap_safetensors_metadata(file, "network");
    bool differs = theirs && strcmp(theirs, ours) != 0;
    return neap_fail(diag, NEAP_INVALID, "%s is %s%s%s%s: %s \"%s\"", path,
                     differs ? "a checkpoint of " : "", differs ? theirs : "",
                     differs ? ", not of " : "not a checkpoint of ", ours, what, name);
}

/* Checks that the file has exactly the arrays that the training needs. */
static neap_status check_arrays(const neap_trainer *t, const neap_safetensors *file,
                                const array_list *list, const char *path, neap_diag *diag)
{
    for (size_t i = 0; i < list->count; i++) {
        const neap_safetensors_entry *entry = neap_safetensors_find(file, list->items[i].name);
        if (!entry)
            return fail_other(file, path, t, "it lacks", list->items[i].name, diag);
        if (!same_shape(entry, &list->items[i]))
            return fail_other(file, path, t, "the shape or type differs for", list->items[i].name,
                              diag);
    }
    if (neap_safetensors_count(file) == list->count)
        return NEAP_OK;
    for (size_t i = 0; i < neap_safetensors_count(file); i++) {
        const char *name = neap_safetensors_at(file, i)->name;
        bool known = false;
        for (size_t k = 0; k < list->count && !known; k++)
            known = strcmp(list->items[k].name, name) == 0;
        if (!known)
            return fail_other(file, path, t, "the training has no", name, diag);
    }
    return NEAP_OK;
}

static neap_status read_number(const neap_safetensors *file, const char *path, const char *key,
                               uint64_t most, uint64_t *number, neap_diag *diag)
{
    const char *text = neap_safetensors_metadata(file, key);
    char *end = NULL;
    errno = 0;
    if (text && *text >= '0' && *text <= '9')
        *number = strtoull(text, &end, 10);
    if (!end || *end || errno || *number > most)
        return neap_fail(diag, NEAP_INVALID, "%s is not a neap checkpoint: it has no valid %s",
                         path, key);
    return NEAP_OK;
}

static neap_status fail_not_ours(const char *path, const char *why, neap_diag *diag)
{
    return neap_fail(diag, NEAP_INVALID, "%s is not a neap checkpoint: %s", path, why);
}

/* Checks a fact that must be the same in the file and here; `remedy` says what to do. */
static neap_status check_fact(const neap_safetensors *file, const char *path, const char *key,
                              const char *ours, const char *remedy, neap_diag *diag)
{
    const char *theirs = neap_safetensors_metadata(file, key);
    if (!theirs)
        return neap_fail(diag, NEAP_INVALID, "%s is damaged: it has no %s", path, key);
    if (strcmp(theirs, ours) == 0)
        return NEAP_OK;
    return neap_fail(diag, NEAP_INVALID, "%s was trained with %s \"%s\", not \"%s\"; %s", path, key,
                     theirs, ours, remedy);
}

static neap_status check_facts(const neap_trainer *t, const neap_safetensors *file,
                               const char *path, bool *old, neap_diag *diag)
{
    const char *optimizer = neap_safetensors_metadata(file, "optimizer");
    const char *format = neap_safetensors_metadata(file, "format");
    const char *dtype = neap_safetensors_metadata(file, "dtype");
    if (!optimizer)
        return fail_not_ours(path, "it names no optimizer", diag);
    if (strcmp(optimizer, neap_optimizer_name(t->optimizer)) != 0)
        return neap_fail(diag, NEAP_INVALID,
                         "%s was trained with the optimizer %s; resume with that, not with %s",
                         path, optimizer, neap_optimizer_name(t->optimizer));
    if (!dtype)
        dtype = "f32";
    if (strcmp(dtype, dtype_of(t)) != 0)
        return neap_fail(diag, NEAP_INVALID,
                         "%s was trained with parameters in %s; resume with those, not in %s", path,
                         dtype, dtype_of(t));
    *old = format && strcmp(format, OLD_FORMAT) == 0;
    if (!*old && (!format || strcmp(format, FORMAT) != 0))
        return fail_not_ours(path, "its format is neither \"" FORMAT "\" nor \"" OLD_FORMAT "\"",
                             diag);
    return NEAP_OK;
}

/* Checks the facts that determine the following batches. */
static neap_status check_batches(const neap_trainer *t, const neap_safetensors *file,
                                 const char *path, neap_diag *diag)
{
    neap_text inputs;
    const char *runs = neap_safetensors_metadata(file, "accumulate");
    neap_status status =
        check_fact(file, path, "data", t->options.data, "continue with the same data set", diag);
    if (status != NEAP_OK)
        return status;
    if (strtoll(runs ? runs : "1", NULL, 10) != t->accumulate)
        return neap_fail(
            diag, NEAP_INVALID,
            "%s was trained with %s micro-batch%s in a step, not %lld; continue with as "
            "many",
            path, runs ? runs : "1", runs ? "es" : "", (long long)t->accumulate);
    describe_inputs(t, &inputs);
    status = inputs.status == NEAP_OK ? check_fact(file, path, "inputs", neap_text_get(&inputs),
                                                   "continue with the same batch and sizes", diag)
                                      : neap_fail_no_memory(diag);
    neap_text_clear(&inputs);
    return status;
}

/* ---- Checksums ---- */

/* Reads 16 hexadecimal digits at `text`; false if they are not digits. */
static bool read_sum(const char *text, uint64_t *sum)
{
    *sum = 0;
    for (int i = 0; i < DIGITS; i++) {
        const char *digit = text[i] ? strchr("0123456789abcdef", text[i]) : NULL;
        if (!digit)
            return false;
        *sum = *sum << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
    return true;
}

static bool facts_are_whole(const neap_safetensors *file)
{
    const char *text = neap_safetensors_metadata(file, "checksum");
    uint64_t expected, sum = 0;
    for (size_t i = 0; i < neap_safetensors_metadata_count(file); i++)
        sum = sum_of(sum, neap_safetensors_metadata_at(file, i));
    return text && read_sum(text, &expected) && !text[DIGITS] && sum == expected;
}

/* In parts, to use little memory. */
static neap_status hash_entry(neap_allocator *allocator, const neap_safetensors *file,
                              const neap_safetensors_entry *entry, uint64_t *hash, neap_diag *diag)
{
    enum { PART = 1 << 16 };
    uint32_t *part;
    neap_status status = NEAP_NEW(allocator, PART, &part, diag);
    *hash = NEAP_HASH_BEGIN;
    for (int64_t at = 0, bytes; at < entry->bytes && status == NEAP_OK; at += bytes) {
        bytes = entry->bytes - at;
        if (bytes > (int64_t)(PART * sizeof *part))
            bytes = (int64_t)(PART * sizeof *part);
        status = neap_safetensors_read_part(file, entry, at, part, (size_t)bytes, diag);
        if (status == NEAP_OK)
            *hash = hash_of(part, bytes, *hash);
    }
    NEAP_DELETE(allocator, PART, part);
    return status;
}

static neap_status check_sums(const neap_safetensors *file, const char *path,
                              const array_list *list, neap_diag *diag)
{
    const char *sums = neap_safetensors_metadata(file, "checksums");
    neap_status status = NEAP_OK;
    if (!facts_are_whole(file) || !sums || strlen(sums) != DIGITS * list->count)
        return neap_fail(diag, NEAP_INVALID,
                         "%s is damaged: its header does not match its checksum; resume from "
                         "another checkpoint",
                         path);
    for (size_t i = 0; i < list->count && status == NEAP_OK; i++) {
        const char *name = list->items[i].name;
        uint64_t expected, hash;
        status = hash_entry(list->allocator, file, neap_safetensors_find(file, name), &hash, diag);
        if (status == NEAP_OK && (!read_sum(sums + DIGITS * i, &expected) || hash != expected))
            status = neap_fail(diag, NEAP_INVALID,
                               "%s is damaged: the data of \"%s\" do not match their checksum; "
                               "resume from another checkpoint",
                               path, name);
    }
    return status;
}

/* Reads arrays that were already checked: this fails only if the file changes meanwhile. */
static neap_status read_arrays(neap_trainer *t, const neap_safetensors *file,
                               const array_list *list, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (size_t i = 0; i < list->count && status == NEAP_OK; i++) {
        const neap_safetensors_entry *entry = neap_safetensors_find(file, list->items[i].name);
        status = neap_safetensors_read(file, entry, (void *)(uintptr_t)list->items[i].data,
                                       (size_t)entry->bytes, diag);
        if (status == NEAP_OK)
            status = list->copies[i]
                         ? neap_runner_write(t->runner, list->values[i], list->copies[i], diag)
                         : neap_runner_commit(t->runner, list->values[i], diag);
    }
    for (uint32_t i = 0; i < t->n_parameters && status == NEAP_OK; i++)
        if (t->parameters[i].master != NEAP_NONE) /* parameters come first in the list */
            status = neap_train_write_rounded(t, &t->parameters[i], list->items[i].data, diag);
    return status;
}

neap_status neap_trainer_resume(neap_trainer *t, const char *path, neap_diag *diag)
{
    neap_safetensors *file = NULL;
    array_list list;
    uint64_t step = 0, seed = 0;
    bool old = false;
    neap_status status = list_arrays(t, &list, diag);
    if (status == NEAP_OK)
        status = neap_safetensors_open(t->allocator, path, &file, diag);
    if (status == NEAP_OK)
        status = check_facts(t, file, path, &old, diag);
    if (status == NEAP_OK)
        status = check_arrays(t, file, &list, path, diag);
    if (status == NEAP_OK)
        status = read_number(file, path, "step", INT64_MAX / 2, &step, diag);
    if (status == NEAP_OK)
        status = read_number(file, path, "seed", UINT64_MAX, &seed, diag);
    if (status == NEAP_OK && !old)
        status = check_batches(t, file, path, diag);
    if (status == NEAP_OK && !old)
        status = check_sums(file, path, &list, diag);
    if (status == NEAP_OK)
        status = read_arrays(t, file, &list, diag);
    if (status == NEAP_OK) {
        t->steps = (int64_t)step;
        t->options.seed = seed;
    }
    neap_safetensors_close(file);
    clear_list(&list);
    return status;
}
