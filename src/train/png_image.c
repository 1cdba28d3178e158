/*
 * PNG, read with libpng's simplified interface: samples are sRGB bytes, grey or colour. libpng
 * allocates its own memory from the C library; the picture uses the caller's allocator. Only this
 * file uses libpng.
 */
#include "base/fail.h"
#include "base/file.h"
#include "train/data_internal.h"

#if NEAP_HAS_PNG

#include <png.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *neap_picture_png_version(void)
{
    return png_get_libpng_ver(NULL);
}

static neap_status fail_png(const png_image *image, const char *path, neap_diag *diag)
{
    return neap_fail(diag, NEAP_INVALID, "%s: damaged, or not a PNG picture: %s", path,
                     image->message);
}

static neap_status read_stream(neap_picture *picture, neap_allocator *allocator, FILE *file,
                               const char *path, neap_diag *diag)
{
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_stdio(&image, file))
        return fail_png(&image, path, diag);
    bool color = (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
    image.format = color ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    image.flags |=
        PNG_IMAGE_FLAG_16BIT_sRGB; /* 16-bit files without gamma information are not linear */
    neap_status status = neap_picture_begin(picture, allocator, path, color ? 3 : 1, image.height,
                                            image.width, 255, diag);
    const png_color black = {0, 0, 0};
    if (status == NEAP_OK && !png_image_finish_read(&image, &black, picture->samples, 0, NULL))
        status = fail_png(&image, path, diag);
    png_image_free(&image);
    return status;
}

neap_status neap_picture_read_png(neap_picture *picture, neap_allocator *allocator,
                                  const char *path, neap_diag *diag)
{
    int file;
    int64_t bytes;
    neap_status status = neap_file_open(path, &file, &bytes, diag);
    if (status != NEAP_OK)
        return status;
    FILE *stream = fdopen(file, "rb");
    if (!stream) {
        close(file);
        return neap_fail_no_memory(diag);
    }
    status = read_stream(picture, allocator, stream, path, diag);
    fclose(stream);
    return status;
}

#else

const char *neap_picture_png_version(void)
{
    return "";
}

neap_status neap_picture_read_png(neap_picture *picture, neap_allocator *allocator,
                                  const char *path, neap_diag *diag)
{
    (void)picture;
    (void)allocator;
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "%s: this neap was built without libpng; convert the pictures to .ppm, or "
                     "install libpng-dev and build again",
                     path);
}

#endif
