/*
 * neap/data.h - training data: labelled images, and synthetic tokens.
 *
 * Open a data set by its spec, then read batches:
 *
 *     neap_dataset_shape wanted = {.channels = 3, .height = 32, .width = 32, .classes = 10};
 *     neap_dataset_open(NULL, "cifar10:/data/cifar", &wanted, &dataset, &diag);
 *     neap_dataset_batch(dataset, seed, step, 64, images, labels, &diag);
 *
 *     synthetic      generated from the seed, without files, endless. The class determines a
 *                    pattern, to which noise is added: a network learns it within a few steps.
 *     mnist:DIR      train-images-idx3-ubyte and train-labels-idx1-ubyte in DIR, uncompressed (some
 *                    copies have dots instead of dashes in the names; both work). 1 x 28 x 28;
 *                    other sizes in the same format work too. 10 classes, or more if the labels
 *                    need them.
 *     cifar10:DIR    data_batch_1.bin to data_batch_5.bin in DIR: the "binary version".
 *                    3 x 32 x 32, 10 classes.
 *     images:DIR     one folder per class in DIR, in byte order of their names, with the images of
 *                    that class: .png (8 or 16 bits per sample; needs a build with libpng), .ppm,
 *                    .pgm and .pnm (P2, P3, P5, P6). Names that start with a dot and other kinds of
 *                    files are ignored. Images that neap cannot read (.jpg and the like) are an
 *                    error, so that none is silently left out. The size defaults to that of the
 *                    first image, the number of classes to the number of folders.
 *
 * A sample is channels x height x width floats, row by row, channel by channel. Each element is
 *
 *     (x / white - 0.5) * 4
 *
 * from -2 for black to 2 for white, with a mean of about 0 and a deviation of about 1. An image of
 * another size is resized to the requested one (bilinear, half-pixel centres, edges repeated). Each
 * pixel is interpolated from four neighbours only, so shrink large images beforehand. Grey becomes
 * three equal channels, colour becomes 0.299 R + 0.587 G + 0.114 B, transparent pixels become
 * black.
 *
 * A batch depends only on data set, seed, step and batch size, not on earlier calls: a training run
 * resumed at step 1000 sees the same data as an uninterrupted one. Step k takes the samples
 * k * batch, k * batch + 1, ... of an endless sequence. Each run of neap_dataset_count() samples in
 * that sequence is an epoch: it has every sample once, in an order drawn from seed and epoch.
 *
 * Memory: an index of the names or labels, and one image. Images are read when a batch needs them.
 * A data set may be used by one thread at a time.
 */
#ifndef NEAP_DATA_H
#define NEAP_DATA_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_dataset neap_dataset;

/* The shape of samples and the number of classes. In a request, 0 means "as in the files". */
typedef struct neap_dataset_shape {
    int64_t channels; /* files: 1 or 3 */
    int64_t height, width;
    int64_t classes; /* labels are 0 to classes - 1; not fewer than in the files */
} neap_dataset_shape;

NEAP_API uint32_t neap_datasets_count(void);
/* The form of a spec, such as "mnist:DIR"; NULL past the last. */
NEAP_API const char *neap_datasets_form(uint32_t index);

/*
 * Opens the data set that `spec` names. `wanted` may be NULL: everything as in the files
 * (synthetic: 3 x 32 x 32, 10 classes). Headers, sizes and labels are checked now; the images of an
 * images:DIR data set, except the first, are checked when they are read.
 *
 * NEAP_INVALID for an invalid spec, an impossible shape, a malformed or truncated file, or a label
 * that is not below the requested number of classes; NEAP_IO for a file that cannot be read;
 * NEAP_UNSUPPORTED for PNG in a build without libpng. The message names the file and the place, and
 * *dataset is NULL.
 */
NEAP_API neap_status neap_dataset_open(neap_allocator *allocator, const char *spec,
                                       const neap_dataset_shape *wanted, neap_dataset **dataset,
                                       neap_diag *diag);
/* `dataset` may be NULL. */
NEAP_API void neap_dataset_close(neap_dataset *dataset);

/* The shape of the batches; no field is 0. */
NEAP_API neap_dataset_shape neap_dataset_shape_of(const neap_dataset *dataset);
/* Samples per epoch; 0 for synthetic data, which is endless. */
NEAP_API int64_t neap_dataset_count(const neap_dataset *dataset);

/*
 * Reads the batch of a step, counted from 0: `images` gets batch x channels x height x width
 * floats, `labels` gets `batch` classes. On failure (an unreadable image, an argument below its
 * range) their contents are undefined.
 */
NEAP_API neap_status neap_dataset_batch(neap_dataset *dataset, uint64_t seed, int64_t step,
                                        int64_t batch, float *images, int64_t *labels,
                                        neap_diag *diag);

/*
 * Synthetic text for language models: `ids` gets `batch` rows of `length` tokens from 0 to
 * limit - 1; `next`, if not NULL, gets the token that follows each of them. In seven cases of eight
 * the previous token determines the next one (by the same rule for every seed), so that there is
 * something to learn; otherwise the next token is random. The result depends only on the arguments;
 * row i of step k is row k * batch + i of an endless text. NEAP_INVALID for a step below 0 or
 * another number below 1.
 */
NEAP_API neap_status neap_synthetic_ids(uint64_t seed, int64_t step, int64_t batch, int64_t length,
                                        int64_t limit, int64_t *ids, int64_t *next,
                                        neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
