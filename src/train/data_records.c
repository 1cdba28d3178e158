/*
 * mnist and cifar10: files of pictures of equal size. The files stay open and pictures are read one
 * by one. Labels are bytes; all are read and checked when the data set is opened.
 */
#include "base/fail.h"
#include "base/file.h"
#include "base/memory.h"
#include "train/data_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void neap_data_records_close(neap_dataset *dataset)
{
    neap_data_records *records = &dataset->records;
    for (size_t i = 0; i < records->n_files; i++)
        close(records->files[i].file);
    NEAP_DELETE(dataset->allocator, (size_t)records->n_labels, records->labels);
}

neap_status neap_data_records_read(neap_dataset *dataset, int64_t index, int64_t *label,
                                   neap_diag *diag)
{
    const neap_data_records *records = &dataset->records;
    const neap_data_file *file = records->files;
    *label = records->labels[index];
    while (index >= file->count)
        index -= file++->count;
    neap_status status =
        neap_picture_begin(&dataset->picture, dataset->allocator, file->path, records->channels,
                           records->height, records->width, 255, diag);
    if (status != NEAP_OK)
        return status;
    dataset->picture.planar = true;
    return neap_file_read_at(file->file, file->path, file->start + index * file->stride,
                             dataset->picture.samples,
                             (size_t)neap_picture_bytes(&dataset->picture), diag);
}

/* Checks that the network has label `index` of a file. */
static neap_status check_label(const neap_dataset *dataset, const char *path, int64_t index,
                               int64_t label, int64_t classes, neap_diag *diag)
{
    int64_t most = dataset->shape.classes ? dataset->shape.classes : classes;
    if (label < most && label < classes)
        return NEAP_OK;
    if (label >= classes)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: sample %lld has label %lld, but there are %lld classes; the file is "
                         "damaged",
                         path, (long long)index, (long long)label, (long long)classes);
    return neap_fail(diag, NEAP_INVALID,
                     "%s: sample %lld has label %lld, but the network has %lld classes; give it "
                     "more",
                     path, (long long)index, (long long)label, (long long)most);
}

static neap_status keep_path(neap_dataset *dataset, const char *folder, const char *name,
                             const char **path, neap_diag *diag)
{
    *path = neap_data_join(dataset, folder, name);
    return *path ? NEAP_OK : neap_fail_no_memory(diag);
}

/* ---- mnist ---- */

#define IDX_IMAGES UINT32_C(0x803) /* unsigned bytes, three dimensions */
#define IDX_LABELS UINT32_C(0x801)

/*
 * Opens an IDX file by its usual name, or the name with a dot instead of the second dash, and reads
 * its header: a magic number and dimensions of 32 bits each, big-endian. *start is set to the
 * offset of the data.
 */
static neap_status open_idx(neap_dataset *dataset, const char *folder, const char *name,
                            uint32_t magic, neap_data_file *file, uint32_t *dimensions,
                            neap_diag *diag)
{
    char other[40];
    unsigned char header[16];
    size_t n_dimensions = magic & 3;
    int64_t bytes, expected = 1;
    neap_status status = keep_path(dataset, folder, name, &file->path, diag);
    if (status != NEAP_OK)
        return status;
    if (access(file->path, F_OK) != 0) {
        snprintf(other, sizeof other, "%s", name);
        *strstr(other, "-idx") = '.';
        const char *dotted = neap_data_join(dataset, folder, other);
        if (!dotted)
            return neap_fail_no_memory(diag);
        file->path = access(dotted, F_OK) == 0 ? dotted : file->path;
    }
    status = neap_file_open(file->path, &file->file, &bytes, diag);
    if (status != NEAP_OK)
        return status;
    file->start = (int64_t)(4 + 4 * n_dimensions);
    status = neap_file_read_at(file->file, file->path, 0, header, (size_t)file->start, diag);
    uint32_t words[4] = {0};
    for (size_t i = 0; i <= n_dimensions && status == NEAP_OK; i++)
        words[i] = (uint32_t)header[4 * i] << 24 | (uint32_t)header[4 * i + 1] << 16 |
                   (uint32_t)header[4 * i + 2] << 8 | header[4 * i + 3];
    if (status == NEAP_OK && words[0] >> 16 == 0x1f8b)
        status = neap_fail(diag, NEAP_INVALID, "%s: still compressed; gunzip it", file->path);
    else if (status == NEAP_OK && words[0] != magic)
        status = neap_fail(diag, NEAP_INVALID,
                           "%s: begins with %08lx, an IDX file of this kind with %08lx", file->path,
                           (unsigned long)words[0], (unsigned long)magic);
    for (size_t i = 0; i < n_dimensions && status == NEAP_OK; i++) {
        dimensions[i] = words[i + 1];
        /* A product that would overflow is larger than any file: it is left as it is. */
        expected = dimensions[i] == 0                         ? 0
                   : expected > INT64_MAX / 2 / dimensions[i] ? INT64_MAX / 2
                                                              : expected * dimensions[i];
    }
    if (status == NEAP_OK && expected != bytes - file->start)
        status = neap_fail(diag, NEAP_INVALID,
                           "%s: the header specifies %lld bytes of data, but the file has %lld%s",
                           file->path, (long long)expected, (long long)(bytes - file->start),
                           expected > bytes - file->start ? "; it is cut off" : "");
    if (status != NEAP_OK)
        close(file->file);
    return status;
}

