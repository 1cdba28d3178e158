/*
 * neap/data.h: what each kind of data set delivers, in which order, and the messages for files that
 * are missing, truncated, wrong or hostile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "picture_files.h"
#include "run_command.h"
#include "settings.h"
#include "train/data_internal.h"

#include <neap/data.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- Support ---- */

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    return 0;
}

static int remove_folder(void **state)
{
    remove_folder_tree(*state);
    return 0;
}

static char *spec_of(const char *kind, const char *folder)
{
    size_t size = strlen(kind) + strlen(folder) + 2;
    char *spec = malloc(size);
    assert_non_null(spec);
    snprintf(spec, size, "%s:%s", kind, folder);
    return spec;
}

static neap_dataset *open_or_fail(const char *kind, const char *folder,
                                  const neap_dataset_shape *wanted)
{
    neap_dataset *dataset;
    neap_diag diag = {0};
    char *spec = folder ? spec_of(kind, folder) : NULL;
    if (neap_dataset_open(NULL, spec ? spec : kind, wanted, &dataset, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    free(spec);
    return dataset;
}

static void expect_refused_as(const char *kind, const char *folder,
                              const neap_dataset_shape *wanted, neap_status expected,
                              const char *part)
{
    neap_diag diag = {0};
    neap_dataset *dataset = (neap_dataset *)&diag;
    char *spec = folder ? spec_of(kind, folder) : NULL;
    neap_status status = neap_dataset_open(NULL, spec ? spec : kind, wanted, &dataset, &diag);
    assert_null(dataset);
    if (status != expected || !strstr(diag.message, part))
        fail_msg("%s, \"%s\" instead of \"%s\"", neap_status_name(status), diag.message, part);
    free(spec);
}

static void expect_refused(const char *kind, const char *folder, const char *part)
{
    expect_refused_as(kind, folder, NULL, NEAP_INVALID, part);
}

static void write_in(const char *folder, const char *name, const void *bytes, size_t size)
{
    char *path = join_path(folder, name);
    write_file_bytes(path, bytes, size);
    free(path);
}

static float normal(double byte)
{
    return ((float)byte / 255 - 0.5f) * 4;
}

static void expect_near(float got, double wanted)
{
    if (!(fabs((double)got - wanted) < 1e-5))
        fail_msg("%.9g instead of %.9g", (double)got, wanted);
}

/* ---- Order ---- */

static void test_permutation(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 70; n++)
        for (uint64_t key = 0; key < 5; key++) {
            bool seen[70] = {false};
            for (int64_t i = 0; i < n; i++) {
                int64_t place = neap_data_permute(key, n, i);
                assert_true(place >= 0 && place < n && !seen[place]);
                seen[place] = true;
            }
        }
    /* Each of the 24 orders of four comes up about equally often over the keys. */
    int orders[256] = {0}, kinds = 0;
    for (uint64_t key = 0; key < 2400; key++) {
        int order = 0;
        for (int64_t i = 0; i < 4; i++)
            order = order * 4 + (int)neap_data_permute(key, 4, i);
        orders[order]++;
    }
    for (int i = 0; i < 256; i++)
        if (orders[i] > 0) {
            assert_in_range(orders[i], 40, 180);
            kinds++;
        }
    assert_int_equal(kinds, 24);
    int64_t large = INT64_C(1) << 40;
    assert_in_range(neap_data_permute(1, large, large - 1), 0, large - 1);
}

/* Every sample once an epoch, in an order of its own; any step by itself. */
static void test_epochs(void **state)
{
    write_mnist(*state, 13, 1, 2, 10);
    neap_dataset *dataset = open_or_fail("mnist", *state, NULL);
    assert_int_equal(neap_dataset_count(dataset), 13);
    float images[13 * 2], again[2 * 5], row[13 * 2 * 5];
    int64_t labels[13], order[2][13], others[5];
    for (int epoch = 0; epoch < 2; epoch++) {
        bool seen[13] = {false};
        assert_int_equal(neap_dataset_batch(dataset, 3, epoch, 13, images, labels, NULL), NEAP_OK);
        for (int i = 0; i < 13; i++) {
            int64_t byte = (int64_t)lroundf((images[2 * i] / 4 + 0.5f) * 255), sample = byte / 7;
            assert_int_equal(byte % 7, 0);
            assert_in_range(sample, 0, 12);
            assert_false(seen[sample]);
            assert_int_equal(labels[i], sample % 10);
            seen[sample] = true;
            order[epoch][i] = sample;
        }
        memcpy(row + 26 * epoch, images, sizeof images);
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    for (int64_t step = 4; step >= 0; step--) { /* batches of 5 from the same row, backwards */
        assert_int_equal(neap_dataset_batch(dataset, 3, step, 5, again, others, NULL), NEAP_OK);
        assert_memory_equal(again, row + 10 * step, sizeof again);
    }
    assert_int_equal(neap_dataset_batch(dataset, 4, 0, 13, images, labels, NULL), NEAP_OK);
    assert_memory_not_equal(images, row, sizeof images);
    neap_diag diag = {0};
    assert_int_equal(neap_dataset_batch(dataset, 4, -1, 13, images, labels, &diag), NEAP_INVALID);
    assert_int_equal(neap_dataset_batch(dataset, 4, 0, 0, images, labels, &diag), NEAP_INVALID);
    assert_int_equal(neap_dataset_batch(dataset, 4, INT64_MAX, 2, images, labels, &diag),
                     NEAP_INVALID);
    neap_dataset_close(dataset);
    neap_dataset_close(NULL);
}

/* ---- Synthetic ---- */

static void test_synthetic(void **state)
{
    (void)state;
    neap_dataset *dataset = open_or_fail("synthetic", NULL, NULL);
    neap_dataset_shape shape = neap_dataset_shape_of(dataset);
    assert_true(shape.channels == 3 && shape.height == 32 && shape.width == 32);
    assert_int_equal(shape.classes, 10);
    assert_int_equal(neap_dataset_count(dataset), 0);
    neap_dataset_close(dataset);

    neap_dataset_shape wanted = {2, 6, 5, 3};
    enum { SIZE = 2 * 6 * 5, BATCH = 60 };
    float *a = malloc(sizeof *a * SIZE * BATCH), *b = malloc(sizeof *b * SIZE * BATCH);
    int64_t labels[BATCH], again[BATCH];
    assert_true(a && b);
    dataset = open_or_fail("synthetic", NULL, &wanted);
    assert_int_equal(neap_dataset_batch(dataset, 9, 4, BATCH, a, labels, NULL), NEAP_OK);
    assert_int_equal(neap_dataset_batch(dataset, 9, 4, BATCH, b, again, NULL), NEAP_OK);
    assert_memory_equal(a, b, sizeof *a * SIZE * BATCH);
    assert_memory_equal(labels, again, sizeof labels);
    /* Step 8 of half the size is its first half. */
    assert_int_equal(neap_dataset_batch(dataset, 9, 8, BATCH / 2, b, again, NULL), NEAP_OK);
    assert_memory_equal(a, b, sizeof *a * SIZE * BATCH / 2);
    assert_int_equal(neap_dataset_batch(dataset, 10, 4, BATCH, b, again, NULL), NEAP_OK);
    assert_memory_not_equal(a, b, sizeof *a * SIZE * BATCH);

    /* The nearest class mean of one batch tells nearly every class of another seed's: it can be
     * learnt. */
    double means[3][SIZE] = {{0}}, counts[3] = {0};
    for (int i = 0; i < BATCH; i++) {
        assert_in_range(labels[i], 0, 2);
        counts[labels[i]]++;
        for (int k = 0; k < SIZE; k++)
            means[labels[i]][k] += (double)a[i * SIZE + k];
    }
    int right = 0;
    for (int i = 0; i < BATCH; i++) {
        double best = 1e300;
        int64_t nearest = -1;
        for (int c = 0; c < 3; c++) {
            double distance = 0;
            assert_true(counts[c] > 5);
            for (int k = 0; k < SIZE; k++)
                distance += pow((double)b[i * SIZE + k] - means[c][k] / counts[c], 2);
            if (distance < best) {
                best = distance;
                nearest = c;
            }
        }
        right += nearest == again[i];
    }
    assert_true(right >= BATCH * 95 / 100);
    neap_dataset_close(dataset);
    free(a);
    free(b);
}

static void test_synthetic_ids(void **state)
{
    (void)state;
    enum { BATCH = 8, LENGTH = 500, LIMIT = 50 };
    static int64_t ids[BATCH * LENGTH], next[BATCH * LENGTH], again[BATCH * LENGTH];
    neap_diag diag = {0};
    assert_int_equal(neap_synthetic_ids(1, 2, BATCH, LENGTH, LIMIT, ids, next, &diag), NEAP_OK);
    assert_int_equal(neap_synthetic_ids(1, 2, BATCH, LENGTH, LIMIT, again, NULL, &diag), NEAP_OK);
    assert_memory_equal(ids, again, sizeof ids);
    int follows[LIMIT][LIMIT] = {{0}}, right = 0;
    for (int i = 0; i < BATCH * LENGTH; i++) {
        assert_in_range(ids[i], 0, LIMIT - 1);
        assert_in_range(next[i], 0, LIMIT - 1);
        if ((i + 1) % LENGTH != 0)
            assert_int_equal(next[i], ids[i + 1]);
        follows[ids[i]][next[i]]++;
    }
    for (int i = 0; i < LIMIT; i++) {
        int most = 0;
        for (int k = 0; k < LIMIT; k++)
            most = follows[i][k] > most ? follows[i][k] : most;
        right += most;
    }
    assert_in_range(right, BATCH * LENGTH * 8 / 10, BATCH * LENGTH * 95 / 100);
    assert_int_equal(neap_synthetic_ids(1, 16, 1, LENGTH, LIMIT, again, NULL, &diag), NEAP_OK);
    assert_memory_equal(ids, again, LENGTH * sizeof *ids); /* row 16 of the endless text */
    assert_int_equal(neap_synthetic_ids(1, 0, 1, 3, 1, again, next, &diag), NEAP_OK);
    assert_int_equal(again[2], 0);
    assert_int_equal(neap_synthetic_ids(1, -1, 1, 3, 5, again, NULL, &diag), NEAP_INVALID);
    assert_int_equal(neap_synthetic_ids(1, 0, 1, 3, 0, again, NULL, &diag), NEAP_INVALID);
    assert_int_equal(neap_synthetic_ids(1, INT64_MAX, 2, 3, 5, again, NULL, &diag), NEAP_INVALID);
}

/* ---- Specs ---- */

static void test_specs(void **state)
{
    (void)state;
    static const neap_dataset_shape two_channels = {2, 0, 0, 0}, negative = {0, -1, 0, 0},
                                    huge = {1000000000, 1000000000, 1000000000, 1};
    expect_refused("", NULL, "is not a data set; there are synthetic, mnist:DIR");
    expect_refused("imagenet", NULL, "is not a data set");
    expect_refused("cifar", NULL, "did you mean cifar10?");
    expect_refused("mnist", NULL, "mnist needs the folder of its files: mnist:DIR");
    expect_refused("mnist:", NULL, "mnist:DIR");
    expect_refused("synthetic:x", NULL, "write only synthetic");
    expect_refused_as("mnist:/", NULL, &two_channels, NEAP_INVALID, "the network takes 2");
    expect_refused_as("synthetic", NULL, &negative, NEAP_INVALID, "none may be negative");
    expect_refused_as("synthetic", NULL, &huge, NEAP_INVALID, "too large");
    expect_refused_as("mnist:/no/such", NULL, NULL, NEAP_IO,
                      "cannot read /no/such/train-images-idx3-ubyte");
    expect_refused_as("cifar10:/no/such", NULL, NULL, NEAP_IO, "/no/such/data_batch_1.bin");
    expect_refused_as("images:/no/such", NULL, NULL, NEAP_IO, "cannot read folder /no/such");
}

/* ---- mnist ---- */

static void test_mnist(void **state)
{
    write_mnist(*state, 4, 2, 3, 10);
    neap_dataset *dataset = open_or_fail("mnist", *state, NULL);
    neap_dataset_shape shape = neap_dataset_shape_of(dataset);
    assert_true(shape.channels == 1 && shape.height == 2 && shape.width == 3);
    assert_int_equal(shape.classes, 10);
    float images[4][6];
    int64_t labels[4];
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 4, images[0], labels, NULL), NEAP_OK);
    for (int i = 0; i < 4; i++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 3; x++)
                assert_true(images[i][3 * y + x] == normal((double)(7 * labels[i] + 3 * y + x)));
    neap_dataset_close(dataset);

    /* Grey for a network that takes colour. */
    neap_dataset_shape wanted = {3, 2, 3, 20};
    float colour[4][3][6];
    dataset = open_or_fail("mnist", *state, &wanted);
    assert_int_equal(neap_dataset_shape_of(dataset).classes, 20);
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 4, colour[0][0], labels, NULL), NEAP_OK);
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 3; c++)
            assert_memory_equal(colour[i][c], images[i], sizeof images[i]);
    neap_dataset_close(dataset);

    /* The names with a dot. */
    static const char *const names[] = {"train-images-idx3-ubyte", "train-images.idx3-ubyte",
                                        "train-labels-idx1-ubyte", "train-labels.idx1-ubyte"};
    for (size_t i = 0; i < COUNT_OF(names); i += 2) {
        char *from = join_path(*state, names[i]), *to = join_path(*state, names[i + 1]);
        assert_int_equal(rename(from, to), 0);
        free(from);
        free(to);
    }
    neap_dataset_close(open_or_fail("mnist", *state, NULL));
}

