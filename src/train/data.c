/* neap/data.h: finds the data set that a text names, and makes its batches. */
#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "train/data_internal.h"

#include <neap/text.h>

#include <stdio.h>
#include <string.h>

static const neap_data_kind kinds[] = {
    {"synthetic", "synthetic", false, neap_data_synthetic_open, NULL, NULL},
    {"mnist", "mnist:DIR", true, neap_data_mnist_open, neap_data_records_read,
     neap_data_records_close},
    {"cifar10", "cifar10:DIR", true, neap_data_cifar10_open, neap_data_records_read,
     neap_data_records_close},
    {"images", "images:DIR", true, neap_data_folder_open, neap_data_folder_read,
     neap_data_folder_close},
};

#define N_KINDS (sizeof kinds / sizeof *kinds)

uint32_t neap_datasets_count(void)
{
    return N_KINDS;
}

const char *neap_datasets_form(uint32_t index)
{
    return index < N_KINDS ? kinds[index].form : NULL;
}

/* ---- Opening ---- */

static neap_status fail_unknown(const char *spec, size_t length, neap_diag *diag)
{
    char name[40], forms[120] = "";
    size_t used = 0;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), spec);
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (size_t i = 0; i < N_KINDS; i++)
        neap_suggestion_offer(&suggestion, kinds[i].name);
    for (size_t i = 0; i < N_KINDS && used < sizeof forms; i++)
        used += (size_t)snprintf(forms + used, sizeof forms - used, "%s%s", i ? ", " : "",
                                 kinds[i].form);
    return neap_fail(diag, NEAP_INVALID, "\"%s\" is not a data set; there are %s%s%s%s", spec,
                     forms, suggestion.best ? "; did you mean " : "",
                     suggestion.best ? suggestion.best : "", suggestion.best ? "?" : "");
}

/*
 * The kind of data set at the start of a spec; *folder is set to the text after the colon, or NULL.
 */
static neap_status find_kind(const char *spec, const neap_data_kind **kind, const char **folder,
                             neap_diag *diag)
{
    size_t length = strcspn(spec, ":");
    *folder = spec[length] == ':' ? spec + length + 1 : NULL;
    for (size_t i = 0; i < N_KINDS; i++) {
        if (strlen(kinds[i].name) != length || memcmp(kinds[i].name, spec, length) != 0)
            continue;
        *kind = &kinds[i];
        if (kinds[i].has_folder && (!*folder || !**folder))
            return neap_fail(diag, NEAP_INVALID, "%s needs the folder of its files: %s",
                             kinds[i].name, kinds[i].form);
        if (!kinds[i].has_folder && *folder)
            return neap_fail(diag, NEAP_INVALID, "%s data has no folder: write only %s",
                             kinds[i].name, kinds[i].name);
        return NEAP_OK;
    }
    return fail_unknown(spec, length, diag);
}

static neap_status check_wanted(const neap_data_kind *kind, const neap_dataset_shape *wanted,
                                neap_diag *diag)
{
    if (wanted->channels < 0 || wanted->height < 0 || wanted->width < 0 || wanted->classes < 0)
        return neap_fail(diag, NEAP_INVALID,
                         "samples of %lld x %lld x %lld in %lld classes: none may be negative",
                         (long long)wanted->channels, (long long)wanted->height,
                         (long long)wanted->width, (long long)wanted->classes);
    if (kind->has_folder && wanted->channels != 0 && wanted->channels != 1 && wanted->channels != 3)
        return neap_fail(diag, NEAP_INVALID,
                         "%s has pictures of 1 or 3 channels, the network takes %lld", kind->name,
                         (long long)wanted->channels);
    return NEAP_OK;
}

/* Checks that the bytes of a sample do not overflow later. */
static neap_status check_shape(const neap_dataset_shape *shape, neap_diag *diag)
{
    int64_t bytes = (int64_t)sizeof(float);
    if (neap_mul_i64(bytes, shape->channels, &bytes) &&
        neap_mul_i64(bytes, shape->height, &bytes) && neap_mul_i64(bytes, shape->width, &bytes) &&
        shape->height <= INT32_MAX && shape->width <= INT32_MAX && shape->channels <= INT32_MAX &&
        shape->classes <= INT32_MAX)
        return NEAP_OK;
    return neap_fail(diag, NEAP_INVALID, "samples of %lld x %lld x %lld in %lld classes: too large",
                     (long long)shape->channels, (long long)shape->height, (long long)shape->width,
                     (long long)shape->classes);
}

