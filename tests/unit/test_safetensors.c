/*
 * neap/safetensors.h: files read back as written; files of other programs; files that are
 * truncated, wrong or hostile; a full disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "picture_files.h"
#include "run_command.h"

#include <neap/safetensors.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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
    remove_temporary_folder(*state);
    return 0;
}

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2;
}

/* A file of this header, written with ' for ", and n bytes of data. */
static void write_header(const char *path, const char *header, size_t n)
{
    size_t length = strlen(header);
    char *bytes = calloc(1, 8 + length + n);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (char)(unsigned char)((uint64_t)length >> 8 * i);
    for (size_t i = 0; i < length; i++)
        bytes[8 + i] = header[i] == '\'' ? '"' : header[i];
    for (size_t i = 0; i < n; i++)
        bytes[8 + length + i] = (char)i;
    write_file_bytes(path, bytes, 8 + length + n);
    free(bytes);
}

static void expect_refused(const char *path, const char *part)
{
    neap_diag diag = {0};
    neap_safetensors *file = (neap_safetensors *)&diag;
    neap_status status = neap_safetensors_open(NULL, path, &file, &diag);
    assert_null(file);
    if (status != NEAP_INVALID || strncmp(diag.message, path, strlen(path)) != 0 ||
        !strstr(diag.message, part))
        fail_msg("%s, \"%s\" instead of \"%s\"", neap_status_name(status), diag.message, part);
}

static const float floats[6] = {1, -2.5f, 3, 0, 5e-30f, 6};
static const int64_t longs[2] = {INT64_MIN, 77};
static const uint8_t bytes3[3] = {1, 2, 255};
static const uint16_t halves[4] = {0x3c00, 1, 2, 3};
static const double doubles[1] = {0.1};
static const int32_t ints[2] = {-1, 9};
static const int64_t shape23[] = {2, 3}, shape2[] = {2}, shape3[] = {3}, shape122[] = {1, 2, 2},
                     shape0[] = {5, 0};

static const neap_safetensor sample[] = {
    {"b.bytes", NEAP_U8, 1, shape3, bytes3},
    {"layer \"1\"\\\n\xc3\xa9", NEAP_F32, 2, shape23, floats},
    {"steps", NEAP_I64, 1, shape2, longs},
    {"empty", NEAP_F16, 2, shape0, NULL},
    {"half", NEAP_F16, 3, shape122, halves},
    {"brain", NEAP_BF16, 3, shape122, halves},
    {"scalar", NEAP_F64, 0, NULL, doubles},
    {"ints", NEAP_I32, 1, shape2, ints},
};
static const neap_metadata notes[] = {
    {"step", "1200"}, {"format", "pt"}, {"e\"", "\x01\xe2\x82\xac"}};

static neap_status write_sample(neap_allocator *allocator, const char *path, neap_diag *diag)
{
    return neap_safetensors_write(allocator, path, sample, COUNT_OF(sample), notes, COUNT_OF(notes),
                                  diag);
}

/* ---- There and back ---- */

