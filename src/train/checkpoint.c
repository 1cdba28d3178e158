/*
 * Checkpoints: weights by their names, the optimizer's state as "optimizer.<state>.<name>", and
 * what else a training goes on from as texts.
 */
#include "base/arena.h"
#include "base/fail.h"
#include "base/memory.h"
#include "train/trainer_internal.h"

#include <neap/safetensors.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *optimizer_name(neap_optimizer optimizer)
{
    return optimizer == NEAP_OPTIMIZER_ADAM       ? "adam"
           : optimizer == NEAP_OPTIMIZER_MOMENTUM ? "momentum"
                                                  : "sgd";
}

/* "momentum"; "m", "v". */
static const char *state_name(const neap_trainer *t, int s)
{
    return t->options.optimizer == NEAP_OPTIMIZER_MOMENTUM ? "momentum" : s ? "v" : "m";
}

/* All arrays of a checkpoint: weights first, then each state. */
typedef struct array_list {
    neap_safetensor *items;
    size_t count, capacity;
    neap_arena names;
    neap_allocator *allocator;
} array_list;

static const char *name_state(array_list *list, const neap_trainer *t, int s, const char *name)
{
    size_t size = strlen(name) + sizeof "optimizer.momentum.";
    char *text = neap_arena_alloc(&list->names, size, 1);
    if (text)
        snprintf(text, size, "optimizer.%s.%s", state_name(t, s), name);
    return text;
}

static neap_status list_arrays(const neap_trainer *t, array_list *list, neap_diag *diag)
{
    *list = (array_list){.capacity = 3 * (size_t)t->n_parameters, .allocator = t->allocator};
    neap_arena_init(&list->names, t->allocator);
    neap_status status = NEAP_NEW(t->allocator, list->capacity, &list->items, diag);
    for (int s = -1; s < 2 && status == NEAP_OK; s++)
        for (uint32_t i = 0; i < t->n_parameters; i++) {
            const train_parameter *p = &t->parameters[i];
            const float *data = s < 0 ? p->weights : p->state[s];
            const char *name = s < 0 ? p->name : data ? name_state(list, t, s, p->name) : "";
            if (!name)
                return neap_fail_no_memory(diag);
            if (data)
                list->items[list->count++] = (neap_safetensor){.name = name,
                                                               .dtype = NEAP_F32,
                                                               .rank = p->rank,
                                                               .shape = p->shape,
                                                               .data = data};
        }
    return status;
}

static void clear_list(array_list *list)
{
    NEAP_DELETE(list->allocator, list->capacity, list->items);
    neap_arena_clear(&list->names);
}

neap_status neap_trainer_save(neap_trainer *t, const char *path, neap_diag *diag)
{
    char step[24], seed[24];
    snprintf(step, sizeof step, "%" PRId64, t->steps);
    snprintf(seed, sizeof seed, "%" PRIu64, t->options.seed);
    const neap_metadata facts[] = {{"format", "neap checkpoint 1"},
                                   {"network", neap_graph_name(t->graph)},
                                   {"optimizer", optimizer_name(t->options.optimizer)},
                                   {"data", t->options.data},
                                   {"step", step},
                                   {"seed", seed}};
    array_list list;
    neap_status status = list_arrays(t, &list, diag);
    if (status == NEAP_OK)
        status = neap_safetensors_write(t->allocator, path, list.items, list.count, facts,
                                        sizeof facts / sizeof *facts, diag);
    clear_list(&list);
    return status;
}

/* ---- Resuming ---- */

static bool same_shape(const neap_safetensors_entry *entry, const neap_safetensor *array)
{
    return entry->dtype == array->dtype && entry->rank == array->rank &&
           memcmp(entry->shape, array->shape, array->rank * sizeof *array->shape) == 0;
}

static neap_status fail_other(const char *path, const neap_trainer *t, const char *what,
                              const char *name, neap_diag *diag)
{
    return neap_fail(diag, NEAP_INVALID, "%s is no checkpoint of %s: %s \"%s\"", path,
                     neap_graph_name(t->graph), what, name);
}

/* Everything the training needs is there and nothing else. */
static neap_status check_arrays(const neap_trainer *t, const neap_safetensors *file,
                                const array_list *list, const char *path, neap_diag *diag)
{
    for (size_t i = 0; i < list->count; i++) {
        const neap_safetensors_entry *entry = neap_safetensors_find(file, list->items[i].name);
        if (!entry)
            return fail_other(path, t, "it lacks", list->items[i].name, diag);
        if (!same_shape(entry, &list->items[i]))
            return fail_other(path, t, "another shape or type has", list->items[i].name, diag);
    }
    if (neap_safetensors_count(file) == list->count)
        return NEAP_OK;
    for (size_t i = 0; i < neap_safetensors_count(file); i++) {
        const char *name = neap_safetensors_at(file, i)->name;
        bool known = false;
        for (size_t k = 0; k < list->count && !known; k++)
            known = strcmp(list->items[k].name, name) == 0;
        if (!known)
            return fail_other(path, t, "the training has no", name, diag);
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
        return neap_fail(diag, NEAP_INVALID, "%s is no checkpoint of neap: it does not say its %s",
                         path, key);
    return NEAP_OK;
}

static neap_status check_facts(const neap_trainer *t, const neap_safetensors *file,
                               const char *path, neap_diag *diag)
{
    const char *optimizer = neap_safetensors_metadata(file, "optimizer");
    if (!optimizer)
        return neap_fail(diag, NEAP_INVALID, "%s is no checkpoint of neap: it names no optimizer",
                         path);
    if (strcmp(optimizer, optimizer_name(t->options.optimizer)) != 0)
        return neap_fail(diag, NEAP_INVALID,
                         "%s was trained with the optimizer %s; resume with that, not with %s",
                         path, optimizer, optimizer_name(t->options.optimizer));
    return NEAP_OK;
}

/* Reads what was checked before: only a file that changes meanwhile can still fail. */
static neap_status read_arrays(const neap_safetensors *file, const array_list *list,
                               neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (size_t i = 0; i < list->count && status == NEAP_OK; i++) {
        const neap_safetensors_entry *entry = neap_safetensors_find(file, list->items[i].name);
        status = neap_safetensors_read(file, entry, (void *)(uintptr_t)list->items[i].data,
                                       (size_t)entry->bytes, diag);
    }
    return status;
}

neap_status neap_trainer_resume(neap_trainer *t, const char *path, neap_diag *diag)
{
    neap_safetensors *file = NULL;
    array_list list;
    uint64_t step = 0, seed = 0;
    neap_status status = list_arrays(t, &list, diag);
    if (status == NEAP_OK)
        status = neap_safetensors_open(t->allocator, path, &file, diag);
    if (status == NEAP_OK)
        status = check_facts(t, file, path, diag);
    if (status == NEAP_OK)
        status = check_arrays(t, file, &list, path, diag);
    if (status == NEAP_OK)
        status = read_number(file, path, "step", INT64_MAX / 2, &step, diag);
    if (status == NEAP_OK)
        status = read_number(file, path, "seed", UINT64_MAX, &seed, diag);
    if (status == NEAP_OK)
        status = read_arrays(file, &list, diag);
    if (status == NEAP_OK) {
        t->steps = (int64_t)step;
        t->options.seed = seed;
    }
    neap_safetensors_close(file);
    clear_list(&list);
    return status;
}