neap_status neap_dataset_open(neap_allocator *allocator, const char *spec,
                              const neap_dataset_shape *wanted, neap_dataset **dataset,
                              neap_diag *diag)
{
    static const neap_dataset_shape open_shape = {0, 0, 0, 0};
    const neap_data_kind *kind = NULL;
    const char *folder;
    neap_dataset *d;
    *dataset = NULL;
    allocator = neap_allocator_or_system(allocator);
    wanted = wanted ? wanted : &open_shape;
    neap_status status = find_kind(spec, &kind, &folder, diag);
    if (status == NEAP_OK)
        status = check_wanted(kind, wanted, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, 1, &d, diag);
    if (status != NEAP_OK)
        return status;
    d->allocator = allocator;
    d->kind = kind;
    d->shape = *wanted;
    neap_arena_init(&d->arena, allocator);
    status = kind->open(d, folder, diag);
    if (status == NEAP_OK)
        status = check_shape(&d->shape, diag);
    if (status == NEAP_OK)
        *dataset = d;
    else
        neap_dataset_close(d);
    return status;
}

void neap_dataset_close(neap_dataset *dataset)
{
    if (!dataset)
        return;
    if (dataset->kind->close)
        dataset->kind->close(dataset);
    neap_picture_clear(&dataset->picture, dataset->allocator);
    neap_arena_clear(&dataset->arena);
    NEAP_DELETE(dataset->allocator, 1, dataset);
}

neap_dataset_shape neap_dataset_shape_of(const neap_dataset *dataset)
{
    return dataset->shape;
}

int64_t neap_dataset_count(const neap_dataset *dataset)
{
    return dataset->count;
}

const char *neap_data_join(neap_dataset *dataset, const char *folder, const char *name)
{
    size_t length = strlen(folder), name_length = strlen(name);
    char *path = neap_arena_alloc(&dataset->arena, length + name_length + 2, 1);
    if (!path)
        return NULL;
    memcpy(path, folder, length);
    path[length] = '/';
    memcpy(path + length + 1, name, name_length + 1);
    return path;
}

void neap_data_default_shape(neap_dataset *dataset, int64_t channels, int64_t height, int64_t width,
                             int64_t classes)
{
    neap_dataset_shape *shape = &dataset->shape;
    shape->channels = shape->channels ? shape->channels : channels;
    shape->height = shape->height ? shape->height : height;
    shape->width = shape->width ? shape->width : width;
    shape->classes = shape->classes ? shape->classes : classes;
}

/* ---- Batches ---- */

static neap_status read_sample(neap_dataset *dataset, uint64_t seed, int64_t position,
                               float *sample, int64_t *label, neap_diag *diag)
{
    if (!dataset->kind->read) {
        neap_data_synthetic_draw(&dataset->shape, seed, position, sample, label);
        return NEAP_OK;
    }
    int64_t epoch = position / dataset->count;
    int64_t index = neap_data_permute(neap_data_mix(seed, (uint64_t)epoch), dataset->count,
                                      position % dataset->count);
    neap_status status = dataset->kind->read(dataset, index, label, diag);
    if (status == NEAP_OK)
        neap_picture_deliver(&dataset->picture, &dataset->shape, sample);
    return status;
}

/* The position of a step's first sample in the endless sequence; false if it exceeds 63 bits. */
static bool first_position(int64_t step, int64_t batch, int64_t *first)
{
    int64_t end;
    return neap_mul_i64(step, batch, first) && neap_add_i64(*first, batch, &end);
}

neap_status neap_dataset_batch(neap_dataset *dataset, uint64_t seed, int64_t step, int64_t batch,
                               float *images, int64_t *labels, neap_diag *diag)
{
    const neap_dataset_shape *shape = &dataset->shape;
    int64_t size = shape->channels * shape->height * shape->width, first;
    if (batch < 1 || !first_position(step, batch, &first))
        return neap_fail(diag, NEAP_INVALID, "no batch of %lld samples at step %lld",
                         (long long)batch, (long long)step);
    for (int64_t i = 0; i < batch; i++) {
        neap_status status =
            read_sample(dataset, seed, first + i, images + i * size, labels + i, diag);
        if (status != NEAP_OK)
            return status;
    }
    return NEAP_OK;
}