static void test_mnist_wrong(void **state)
{
    char *images = join_path(*state, "train-images-idx3-ubyte");
    char *labels = join_path(*state, "train-labels-idx1-ubyte");
    const neap_dataset_shape five = {0, 0, 0, 5};
    size_t size, label_size;
    write_mnist(*state, 12, 2, 3, 12);
    neap_dataset *dataset = open_or_fail("mnist", *state, NULL);
    assert_int_equal(neap_dataset_shape_of(dataset).classes, 12);
    neap_dataset_close(dataset);
    expect_refused_as("mnist", *state, &five, NEAP_INVALID,
                      "train-labels-idx1-ubyte: sample 5 has label 5, but the network has 5");
    unsigned char *bytes = read_file_bytes(images, &size);
    for (size_t cut = 0; cut < size; cut++) {
        write_file_bytes(images, bytes, cut);
        expect_refused("mnist", *state, "cut off");
    }
    write_file_bytes(images, bytes, size);
    unsigned char *label_bytes = read_file_bytes(labels, &label_size);
    for (size_t cut = 0; cut < label_size; cut++) {
        write_file_bytes(labels, label_bytes, cut);
        expect_refused("mnist", *state, "cut off");
    }
    write_file_bytes(labels, bytes, size);
    expect_refused("mnist", *state, "begins with 00000803");
    label_bytes[7]--;
    write_file_bytes(labels, label_bytes, label_size - 1);
    expect_refused("mnist", *state, "has 11 labels for the 12 pictures");
    memset(bytes + 4, 0xff, 12);
    write_file_bytes(images, bytes, size);
    expect_refused("mnist", *state, "cut off");
    memset(bytes + 4, 0, 4);
    write_file_bytes(images, bytes, 16);
    expect_refused("mnist", *state, "no pictures");
    memcpy(bytes, "\x1f\x8b", 2);
    write_file_bytes(images, bytes, size);
    expect_refused("mnist", *state, "gunzip");
    free(bytes);
    free(label_bytes);
    free(images);
    free(labels);
}