static void test_round_trip(void **state)
{
    char *path = join_path(*state, "model.safetensors");
    neap_diag diag = {0};
    neap_safetensors *file;
    assert_int_equal(write_sample(NULL, path, &diag), NEAP_OK);
    assert_int_equal(neap_safetensors_open(NULL, path, &file, &diag), NEAP_OK);
    assert_int_equal(neap_safetensors_count(file), COUNT_OF(sample));
    for (size_t i = 0; i < COUNT_OF(sample); i++) {
        const neap_safetensors_entry *entry = neap_safetensors_find(file, sample[i].name);
        unsigned char buffer[64];
        assert_non_null(entry);
        assert_int_equal(entry->dtype, sample[i].dtype);
        assert_int_equal(entry->rank, sample[i].rank);
        int64_t bytes = neap_dtype_bytes(sample[i].dtype);
        for (uint32_t k = 0; k < entry->rank; k++) {
            assert_int_equal(entry->shape[k], sample[i].shape[k]);
            bytes *= sample[i].shape[k];
        }
        assert_int_equal(entry->bytes, bytes);
        assert_int_equal(entry->offset % neap_dtype_bytes(entry->dtype), 0);
        assert_int_equal(neap_safetensors_read(file, entry, buffer, sizeof buffer, &diag), NEAP_OK);
        if (bytes > 0) {
            assert_memory_equal(buffer, sample[i].data, (size_t)bytes);
            assert_int_equal(neap_safetensors_read(file, entry, buffer, (size_t)bytes - 1, &diag),
                             NEAP_INVALID);
        }
    }
    for (size_t i = 1; i < neap_safetensors_count(file); i++)
        assert_true(
            strcmp(neap_safetensors_at(file, i - 1)->name, neap_safetensors_at(file, i)->name) < 0);
    assert_string_equal(neap_safetensors_find(file, "half")->dtype_name, "F16");
    assert_null(neap_safetensors_find(file, "no"));
    assert_null(neap_safetensors_find(file, "__metadata__"));
    assert_int_equal(neap_safetensors_metadata_count(file), COUNT_OF(notes));
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        assert_string_equal(neap_safetensors_metadata(file, notes[i].key), notes[i].value);
    assert_string_equal(neap_safetensors_metadata_at(file, 0)->key, "e\"");
    assert_null(neap_safetensors_metadata(file, "no"));
    neap_safetensors_close(file);
    neap_safetensors_close(NULL);
    assert_int_equal(count_entries(*state), 1);
    free(path);
}

/* The bytes, spelled out: what other readers rely on. */
static void test_format(void **state)
{
    char *path = join_path(*state, "f");
    static const neap_safetensor tensor = {"a", NEAP_U8, 1, shape3, bytes3};
    static const neap_metadata note = {"k", "v"};
    static const char header[] =
        "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"U8\",\"shape\":[3],"
        "\"data_offsets\":[0,3]}}  ";
    size_t size, length = sizeof header - 1;
    assert_int_equal(length % 8, 0);
    assert_int_equal(neap_safetensors_write(NULL, path, &tensor, 1, &note, 1, NULL), NEAP_OK);
    unsigned char *got = read_file_bytes(path, &size);
    assert_int_equal(size, 8 + length + 3);
    assert_int_equal(got[0], length);
    assert_memory_equal(got + 1, "\0\0\0\0\0\0\0", 7);
    assert_memory_equal(got + 8, header, length);
    assert_memory_equal(got + 8 + length, bytes3, 3);
    free(got);
    free(path);
}

static void test_nothing(void **state)
{
    char *path = join_path(*state, "f");
    neap_safetensors *file;
    neap_diag diag = {0};
    assert_int_equal(neap_safetensors_write(NULL, path, NULL, 0, NULL, 0, &diag), NEAP_OK);
    assert_int_equal(neap_safetensors_open(NULL, path, &file, &diag), NEAP_OK);
    assert_int_equal(neap_safetensors_count(file), 0);
    assert_int_equal(neap_safetensors_metadata_count(file), 0);
    assert_null(neap_safetensors_find(file, "a"));
    neap_safetensors_close(file);
    free(path);
}

