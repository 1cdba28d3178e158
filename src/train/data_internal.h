/* Shared by all kinds of data sets: the object, a decoded picture, the shuffling. */
#ifndef NEAP_TRAIN_DATA_INTERNAL_H
#define NEAP_TRAIN_DATA_INTERNAL_H

#include "base/arena.h"

#include <neap/data.h>

#include <stdbool.h>
#include <stddef.h>

/* ---- Pictures ---- */

/* Samples are bytes, or 16-bit numbers in native byte order if white is above 255. */
typedef struct neap_picture {
    int64_t channels; /* 1 or 3 */
    int64_t height, width;
    uint32_t white; /* 1 to 65535 */
    bool planar;    /* channel by channel; else pixel by pixel */
    unsigned char *samples;
    size_t capacity; /* of samples, in bytes */
} neap_picture;

/* Larger than any picture for training; damaged or hostile files may claim more. */
#define NEAP_PICTURE_MOST_PIXELS (INT64_C(1) << 26)

/*
 * Sets the fields and allocates the samples; rejects empty pictures and those with more than
 * NEAP_PICTURE_MOST_PIXELS.
 */
neap_status neap_picture_begin(neap_picture *picture, neap_allocator *allocator, const char *path,
                               int64_t channels, int64_t height, int64_t width, uint32_t white,
                               neap_diag *diag);
int64_t neap_picture_bytes(const neap_picture *picture);
void neap_picture_clear(neap_picture *picture, neap_allocator *allocator);

/* The picture as a sample of that shape, with 1 or 3 channels. */
void neap_picture_deliver(const neap_picture *picture, const neap_dataset_shape *shape,
                          float *sample);

/* Each reads one file into a picture, which is set up anew. */
neap_status neap_picture_read_pnm(neap_picture *picture, neap_allocator *allocator,
                                  const char *path, neap_diag *diag);
neap_status neap_picture_read_png(neap_picture *picture, neap_allocator *allocator,
                                  const char *path, neap_diag *diag);
/* libpng's version at run time; "" without it. */
const char *neap_picture_png_version(void);

/* ---- Data sets ---- */

typedef struct neap_data_kind {
    const char *name;
    const char *form; /* of its spec */
    bool has_folder;  /* as the form says */
    /* Fills the data set: the sizes that its shape leaves open (0), its count, its own part. */
    neap_status (*open)(neap_dataset *dataset, const char *folder, neap_diag *diag);
    /* Reads sample `index`, 0 to count - 1, into dataset->picture; NULL for synthetic. */
    neap_status (*read)(neap_dataset *dataset, int64_t index, int64_t *label, neap_diag *diag);
    void (*close)(neap_dataset *dataset); /* its own part; may be NULL */
} neap_data_kind;

/* A file of pictures of equal size, one after the other. */
typedef struct neap_data_file {
    int file;
    const char *path;
    int64_t start, stride; /* offset of the first picture, and distance to the next */
    int64_t count;
} neap_data_file;

/* mnist and cifar10. */
typedef struct neap_data_records {
    neap_data_file files[5];
    size_t n_files;
    int64_t channels, height, width;
    unsigned char *labels; /* of all samples */
    int64_t n_labels;
} neap_data_records;

typedef struct neap_data_name {
    const char *name;
    uint32_t class_index;
} neap_data_name;

/* images: classes and their files, in order. */
typedef struct neap_data_folder {
    const char *path;
    neap_data_name *classes; /* names of folders */
    size_t n_classes, class_capacity;
    neap_data_name *files; /* names of files in the folder of their class */
    size_t n_files, file_capacity;
} neap_data_folder;

struct neap_dataset {
    neap_allocator *allocator;
    const neap_data_kind *kind;
    neap_dataset_shape shape;
    int64_t count;
    neap_arena arena; /* of paths and names */
    neap_picture picture;
    neap_data_records records;
    neap_data_folder folder;
};

neap_status neap_data_mnist_open(neap_dataset *dataset, const char *folder, neap_diag *diag);
neap_status neap_data_cifar10_open(neap_dataset *dataset, const char *folder, neap_diag *diag);
neap_status neap_data_records_read(neap_dataset *dataset, int64_t index, int64_t *label,
                                   neap_diag *diag);
void neap_data_records_close(neap_dataset *dataset);

neap_status neap_data_folder_open(neap_dataset *dataset, const char *folder, neap_diag *diag);
neap_status neap_data_folder_read(neap_dataset *dataset, int64_t index, int64_t *label,
                                  neap_diag *diag);
void neap_data_folder_close(neap_dataset *dataset);

neap_status neap_data_synthetic_open(neap_dataset *dataset, const char *folder, neap_diag *diag);
/* Sample `position` of the endless sequence. */
void neap_data_synthetic_draw(const neap_dataset_shape *shape, uint64_t seed, int64_t position,
                              float *sample, int64_t *label);

/* folder/name in the data set's arena, or NULL. */
const char *neap_data_join(neap_dataset *dataset, const char *folder, const char *name);
/* Sets the sizes that the shape leaves open to those of the files. */
void neap_data_default_shape(neap_dataset *dataset, int64_t channels, int64_t height, int64_t width,
                             int64_t classes);

/* ---- Random ---- */

/* Mixes two numbers into one, to derive several keys from one seed. */
uint64_t neap_data_mix(uint64_t a, uint64_t b);

/*
 * The position of `index` in a random order of 0 to count - 1. With one key, this is a permutation.
 */
int64_t neap_data_permute(uint64_t key, int64_t count, int64_t index);

#endif