/* ---- cifar10 ---- */

static void test_cifar10(void **state)
{
    write_cifar10(*state, 2);
    neap_dataset *dataset = open_or_fail("cifar10", *state, NULL);
    neap_dataset_shape shape = neap_dataset_shape_of(dataset);
    assert_true(shape.channels == 3 && shape.height == 32 && shape.width == 32);
    assert_int_equal(neap_dataset_count(dataset), 10);
    float *images = malloc(sizeof *images * 3072 * 10);
    int64_t labels[10], sum = 0;
    assert_non_null(images);
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 10, images, labels, NULL), NEAP_OK);
    for (int i = 0; i < 10; i++) {
        const float *image = images + 3072 * i;
        int first = (int)lroundf((image[0] / 4 + 0.5f) * 255), file = first % 10, k = first / 10;
        assert_int_equal(labels[i], (file + k) % 10);
        sum += first;
        for (int s = 0; s < 3072; s++)
            assert_true(image[s] == normal((first + 50 * (s / 1024) + s / 32 % 32 + s % 32) % 256));
    }
    assert_int_equal(sum, 2 * (1 + 2 + 3 + 4 + 5) + 5 * 10); /* each once */
    neap_dataset_close(dataset);
    free(images);
}

static void test_cifar10_wrong(void **state)
{
    const neap_dataset_shape two = {0, 0, 0, 2};
    size_t size;
    write_cifar10(*state, 2);
    expect_refused_as("cifar10", *state, &two, NEAP_INVALID,
                      "data_batch_1.bin: sample 1 has label 2, but the network has 2");
    char *path = join_path(*state, "data_batch_3.bin");
    unsigned char *bytes = read_file_bytes(path, &size);
    for (size_t cut = 0; cut < size; cut += cut % 3073 == 3072 ? 2 : 1024) {
        write_file_bytes(path, bytes, cut);
        if (cut == 0 || cut % 3073 != 0)
            expect_refused("cifar10", *state, "data_batch_3.bin");
    }
    bytes[3073] = 10;
    write_file_bytes(path, bytes, size);
    expect_refused("cifar10", *state,
                   "data_batch_3.bin: sample 1 has label 10, but there are 10 classes; the file");
    unlink(path);
    expect_refused_as("cifar10", *state, NULL, NEAP_IO, "data_batch_3.bin");
    free(bytes);
    free(path);
}