static neap_status read_idx_labels(neap_dataset *dataset, const neap_data_file *file,
                                   neap_diag *diag)
{
    neap_data_records *records = &dataset->records;
    int64_t classes = 10;
    neap_status status = NEAP_NEW(dataset->allocator, (size_t)file->count, &records->labels, diag);
    if (status != NEAP_OK)
        return status;
    records->n_labels = file->count;
    status = neap_file_read_at(file->file, file->path, file->start, records->labels,
                               (size_t)file->count, diag);
    for (int64_t i = 0; i < file->count && status == NEAP_OK; i++) {
        status = check_label(dataset, file->path, i, records->labels[i], 256, diag);
        classes = records->labels[i] >= classes ? records->labels[i] + 1 : classes;
    }
    neap_data_default_shape(dataset, 1, records->height, records->width, classes);
    return status;
}

neap_status neap_data_mnist_open(neap_dataset *dataset, const char *folder, neap_diag *diag)
{
    neap_data_records *records = &dataset->records;
    neap_data_file labels;
    uint32_t sizes[3], n_labels;
    neap_status status = open_idx(dataset, folder, "train-images-idx3-ubyte", IDX_IMAGES,
                                  &records->files[0], sizes, diag);
    if (status != NEAP_OK)
        return status;
    records->n_files = 1;
    if (sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0)
        return neap_fail(diag, NEAP_INVALID, "%s: has no pictures", records->files[0].path);
    records->channels = 1;
    records->height = sizes[1];
    records->width = sizes[2];
    records->files[0].count = dataset->count = sizes[0];
    records->files[0].stride = (int64_t)sizes[1] * sizes[2]; /* at most the file's size */
    status =
        open_idx(dataset, folder, "train-labels-idx1-ubyte", IDX_LABELS, &labels, &n_labels, diag);
    if (status != NEAP_OK)
        return status;
    labels.count = n_labels;
    if (sizes[0] != n_labels)
        status = neap_fail(diag, NEAP_INVALID, "%s has %lu labels for the %lu pictures of %s",
                           labels.path, (unsigned long)n_labels, (unsigned long)sizes[0],
                           records->files[0].path);
    else
        status = read_idx_labels(dataset, &labels, diag);
    close(labels.file);
    return status;
}

/* ---- cifar10 ---- */

#define CIFAR_SIDE    32
#define CIFAR_CLASSES 10
#define CIFAR_RECORD  (1 + 3 * CIFAR_SIDE * CIFAR_SIDE) /* a label, then red, green, blue */

static neap_status open_cifar_file(neap_dataset *dataset, const char *folder, int number,
                                   neap_diag *diag)
{
    neap_data_records *records = &dataset->records;
    neap_data_file *file = &records->files[records->n_files];
    char name[32];
    int64_t bytes;
    snprintf(name, sizeof name, "data_batch_%d.bin", number);
    neap_status status = keep_path(dataset, folder, name, &file->path, diag);
    if (status == NEAP_OK)
        status = neap_file_open(file->path, &file->file, &bytes, diag);
    if (status != NEAP_OK)
        return status;
    records->n_files++;
    file->start = 1;
    file->stride = CIFAR_RECORD;
    file->count = bytes / CIFAR_RECORD;
    if (bytes == 0 || bytes % CIFAR_RECORD != 0)
        return neap_fail(
            diag, NEAP_INVALID,
            "%s: %lld bytes are not a whole number of records of %d; cut off, or not the "
            "binary version of CIFAR-10",
            file->path, (long long)bytes, CIFAR_RECORD);
    dataset->count += file->count;
    return NEAP_OK;
}

static neap_status read_cifar_labels(neap_dataset *dataset, neap_diag *diag)
{
    neap_data_records *records = &dataset->records;
    unsigned char *label;
    neap_status status =
        NEAP_NEW(dataset->allocator, (size_t)dataset->count, &records->labels, diag);
    if (status != NEAP_OK)
        return status;
    records->n_labels = dataset->count;
    label = records->labels;
    for (size_t k = 0; k < records->n_files; k++) {
        const neap_data_file *file = &records->files[k];
        for (int64_t i = 0; i < file->count && status == NEAP_OK; i++, label++) {
            status = neap_file_read_at(file->file, file->path, i * CIFAR_RECORD, label, 1, diag);
            if (status == NEAP_OK)
                status = check_label(dataset, file->path, i, *label, CIFAR_CLASSES, diag);
        }
    }
    return status;
}

neap_status neap_data_cifar10_open(neap_dataset *dataset, const char *folder, neap_diag *diag)
{
    neap_data_records *records = &dataset->records;
    neap_status status = NEAP_OK;
    records->channels = 3;
    records->height = records->width = CIFAR_SIDE;
    for (int number = 1; number <= 5 && status == NEAP_OK; number++)
        status = open_cifar_file(dataset, folder, number, diag);
    if (status == NEAP_OK)
        status = read_cifar_labels(dataset, diag);
    neap_data_default_shape(dataset, 3, CIFAR_SIDE, CIFAR_SIDE, CIFAR_CLASSES);
    return status;
}
