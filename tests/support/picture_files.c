#include "picture_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "run_command.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *make_subfolder(const char *folder, const char *name)
{
    char *path = join_path(folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static void empty_folder(const char *folder, int levels)
{
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        struct stat info;
        char *path = join_path(folder, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            if (levels > 0 && lstat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
                empty_folder(path, levels - 1);
                rmdir(path);
            } else {
                unlink(path);
            }
        }
        free(path);
    }
    closedir(entries);
}

void remove_folder_tree(char *folder)
{
    empty_folder(folder, 2);
    remove_temporary_folder(folder);
}

void write_file_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

unsigned char *read_file_bytes(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    *size = (size_t)info.st_size;
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

/* ---- PNG ---- */

static void put_u32(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)(value >> 24);
    to[1] = (unsigned char)(value >> 16);
    to[2] = (unsigned char)(value >> 8);
    to[3] = (unsigned char)value;
}

static uint32_t crc32_of(const unsigned char *data, size_t size)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static void put_chunk(FILE *file, const char *type, const unsigned char *data, size_t size)
{
    unsigned char *chunk = malloc(size + 12);
    assert_non_null(chunk);
    put_u32(chunk, (uint32_t)size);
    memcpy(chunk + 4, type, 4);
    if (size > 0)
        memcpy(chunk + 8, data, size);
    put_u32(chunk + 8 + size, crc32_of(chunk + 4, size + 4));
    assert_int_equal(fwrite(chunk, 1, size + 12, file), size + 12);
    free(chunk);
}

/* zlib's wrapper around one stored block; of at most 65535 bytes. */
static unsigned char *store(const unsigned char *data, size_t size, size_t *stored)
{
    assert_true(size <= 65535);
    unsigned char *out = malloc(size + 11);
    uint32_t a = 1, b = 0;
    assert_non_null(out);
    for (size_t i = 0; i < size; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    memcpy(out, "\x78\x01\x01", 3);
    out[3] = (unsigned char)size;
    out[4] = (unsigned char)(size >> 8);
    out[5] = (unsigned char)~out[3];
    out[6] = (unsigned char)~out[4];
    memcpy(out + 7, data, size);
    put_u32(out + 7 + size, b << 16 | a);
    *stored = size + 11;
    return out;
}

void write_png(const char *path, uint32_t width, uint32_t height, int color_type, int bits,
               const unsigned char *samples)
{
    static const size_t channels[] = {1, 0, 3, 0, 2, 0, 4};
    size_t row = width * channels[color_type] * (size_t)bits / 8, stored;
    unsigned char header[13] = {0}, *rows = malloc(height * (row + 1));
    assert_non_null(rows);
    for (size_t y = 0; y < height; y++) {
        rows[y * (row + 1)] = 0; /* no filter */
        memcpy(rows + y * (row + 1) + 1, samples + y * row, row);
    }
    put_u32(header, width);
    put_u32(header + 4, height);
    header[8] = (unsigned char)bits;
    header[9] = (unsigned char)color_type;
    unsigned char *data = store(rows, height * (row + 1), &stored);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("\x89PNG\r\n\x1a\n", 1, 8, file), 8);
    put_chunk(file, "IHDR", header, sizeof header);
    put_chunk(file, "IDAT", data, stored);
    put_chunk(file, "IEND", NULL, 0);
    assert_int_equal(fclose(file), 0);
    free(data);
    free(rows);
}

/* ---- Data sets ---- */

static void write_in(const char *folder, const char *name, const void *bytes, size_t size)
{
    char *path = join_path(folder, name);
    write_file_bytes(path, bytes, size);
    free(path);
}

void write_mnist(const char *folder, uint32_t count, uint32_t height, uint32_t width,
                 uint32_t classes)
{
    size_t size = (size_t)height * width;
    unsigned char *images = calloc(1, 16 + count * size), *labels = calloc(1, 8 + count);
    assert_true(images && labels);
    put_u32(images, 0x803);
    put_u32(images + 4, count);
    put_u32(images + 8, height);
    put_u32(images + 12, width);
    put_u32(labels, 0x801);
    put_u32(labels + 4, count);
    for (uint32_t i = 0; i < count; i++) {
        labels[8 + i] = (unsigned char)(i % classes);
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++)
                images[16 + i * size + y * width + x] = (unsigned char)(7 * i + 3 * y + x);
    }
    write_in(folder, "train-images-idx3-ubyte", images, 16 + count * size);
    write_in(folder, "train-labels-idx1-ubyte", labels, 8 + count);
    free(images);
    free(labels);
}

void write_cifar10(const char *folder, uint32_t each)
{
    unsigned char *records = calloc(each, 3073);
    assert_non_null(records);
    for (uint32_t f = 1; f <= 5; f++) {
        char name[32];
        for (uint32_t i = 0; i < each; i++) {
            unsigned char *record = records + (size_t)i * 3073;
            *record++ = (unsigned char)((f + i) % 10);
            for (uint32_t k = 0; k < 3072; k++)
                *record++ = (unsigned char)(f + 10 * i + 50 * (k / 1024) + k / 32 % 32 + k % 32);
        }
        snprintf(name, sizeof name, "data_batch_%u.bin", (unsigned)f);
        write_in(folder, name, records, (size_t)each * 3073);
    }
    free(records);
}

void write_image_folders(const char *folder)
{
    char *a = make_subfolder(folder, "a"), *b = make_subfolder(folder, "b");
    static const unsigned char dots[12] = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110};
    static const char red[] = "P6 # a comment\n2 2\n255\n\xff\0\0\xff\0\0\xff\0\0\xff\0\0";
    static const char grey[] = "P2\n2 2\n100\n0 50\n100 25\n";
    static const char one[] = "P3 2 2 255 0 10 20 30 40 50 60 70 80 90 100 110";
    write_in(a, "red.ppm", red, sizeof red - 1);
    write_in(a, "grey.pgm", grey, sizeof grey - 1);
    if (NEAP_HAS_PNG) {
        char *path = join_path(b, "one.png");
        write_png(path, 2, 2, 2, 8, dots);
        free(path);
    } else {
        write_in(b, "one.ppm", one, sizeof one - 1);
    }
    free(a);
    free(b);
}