/* ---- images ---- */

static void test_folders(void **state)
{
    write_image_folders(*state);
    char *hidden = make_subfolder(*state, ".hidden"), *a = join_path(*state, "a");
    write_in(a, "notes.txt", "x", 1);
    write_in(*state, "README", "x", 1);
    neap_dataset *dataset = open_or_fail("images", *state, NULL);
    neap_dataset_shape shape = neap_dataset_shape_of(dataset);
    assert_int_equal(neap_dataset_count(dataset), 3);
    /* The first is grey.pgm: G comes before R. */
    assert_true(shape.channels == 1 && shape.height == 2 && shape.width == 2);
    assert_int_equal(shape.classes, 2);
    neap_dataset_close(dataset);

    neap_dataset_shape wanted = {3, 2, 2, 0};
    float images[3][3][4];
    int64_t labels[3];
    bool seen[3] = {false};
    dataset = open_or_fail("images", *state, &wanted);
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 3, images[0][0], labels, NULL), NEAP_OK);
    for (int i = 0; i < 3; i++) {
        if (labels[i] == 1) { /* one */
            for (int k = 0; k < 12; k++)
                assert_true(images[i][k % 3][k / 3] == normal(10 * k));
            seen[0] = true;
        } else if (images[i][0][0] == 2 && images[i][1][0] == -2) { /* red */
            for (int k = 0; k < 4; k++)
                assert_true(images[i][0][k] == 2 && images[i][1][k] == -2 && images[i][2][k] == -2);
            seen[1] = true;
        } else { /* grey */
            static const float grey[4] = {-2, 0, 2, -1};
            for (int c = 0; c < 3; c++)
                assert_memory_equal(images[i][c], grey, sizeof grey);
            seen[2] = true;
        }
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    neap_dataset_close(dataset);
    free(hidden);
    free(a);
}

