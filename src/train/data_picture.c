/* Converts a picture from the form in its file to the form that a network reads. */
#include "base/fail.h"
#include "base/memory.h"
#include "train/data_internal.h"

#include <string.h>

neap_status neap_picture_begin(neap_picture *picture, neap_allocator *allocator, const char *path,
                               int64_t channels, int64_t height, int64_t width, uint32_t white,
                               neap_diag *diag)
{
    if (height < 1 || width < 1)
        return neap_fail(diag, NEAP_INVALID, "%s: a picture of %lld x %lld pixels is empty", path,
                         (long long)width, (long long)height);
    if (height > NEAP_PICTURE_MOST_PIXELS || width > NEAP_PICTURE_MOST_PIXELS / height)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: %lld x %lld pixels are too many, at most %lld are read; shrink it",
                         path, (long long)width, (long long)height,
                         (long long)NEAP_PICTURE_MOST_PIXELS);
    picture->channels = channels;
    picture->height = height;
    picture->width = width;
    picture->white = white;
    picture->planar = false;
    return NEAP_RESERVE(allocator, (size_t)neap_picture_bytes(picture), &picture->samples,
                        &picture->capacity, diag);
}

int64_t neap_picture_bytes(const neap_picture *picture)
{
    return picture->channels * picture->height * picture->width * (picture->white > 255 ? 2 : 1);
}

void neap_picture_clear(neap_picture *picture, neap_allocator *allocator)
{
    NEAP_DELETE(allocator, picture->capacity, picture->samples);
    *picture = (neap_picture){0};
}

static float sample_at(const neap_picture *p, int64_t index)
{
    if (p->white <= 255)
        return (float)p->samples[index];
    uint16_t wide;
    memcpy(&wide, p->samples + 2 * index, sizeof wide);
    return (float)wide;
}

/*
 * The two neighbours, among `there` pixels, of pixel `at` of `wanted`, and the weight of the
 * second.
 */
typedef struct tap {
    int64_t low, high;
    float part;
} tap;

static tap tap_of(int64_t at, int64_t wanted, int64_t there)
{
    double place = ((double)at + 0.5) * (double)there / (double)wanted - 0.5;
    place = place < 0 ? 0 : place > (double)(there - 1) ? (double)(there - 1) : place;
    tap t = {.low = (int64_t)place};
    t.high = t.low + 1 < there ? t.low + 1 : t.low;
    t.part = (float)(place - (double)t.low);
    return t;
}

/* Brightness of one channel at a position, 0 to 1. Without scaling this is the sample itself. */
static float bright(const neap_picture *p, int64_t channel, tap y, tap x)
{
    int64_t pixel = p->planar ? 1 : p->channels;
    int64_t first = p->planar ? channel * p->height * p->width : channel;
    int64_t top = first + y.low * p->width * pixel, bottom = first + y.high * p->width * pixel;
    float a = sample_at(p, top + x.low * pixel), b = sample_at(p, top + x.high * pixel);
    float c = sample_at(p, bottom + x.low * pixel), d = sample_at(p, bottom + x.high * pixel);
    float upper = a + x.part * (b - a), lower = c + x.part * (d - c);
    return (upper + y.part * (lower - upper)) / (float)p->white;
}

void neap_picture_deliver(const neap_picture *picture, const neap_dataset_shape *shape,
                          float *sample)
{
    int64_t plane = shape->height * shape->width;
    for (int64_t i = 0; i < shape->height; i++) {
        tap y = tap_of(i, shape->height, picture->height);
        for (int64_t k = 0; k < shape->width; k++) {
            tap x = tap_of(k, shape->width, picture->width);
            float values[3];
            for (int64_t c = 0; c < picture->channels; c++)
                values[c] = bright(picture, c, y, x);
            if (picture->channels == 1)
                values[1] = values[2] = values[0];
            else if (shape->channels == 1) /* ITU-R BT.601 */
                values[0] = 0.299f * values[0] + 0.587f * values[1] + 0.114f * values[2];
            for (int64_t c = 0; c < shape->channels; c++)
                sample[c * plane + i * shape->width + k] = (values[c] - 0.5f) * 4;
        }
    }
}
