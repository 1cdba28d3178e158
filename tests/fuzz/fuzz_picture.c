/*
 * An image file of arbitrary bytes, read as PNG or PNM according to its first byte: rejected with
 * one line, or an image whose samples are in range and which can be resized.
 */
#include "fuzz.h"
#include "train/data_internal.h"

#include <math.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void picture_check(const neap_picture *picture)
{
    FUZZ_CHECK(picture->channels == 1 || picture->channels == 3);
    FUZZ_CHECK(picture->height > 0 && picture->width > 0);
    FUZZ_CHECK(picture->height * picture->width <= NEAP_PICTURE_MOST_PIXELS);
    FUZZ_CHECK(picture->white > 0 && picture->white <= 65535);
    FUZZ_CHECK((uint64_t)neap_picture_bytes(picture) <= picture->capacity);
    const neap_dataset_shape shapes[] = {{1, 3, 5, 1}, {3, 4, 2, 1}};
    for (int i = 0; i < 2; i++) {
        float sample[24];
        neap_picture_deliver(picture, &shapes[i], sample);
        for (int64_t k = 0; k < shapes[i].channels * shapes[i].height * shapes[i].width; k++)
            FUZZ_CHECK(fabsf(sample[k]) <= 2.00001f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    FILE *stream = tmpfile();
    neap_picture picture = {0};
    neap_diag diag = {0};
    FUZZ_CHECK(stream != NULL);
    FUZZ_CHECK(fwrite(data, 1, size, stream) == size && fflush(stream) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(stream));
    bool png = size > 0 && data[0] == 0x89;
    neap_allocator *allocator = neap_allocator_system();
    neap_status status = png ? neap_picture_read_png(&picture, allocator, path, &diag)
                             : neap_picture_read_pnm(&picture, allocator, path, &diag);
    fclose(stream);
    if (status == NEAP_OK)
        picture_check(&picture);
    else if (status == NEAP_UNSUPPORTED) /* PNG, in a build without */
        FUZZ_CHECK(png && strncmp(diag.message, path, strlen(path)) == 0);
    else
        fuzz_check_refusal(status, &diag, path);
    neap_picture_clear(&picture, allocator);
    return 0;
}