static void test_folders_wrong(void **state)
{
    const neap_dataset_shape one_class = {0, 0, 0, 1};
    expect_refused("images", *state, "it has no folders");
    write_image_folders(*state);
    expect_refused_as("images", *state, &one_class, NEAP_INVALID, "2 classes (folders)");
    char *c = make_subfolder(*state, "c"), *picture = join_path(c, "x.JPG");
    expect_refused("images", *state, "/c: no .png, .ppm, .pgm or .pnm picture in it");
    write_in(c, "x.JPG", "x", 1);
    expect_refused("images", *state, "x.JPG: this picture format is not supported; convert");
    unlink(picture);
    free(picture);
    write_in(c, "ok.pgm", "P2 1 1 1 1", 10);
    neap_dataset_close(open_or_fail("images", *state, NULL));
    write_in(*state, "stray.ppm", "x", 1);
    expect_refused("images", *state, "stray.ppm: this picture has no class");
    free(c);
}

/* A broken picture is no reason to refuse the rest, until its turn comes. */
static void test_broken_picture(void **state)
{
    write_image_folders(*state);
    char *path = join_path(*state, "b/zz.ppm");
    write_file_bytes(path, "P6 2 2 255\n12345", 16);
    const neap_dataset_shape wanted = {1, 1, 1, 0};
    neap_dataset *dataset = open_or_fail("images", *state, &wanted);
    float images[4];
    int64_t labels[4];
    neap_diag diag = {0};
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 4, images, labels, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, path));
    assert_non_null(strstr(diag.message, "cut off"));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* does not hang */
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 4, images, labels, &diag), NEAP_IO);
    unlink(path);
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 4, images, labels, &diag), NEAP_IO);
    neap_dataset_close(dataset);
    free(path);
}