/* Another program's file: any order, white space, dtypes we only carry, unknown fields. */
static void test_foreign(void **state)
{
    char *path = join_path(*state, "f");
    neap_safetensors *file;
    neap_diag diag = {0};
    char buffer[8];
    write_header(path,
                 "{ 'z' : {'data_offsets':[2,6], 'shape':[2], 'dtype':'I16', 'new':{'x':[1]}},\n"
                 " '\\u0061':{'dtype':'BOOL','shape':[2],'data_offsets':[0,2]} }   ",
                 6);
    if (neap_safetensors_open(NULL, path, &file, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    const neap_safetensors_entry *a = neap_safetensors_find(file, "a");
    const neap_safetensors_entry *z = neap_safetensors_find(file, "z");
    assert_true(a && z);
    assert_int_equal(z->dtype, NEAP_DTYPE_UNKNOWN);
    assert_string_equal(z->dtype_name, "I16");
    assert_int_equal(neap_safetensors_read(file, z, buffer, 4, &diag), NEAP_OK);
    assert_memory_equal(buffer, "\2\3\4\5", 4);
    neap_safetensors_close(file);
    free(path);
}

/* ---- Wrong files ---- */

static void test_wrong_headers(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } cases[] = {
        {"", 0, ":1:1: "},
        {"[]", 0, ":1:1: expected an object '{'"},
        {"{", 0, "cut off"},
        {"{} x", 0, ":1:4: unexpected text after"},
        {"{}", 5, "the last 5 bytes belong to no tensor"},
        {"{'a':1}", 0, ":1:6: expected an object"},
        {"{'a':{}}", 0, "\"a\" lacks its dtype, shape or data_offsets"},
        {"{'a':{'dtype':'F32','shape':[1]}}", 0, "lacks its"},
        {"{'a':{'dtype':'F33','shape':[1],'data_offsets':[0,4]}}", 4, "\"F33\" is not a dtype"},
        {"{'a':{'dtype':'f32','shape':[1],'data_offsets':[0,4]}}", 4, "\"f32\" is not a dtype"},
        {"{'a':{'dtype':'U8','dtype':'U8','shape':[1],'data_offsets':[0,1]}}", 1, "given twice"},
        {"{'a':{'dtype':'F32','shape':[-1],'data_offsets':[0,4]}}", 4, "cannot be negative"},
        {"{'a':{'dtype':'F32','shape':[1.5],'data_offsets':[0,4]}}", 4, "a whole number"},
        {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,4]}}", 4,
         "\"a\" has 4 bytes of data, but its shape of F32 makes 8"},
        {"{'a':{'dtype':'F32','shape':[4611686018427387904,4],'data_offsets':[0,4]}}", 4,
         "past 2^63"},
        {"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}", 3, "end at 4"},
        {"{'a':{'dtype':'U8','shape':[4],'data_offsets':[-4,0]}}", 3, "data_offsets must be"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[2,1]}}", 3, "data_offsets must be"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0]}}", 1, "two numbers"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1,2,3,4]}}", 1, "two numbers"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,9223372036854775807]}}", 1, "end at"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[1,2]}}", 2, "1 bytes before"},
        {"{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},"
         "'b':{'dtype':'U8','shape':[2],'data_offsets':[1,3]}}",
         3, "the data of \"a\" and \"b\" overlap"},
        {"{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},"
         "'b':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}",
         2, "overlap"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1]},"
         "'a':{'dtype':'U8','shape':[1],'data_offsets':[1,2]}}",
         2, "two tensors have the name \"a\""},
        {"{'__metadata__':{'a':1}}", 0, "expected a string"},
        {"{'__metadata__':{'a':'1','a':'2'}}", 0, "the key \"a\" twice"},
        {"{'__metadata__':{},'__metadata__':{}}", 0, "given twice"},
        {"{'a\xff':{}}", 0, "UTF-8"},
    };
    char *path = join_path(*state, "f");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        write_header(path, cases[i].header, cases[i].data);
        expect_refused(path, cases[i].message);
    }
    write_file_bytes(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    expect_refused(path, "past the format's limit");
    write_file_bytes(path, "\x01\xe1\xf5\x05\0\0\0\0{}", 10); /* 100,000,001 */
    expect_refused(path, "past the format's limit");
    write_file_bytes(path, "\x00\xe1\xf5\x05\0\0\0\0{}", 10);
    expect_refused(path, "only 2 follow; the file is cut off");
    free(path);
}

