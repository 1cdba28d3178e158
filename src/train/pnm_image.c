/*
 * Portable graymaps and pixmaps: P2 and P3 (decimal numbers), P5 and P6 (bytes, two per sample if
 * white is above 255). The file is read in blocks, never as a whole. The sizes in its header are
 * checked against the size of the file before memory is allocated.
 */
#include "base/fail.h"
#include "base/file.h"
#include "train/data_internal.h"

#include <string.h>
#include <unistd.h>

typedef struct pnm_reader {
    const char *path;
    int file;
    int64_t file_bytes;
    int64_t read; /* bytes of the file read into blocks */
    size_t at, filled;
    neap_status status; /* sticky */
    neap_diag *diag;
    unsigned char block[8192];
} pnm_reader;

static int64_t place(const pnm_reader *r)
{
    return r->read - (int64_t)(r->filled - r->at);
}

/* The next byte, not consumed; -1 at the end of the file and after an error. */
static int peek(pnm_reader *r)
{
    if (r->status != NEAP_OK)
        return -1;
    if (r->at == r->filled) {
        int64_t left = r->file_bytes - r->read;
        size_t length = left < (int64_t)sizeof r->block ? (size_t)left : sizeof r->block;
        if (length == 0)
            return -1;
        r->status = neap_file_read_at(r->file, r->path, r->read, r->block, length, r->diag);
        if (r->status != NEAP_OK)
            return -1;
        r->read += (int64_t)length;
        r->at = 0;
        r->filled = length;
    }
    return r->block[r->at];
}

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(pnm_reader *r)
{
    for (int c; is_space(c = peek(r)) || c == '#'; r->at++)
        if (c == '#')
            while ((c = peek(r)) >= 0 && c != '\n')
                r->at++;
}

/* A number of 0 to `most`. */
static int64_t read_number(pnm_reader *r, const char *what, int64_t most)
{
    skip_space(r);
    int64_t number = 0, start = place(r);
    int c = peek(r);
    if (r->status == NEAP_OK && (c < '0' || c > '9'))
        r->status = neap_fail(r->diag, NEAP_INVALID, "%s: byte %lld: %s", r->path, (long long)start,
                              c < 0 ? "the file is cut off" : "a number expected");
    for (; (c = peek(r)) >= '0' && c <= '9' && number <= most; r->at++)
        number = number * 10 + (c - '0');
    if (r->status == NEAP_OK && number > most)
        r->status = neap_fail(r->diag, NEAP_INVALID, "%s: byte %lld: %s is past %lld", r->path,
                              (long long)start, what, (long long)most);
    return r->status == NEAP_OK ? number : 0;
}

static void put_sample(neap_picture *picture, int64_t index, uint32_t value)
{
    uint16_t wide = (uint16_t)value;
    if (picture->white > 255)
        memcpy(picture->samples + 2 * index, &wide, sizeof wide);
    else
        picture->samples[index] = (unsigned char)value;
}

static void read_numbers(pnm_reader *r, neap_picture *picture, int64_t n_samples)
{
    for (int64_t i = 0; i < n_samples && r->status == NEAP_OK; i++)
        put_sample(picture, i, (uint32_t)read_number(r, "a sample", picture->white));
}

static void read_bytes(pnm_reader *r, neap_picture *picture, int64_t n_samples)
{
    int64_t start = place(r);
    r->status = neap_file_read_at(r->file, r->path, start, picture->samples,
                                  (size_t)neap_picture_bytes(picture), r->diag);
    bool wide = picture->white > 255;
    for (int64_t i = 0; i < n_samples && r->status == NEAP_OK; i++) {
        uint32_t value = picture->samples[i];
        if (wide)
            value = (uint32_t)picture->samples[2 * i] << 8 | picture->samples[2 * i + 1];
        if (value > picture->white)
            r->status = neap_fail(r->diag, NEAP_INVALID,
                                  "%s: byte %lld: a sample of %lu where white is %lu", r->path,
                                  (long long)(start + i * (wide ? 2 : 1)), (unsigned long)value,
                                  (unsigned long)picture->white);
        if (wide)
            put_sample(picture, i, value);
    }
}

static void read_picture(pnm_reader *r, neap_picture *picture, neap_allocator *allocator)
{
    static const char kinds[] = "2356";
    int letter = peek(r);
    r->at += letter >= 0;
    int kind = peek(r);
    r->at += kind >= 0;
    if (r->status == NEAP_OK && (letter != 'P' || kind <= 0 || !strchr(kinds, kind)))
        r->status = neap_fail(r->diag, NEAP_INVALID,
                              "%s: begins with none of P2, P3, P5 and P6; not a picture neap reads",
                              r->path);
    int64_t width = read_number(r, "the width", INT32_MAX);
    int64_t height = read_number(r, "the height", INT32_MAX);
    int64_t white = read_number(r, "the largest sample", 65535);
    if (r->status == NEAP_OK && white == 0)
        r->status =
            neap_fail(r->diag, NEAP_INVALID, "%s: the largest sample must be 1 to 65535", r->path);
    if (r->status == NEAP_OK && !is_space(peek(r)) && r->status == NEAP_OK)
        r->status =
            neap_fail(r->diag, NEAP_INVALID, "%s: byte %lld: white space must follow the header",
                      r->path, (long long)place(r));
    if (r->status != NEAP_OK)
        return;
    r->at++;
    bool as_numbers = kind == '2' || kind == '3';
    int64_t channels = kind == '3' || kind == '6' ? 3 : 1;
    int64_t rest = r->file_bytes - place(r), pixels = width * height; /* below 2^62 */
    int64_t n_samples = pixels <= NEAP_PICTURE_MOST_PIXELS ? channels * pixels : 0;
    /* A number is a digit and a space at least, but for the last. */
    int64_t least = as_numbers ? 2 * n_samples - 1 : n_samples * (white > 255 ? 2 : 1);
    if (least > rest) {
        r->status = neap_fail(r->diag, NEAP_INVALID,
                              "%s: %lld x %lld pixels do not fit into the %lld bytes behind the "
                              "header; the file is cut off",
                              r->path, (long long)width, (long long)height, (long long)rest);
        return;
    }
    r->status = neap_picture_begin(picture, allocator, r->path, channels, height, width,
                                   (uint32_t)white, r->diag);
    if (r->status != NEAP_OK)
        return;
    if (as_numbers)
        read_numbers(r, picture, n_samples);
    else
        read_bytes(r, picture, n_samples);
}

neap_status neap_picture_read_pnm(neap_picture *picture, neap_allocator *allocator,
                                  const char *path, neap_diag *diag)
{
    pnm_reader r = {.path = path, .diag = diag};
    r.status = neap_file_open(path, &r.file, &r.file_bytes, diag);
    if (r.status != NEAP_OK)
        return r.status;
    read_picture(&r, picture, allocator);
    close(r.file);
    return r.status;
}