/* ---- Pictures ---- */

/* Writes one picture as the only one of a data set and asks for it; the caller frees it. */
static float *deliver(const char *folder, const char *name, const void *bytes, size_t size,
                      const neap_dataset_shape *wanted)
{
    char *sub = join_path(folder, "class");
    mkdir(sub, 0700);
    if (bytes)
        write_in(sub, name, bytes, size);
    neap_dataset *dataset = open_or_fail("images", folder, wanted);
    neap_dataset_shape shape = neap_dataset_shape_of(dataset);
    float *sample = malloc((size_t)(shape.channels * shape.height * shape.width) * sizeof *sample);
    int64_t label;
    assert_non_null(sample);
    assert_int_equal(neap_dataset_batch(dataset, 1, 0, 1, sample, &label, NULL), NEAP_OK);
    assert_int_equal(label, 0);
    neap_dataset_close(dataset);
    char *path = join_path(sub, name);
    unlink(path);
    free(path);
    free(sub);
    return sample;
}

static void test_bilinear(void **state)
{
    static const char two[] = "P2 2 1 4 0 4";
    const neap_dataset_shape wide = {1, 3, 4, 0}, narrow = {1, 1, 1, 0};
    float *sample = deliver(*state, "x.pgm", two, sizeof two - 1, &wide);
    /* Centres of four pixels over two: -0.25, 0.25, 0.75, 1.25. */
    static const double brightness[] = {0, 0.25, 0.75, 1};
    for (int i = 0; i < 12; i++)
        expect_near(sample[i], (brightness[i % 4] - 0.5) * 4);
    free(sample);
    sample = deliver(*state, "x.pgm", two, sizeof two - 1, &narrow);
    expect_near(sample[0], 0);
    free(sample);
    static const char square[] = "P3 2 2 255  255 0 0  0 255 0  0 0 255  255 255 255";
    sample = deliver(*state, "x.ppm", square, sizeof square - 1, &narrow);
    expect_near(sample[0], ((2 * 0.299 + 2 * 0.587 + 2 * 0.114) / 4 - 0.5) * 4);
    free(sample);
}

