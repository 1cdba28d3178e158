/* Small data sets on disk: PNG, PPM, MNIST and CIFAR-10 files of known contents. */
#ifndef NEAP_TESTS_PICTURE_FILES_H
#define NEAP_TESTS_PICTURE_FILES_H

#include <stddef.h>
#include <stdint.h>

/* folder/name, made; the caller frees the path. */
char *make_subfolder(const char *folder, const char *name);
/* Removes a folder from make_temporary_folder with the folders in it, two levels. */
void remove_folder_tree(char *folder);

void write_file_bytes(const char *path, const void *bytes, size_t size);
/* The whole file; the caller frees it. */
unsigned char *read_file_bytes(const char *path, size_t *size);

/*
 * A PNG file without compression. color_type is 0 (grey), 2 (RGB), 4 (grey and alpha) or 6 (RGBA),
 * bits 8 or 16; `samples` are the bytes of the rows, high byte first.
 */
void write_png(const char *path, uint32_t width, uint32_t height, int color_type, int bits,
               const unsigned char *samples);

/* Pixel (i, y, x) of picture i is (7 i + 3 y + x) mod 256, its label i mod `classes`. */
void write_mnist(const char *folder, uint32_t count, uint32_t height, uint32_t width,
                 uint32_t classes);
/* Five files of `each` records; sample c, y, x of record i of file f is (f + 10 i + 50 c + y + x)
 * mod 256, its label (f + i) mod 10. */
void write_cifar10(const char *folder, uint32_t each);
/* Classes "a" (red.ppm, grey.pgm), "b" (one.png where there is PNG, else one.ppm), 2 x 2 each. */
void write_image_folders(const char *folder);

#endif