static void test_every_truncation(void **state)
{
    char *path = join_path(*state, "whole"), *cut = join_path(*state, "cut");
    size_t size;
    assert_int_equal(write_sample(NULL, path, NULL), NEAP_OK);
    unsigned char *all = read_file_bytes(path, &size);
    for (size_t i = 0; i < size; i++) {
        write_file_bytes(cut, all, i);
        expect_refused(cut, "");
    }
    free(all);
    free(path);
    free(cut);
}

/* Cut off after it was opened. */
static void test_cut_while_open(void **state)
{
    char *path = join_path(*state, "f"), buffer[24];
    neap_safetensors *file;
    neap_diag diag = {0};
    assert_int_equal(write_sample(NULL, path, NULL), NEAP_OK);
    assert_int_equal(neap_safetensors_open(NULL, path, &file, &diag), NEAP_OK);
    const neap_safetensors_entry *entry = neap_safetensors_find(file, sample[1].name);
    assert_int_equal(truncate(path, entry->offset + 3), 0);
    assert_int_equal(neap_safetensors_read(file, entry, buffer, sizeof buffer, &diag),
                     NEAP_INVALID);
    assert_non_null(strstr(diag.message, "21 bytes too early"));
    neap_safetensors_close(file);
    free(path);
}

static void test_no_file(void **state)
{
    char *missing = join_path(*state, "none"), *pipe_path = join_path(*state, "pipe");
    neap_safetensors *file;
    neap_diag diag = {0};
    assert_int_equal(neap_safetensors_open(NULL, missing, &file, &diag), NEAP_IO);
    assert_int_equal(neap_safetensors_open(NULL, *state, &file, &diag), NEAP_IO);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(neap_safetensors_open(NULL, pipe_path, &file, &diag), NEAP_IO);
    assert_non_null(strstr(diag.message, "not an ordinary file"));
    assert_null(file);
    free(missing);
    free(pipe_path);
}

/* ---- Wrong input ---- */

static void expect_unwritten(const char *path, const neap_safetensor *tensors, size_t n,
                             const neap_metadata *metadata, size_t n_metadata, const char *part)
{
    neap_diag diag = {0};
    neap_status status =
        neap_safetensors_write(NULL, path, tensors, n, metadata, n_metadata, &diag);
    if (status != NEAP_INVALID || !strstr(diag.message, part))
        fail_msg("%s, \"%s\" instead of \"%s\"", neap_status_name(status), diag.message, part);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void test_wrong_input(void **state)
{
    static const int64_t negative[] = {-1}, huge[] = {INT64_MAX, 2}, large[] = {INT64_MAX / 2};
    static const neap_safetensor no_dtype = {"a", NEAP_DTYPE_UNKNOWN, 0, NULL, bytes3},
                                 own_word = {"__metadata__", NEAP_U8, 0, NULL, bytes3},
                                 below = {"a", NEAP_U8, 1, negative, bytes3},
                                 past = {"a", NEAP_U8, 2, huge, bytes3},
                                 no_text = {"\xff", NEAP_U8, 0, NULL, bytes3};
    static const neap_safetensor twice[] = {{"a", NEAP_U8, 0, NULL, bytes3},
                                            {"a", NEAP_F32, 0, NULL, floats}};
    static const neap_safetensor together[] = {{"a", NEAP_U8, 1, large, NULL},
                                               {"b", NEAP_U8, 1, large, NULL},
                                               {"c", NEAP_U8, 1, large, NULL}};
    static const neap_metadata keys[] = {{"k", "1"}, {"k", "2"}};
    char *path = join_path(*state, "f");
    expect_unwritten(path, &no_dtype, 1, NULL, 0, "\"a\" has no dtype");
    expect_unwritten(path, &own_word, 1, NULL, 0, "__metadata__");
    expect_unwritten(path, &below, 1, NULL, 0, "negative or too large");
    expect_unwritten(path, &past, 1, NULL, 0, "negative or too large");
    expect_unwritten(path, &no_text, 1, NULL, 0, "UTF-8");
    expect_unwritten(path, twice, 2, NULL, 0, "two tensors have the name \"a\"");
    expect_unwritten(path, together, 3, NULL, 0, "together");
    expect_unwritten(path, NULL, 0, keys, 2, "twice");
    expect_unwritten(path, NULL, 0, &(neap_metadata){"k", "\xff"}, 1, "UTF-8");
    expect_unwritten(path, NULL, 0, &(neap_metadata){"\xff", "v"}, 1, "UTF-8");
    assert_int_equal(count_entries(*state), 0);
    free(path);
}

/* ---- Disks ---- */

static void test_full_disk(void **state)
{
    char *path = join_path(*state, "f");
    static const neap_metadata old_note = {"old", "yes"};
    neap_diag diag = {0};
    neap_safetensors *file;
    int64_t shape[] = {100000};
    float *large = calloc(100000, sizeof *large);
    assert_non_null(large);
    neap_safetensor tensor = {"w", NEAP_F32, 1, shape, large};
    assert_int_equal(neap_safetensors_write(NULL, path, NULL, 0, &old_note, 1, NULL), NEAP_OK);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    neap_status status = neap_safetensors_write(NULL, path, &tensor, 1, NULL, 0, &diag);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, NEAP_IO);
    assert_non_null(strstr(diag.message, path));
    assert_non_null(strstr(diag.message, "it takes 391 KiB, an earlier file is unchanged"));
    assert_int_equal(count_entries(*state), 1);
    assert_int_equal(neap_safetensors_open(NULL, path, &file, &diag), NEAP_OK);
    assert_string_equal(neap_safetensors_metadata(file, "old"), "yes");
    neap_safetensors_close(file);
    if (access("/dev/full", W_OK) == 0) {
        status = neap_safetensors_write(NULL, "/dev/full", &tensor, 1, NULL, 0, &diag);
        assert_int_equal(status, NEAP_IO);
        assert_non_null(strstr(diag.message, "No space left on device"));
    }
    free(large);
    free(path);
}