static void test_pnm(void **state)
{
    static const char wide[] = "P5\n#c\n2 1\n65535\n\x00\x00\xff\xff";
    static const char wide_text[] = "P2\n2 1\n1000\n0\n#c\n1000";
    static const char colour[] = "P6 1 1 1000 \x03\xe8\x00\x00\x01\xf4";
    float *sample = deliver(*state, "x.pgm", wide, sizeof wide - 1, NULL);
    assert_true(sample[0] == -2 && sample[1] == 2);
    free(sample);
    sample = deliver(*state, "x.PNM", wide_text, sizeof wide_text - 1, NULL);
    assert_true(sample[0] == -2 && sample[1] == 2);
    free(sample);
    sample = deliver(*state, "x.ppm", colour, sizeof colour - 1, NULL);
    assert_true(sample[0] == 2 && sample[1] == -2 && sample[2] == 0);
    free(sample);
}

static void expect_bad_picture(const char *folder, const char *name, const void *bytes, size_t size,
                               const char *part)
{
    char *sub = join_path(folder, "class"), *path = join_path(sub, name);
    mkdir(sub, 0700);
    write_file_bytes(path, bytes, size);
    expect_refused("images", folder, path);
    expect_refused("images", folder, part);
    unlink(path);
    free(path);
    free(sub);
}

static void test_pnm_wrong(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "begins with none"},
        {"P", "begins with none"},
        {"P1 1 1 1", "begins with none"},
        {"P4 1 1 1", "begins with none"},
        {"Q6 1 1 1", "begins with none"},
        {"P6", "byte 2: the file is cut off"},
        {"P6 x", "byte 3: a number expected"},
        {"P6 1 1", "cut off"},
        {"P6 1 1 0 123", "must be 1 to 65535"},
        {"P6 1 1 65536 123", "the largest sample is past 65535"},
        {"P6 1 1 255", "white space must follow"},
        {"P6 1 1 255x123", "white space must follow"},
        {"P6 0 1 255 123", "empty"},
        {"P6 1 0 255 123", "empty"},
        {"P6 99999999999 1 255 123", "the width is past"},
        {"P6 2000000000 2000000000 255 123", "too many"},
        {"P6 8000 8000 255 123", "do not fit"},
        {"P3 8000 8000 255 1 2 3", "do not fit"},
        {"P5 2 1 255 1", "do not fit"},
        {"P5 1 1 40 A", "a sample of 65 where white is 40"},
        {"P2 2 2 255 1 2 3 256", "a sample is past 255"},
        {"P2 2 2 255 1 2 3  x", "a number expected"},
        {"P2 2 2 255 100 2 3 ", "cut off"},
        {"P2 2 2 255 #", "cut off"},
        {"P2 1 1 255 -1", "a number expected"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_bad_picture(*state, "x.ppm", cases[i].text, strlen(cases[i].text), cases[i].message);
}

/* A picture of numbers past the reader's block. */
static void test_pnm_large(void **state)
{
    enum { SIDE = 120 };
    char *text = malloc(64 + SIDE * SIDE * 8), *at = text;
    assert_non_null(text);
    at += sprintf(at, "P2\n%d %d\n999\n", SIDE, SIDE);
    for (int i = 0; i < SIDE * SIDE; i++)
        at += sprintf(at, "%d%s", i % 1000, i % 7 == 0 ? "\n# five\n" : " ");
    float *sample = deliver(*state, "x.pgm", text, (size_t)(at - text), NULL);
    for (int i = 0; i < SIDE * SIDE; i++)
        expect_near(sample[i], ((i % 1000) / 999.0 - 0.5) * 4);
    free(sample);
    free(text);
}

