/*
 * neap/data.h - samples to train on: pictures with a class each, and made-up tokens.
 *
 * A data set is opened by a text and then asked for batches:
 *
 *     neap_dataset_shape wanted = {.channels = 3, .height = 32, .width = 32, .classes = 10};
 *     neap_dataset_open(NULL, "cifar10:/data/cifar", &wanted, &dataset, &diag);
 *     neap_dataset_batch(dataset, seed, step, 64, images, labels, &diag);
 *
 *     synthetic      made up from the seed, without files and without end. The class decides a
 *                    pattern, noise lies over it: a network learns it within some steps.
 *     mnist:DIR      train-images-idx3-ubyte and train-labels-idx1-ubyte in DIR (the dots instead
 *                    of dashes that some copies have are fine), not compressed. 1 x 28 x 28; other
 *                    sizes in the same format are taken, too. 10 classes, more if labels say so.
 *     cifar10:DIR    data_batch_1.bin to data_batch_5.bin in DIR: the "binary version".
 *                    3 x 32 x 32, 10 classes.
 *     images:DIR     a folder in DIR for each class, in the order of their names' bytes; in it the
 *                    pictures of that class: .png (8 or 16 bits a sample; a build without libpng
 *                    says so), .ppm, .pgm and .pnm (P2, P3, P5, P6). Names that begin with a dot
 *                    and files of other kinds are passed over; pictures neap cannot read (.jpg and
 *                    the like) are an error, so that none is left out unseen. As large as the
 *                    first picture, as many classes as folders.
 *
 * A sample is channels x height x width floats, row by row, channel by channel. Each is
 *
 *     (x / white - 0.5) * 4
 *
 * from -2 for black to 2 for white, which has about mean 0 and deviation 1. A picture of another
 * size is stretched to the wanted one (bilinear, half-pixel centres, edges repeated; every pixel is
 * drawn from its four neighbours, so shrink large pictures beforehand). Grey becomes three equal
 * channels, colour becomes 0.299 R + 0.587 G + 0.114 B, and transparent pixels become black.
 *
 * Batches are a function of data set, seed, step and size alone, whatever was asked before: a
 * training that goes on from step 1000 sees what the uninterrupted one saw. Step k takes the
 * samples k * batch, k * batch + 1, ... of an endless row; each stretch of neap_dataset_count() in
 * that row, an epoch, has every sample once, in an order drawn from seed and epoch.
 *
 * Memory: an index of the names or labels, and one picture. Pictures are read when their batch is
 * asked for. One data set is used by one thread at a time.
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

/* Of samples and labels. In what is wanted, 0 is "as the files have it". */
typedef struct neap_dataset_shape {
    int64_t channels; /* files: 1 or 3 */
    int64_t height, width;
    int64_t classes; /* labels are 0 to classes - 1; no fewer than the files have */
} neap_dataset_shape;

NEAP_API uint32_t neap_datasets_count(void);
/* The form of a spec, such as "mnist:DIR"; NULL past the last. */
NEAP_API const char *neap_datasets_form(uint32_t index);

/*
 * Opens the data set that `spec` names; `wanted` may be NULL: all as the files have it (synthetic:
 * 3 x 32 x 32, 10 classes). Headers, sizes and labels are checked; pictures of folders only when
 * their turn comes, but for the first.
 *
 * NEAP_INVALID for a spec that is none, a wanted shape that cannot be, a file that is not what it
 * should be or is cut off, a label that is not below the wanted number of classes; NEAP_IO for one
 * that cannot be read; NEAP_UNSUPPORTED for PNG in a build without. The message names file and
 * place. *dataset is NULL then.
 */
NEAP_API neap_status neap_dataset_open(neap_allocator *allocator, const char *spec,
                                       const neap_dataset_shape *wanted, neap_dataset **dataset,
                                       neap_diag *diag);
/* NULL is fine. */
NEAP_API void neap_dataset_close(neap_dataset *dataset);

/* What batches have: nothing in it is 0. */
NEAP_API neap_dataset_shape neap_dataset_shape_of(const neap_dataset *dataset);
/* The samples of an epoch; 0 for synthetic data, which has no end. */
NEAP_API int64_t neap_dataset_count(const neap_dataset *dataset);

/*
 * The batch of a step, counted from 0: `images` gets batch x channels x height x width floats,
 * `labels` gets batch classes. On failure (a picture that cannot be read, arguments below their
 * range) what they hold is not defined.
 */
NEAP_API neap_status neap_dataset_batch(neap_dataset *dataset, uint64_t seed, int64_t step,
                                        int64_t batch, float *images, int64_t *labels,
                                        neap_diag *diag);

/*
 * Made-up text for language models: `ids` gets batch rows of `length` tokens from 0 to limit - 1,
 * `next`, if not NULL, for each of them the token that follows it. Seven times in eight that is
 * decided by the token before (by the same rule for every seed), else it is drawn, so that there is
 * something to learn. A function of the arguments alone; row i of step k is row k * batch + i of an
 * endless text. NEAP_INVALID for a step below 0 or another number below 1.
 */
NEAP_API neap_status neap_synthetic_ids(uint64_t seed, int64_t step, int64_t batch, int64_t length,
                                        int64_t limit, int64_t *ids, int64_t *next,
                                        neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