/* Killed while it writes, again and again: the old file or the new one, never a part. */
static void test_killed(void **state)
{
    char *path = join_path(*state, "f");
    int64_t shape[] = {1 << 20};
    float *data = malloc(sizeof *data << 20);
    assert_non_null(data);
    int litter = 0;
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 1 << 20; i++)
            data[i] = (float)round;
        neap_safetensor tensor = {"w", NEAP_F32, 1, shape, data};
        if (round == 0)
            assert_int_equal(neap_safetensors_write(NULL, path, &tensor, 1, NULL, 0, NULL),
                             NEAP_OK);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (;;)
                if (neap_safetensors_write(NULL, path, &tensor, 1, NULL, 0, NULL) != NEAP_OK)
                    _exit(1);
        }
        struct timespec pause = {0, 3000000L * (round + 1)};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        neap_safetensors *file;
        neap_diag diag = {0};
        if (neap_safetensors_open(NULL, path, &file, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
        float *seen = malloc(sizeof *seen << 20);
        assert_non_null(seen);
        assert_int_equal(neap_safetensors_read(file, neap_safetensors_at(file, 0), seen,
                                               sizeof *seen << 20, &diag),
                         NEAP_OK);
        for (int i = 0; i < 1 << 20; i++)
            assert_true(seen[i] == seen[0]);
        free(seen);
        neap_safetensors_close(file);
        litter = count_entries(*state) - 1;
    }
    print_message("%d temporary files were left\n", litter);
    free(data);
    free(path);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_round_trip),     IN_FOLDER(test_format),
        IN_FOLDER(test_nothing),        IN_FOLDER(test_foreign),
        IN_FOLDER(test_wrong_headers),  IN_FOLDER(test_every_truncation),
        IN_FOLDER(test_cut_while_open), IN_FOLDER(test_no_file),
        IN_FOLDER(test_wrong_input),    IN_FOLDER(test_full_disk),
        IN_FOLDER(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