static void test_png(void **state)
{
    if (!NEAP_HAS_PNG)
        skip_because("this build has no libpng");
    static const unsigned char dots[16] = {0,   51,  102, 255, 10, 20, 30, 0,
                                           255, 255, 255, 255, 99, 98, 97, 255};
    char *sub = make_subfolder(*state, "class"), *path = join_path(sub, "x.png");
    const neap_dataset_shape as_is = {0, 0, 0, 0};

    write_png(path, 4, 2, 0, 8, dots);
    float *sample = deliver(*state, "x.png", NULL, 0, &as_is);
    for (int i = 0; i < 8; i++)
        assert_true(sample[i] == normal(dots[i]));
    free(sample);

    write_png(path, 2, 2, 6, 8, dots); /* RGBA: the second pixel is transparent, so black */
    sample = deliver(*state, "x.png", NULL, 0, &as_is);
    for (int c = 0; c < 3; c++) {
        assert_true(sample[4 * c] == normal(dots[c]));
        assert_true(sample[4 * c + 1] == -2);
        assert_true(sample[4 * c + 2] == 2);
        assert_true(sample[4 * c + 3] == normal(dots[12 + c]));
    }
    free(sample);

    static const unsigned char wide[4] = {0x80, 0x80, 0xff, 0xff};
    write_png(path, 2, 1, 0, 16, wide);
    sample = deliver(*state, "x.png", NULL, 0, &as_is);
    expect_near(sample[0], (double)normal(128));
    assert_true(sample[1] == 2);
    free(sample);
    free(path);
    free(sub);
}

static void test_png_wrong(void **state)
{
    if (!NEAP_HAS_PNG)
        skip_because("this build has no libpng");
    static const unsigned char dots[12] = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110};
    char *path = join_path(*state, "whole");
    size_t size;
    write_png(path, 2, 2, 2, 8, dots);
    unsigned char *bytes = read_file_bytes(path, &size);
    for (size_t cut = 0; cut + 12 < size; cut++) /* libpng does not insist on the IEND chunk */
        expect_bad_picture(*state, "x.png", bytes, cut, "PNG");
    bytes[size - 20] ^= 1; /* in the data */
    expect_bad_picture(*state, "x.png", bytes, size, "damaged, or not a PNG picture");
    expect_bad_picture(*state, "x.png", "P6 1 1 255 123", 14, "damaged, or not a PNG picture");
    free(bytes);
    unlink(path);
    /* 65535 x 65535 pixels in 57 bytes. */
    static const char claims[] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0"
        "\x39\x67\x4e\x07\0\0\0\0IDAT\x35\xaf\x06\x1e\0\0\0\0IEND\xae\x42\x60\x82";
    expect_bad_picture(*state, "x.png", claims, sizeof claims - 1, "too many");
    free(path);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation),
        IN_FOLDER(test_epochs),
        cmocka_unit_test(test_synthetic),
        cmocka_unit_test(test_synthetic_ids),
        cmocka_unit_test(test_specs),
        IN_FOLDER(test_mnist),
        IN_FOLDER(test_mnist_wrong),
        IN_FOLDER(test_cifar10),
        IN_FOLDER(test_cifar10_wrong),
        IN_FOLDER(test_folders),
        IN_FOLDER(test_folders_wrong),
        IN_FOLDER(test_broken_picture),
        IN_FOLDER(test_bilinear),
        IN_FOLDER(test_pnm),
        IN_FOLDER(test_pnm_wrong),
        IN_FOLDER(test_pnm_large),
        IN_FOLDER(test_png),
        IN_FOLDER(test_png_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
