/*
 * Convolutions as matrix products, on images and weights whose channels lie side by side: elements
 * are read four at a time, and the next tiles are on their way from memory while the current ones
 * are multiplied.
 *
 * A block of 256 threads makes a tile of 64 * rows x 64 * columns elements, rows and columns being
 * 1 or 2: 16 x 16 threads, each with fours of rows and columns that lie 64 apart.
 *
 * Gradients of images with a stride are done by class: pixels of the result with the same remainder
 * of their row and column meet the same taps, and the other taps are skipped.
 */
#include "conv.h"
#include "prelude.cuh"

#define TILE_DEPTH 16
#define TILE_MOST  128
#define TILE_NOWHERE (-(1 << 30)) /* a row that is in no image */

typedef struct ALIGNED(16) tile_four {
    float e[4];
} tile_four;

typedef struct ALIGNED(4 * sizeof(T)) tile_quad {
    T e[4];
} tile_quad;

/* Two of each: one is multiplied while the other is filled. */
typedef struct tile_memory {
    float a[2][TILE_DEPTH][TILE_MOST + 4];
    float b[2][TILE_DEPTH][TILE_MOST + 4];
    i64 out_offsets[TILE_MOST]; /* of pixels; -1: no pixel */
} tile_memory;

DEVICE tile_quad tile_zero(void)
{
    tile_quad zero;
    UNROLL for (int i = 0; i < 4; i++)
        zero.e[i] = to_t(0);
    return zero;
}

/* ---- Threads ---- */

/* Where a thread is among 16 x 16, so that a warp reads few different words: 4 x 8. */
DEVICE i32 tile_row(void)
{
    return (i32)threadIdx.x / 64 * 4 + (i32)threadIdx.x % 32 / 8;
}

DEVICE i32 tile_column(void)
{
    return (i32)threadIdx.x / 32 % 2 * 8 + (i32)threadIdx.x % 8;
}

DEVICE void tile_multiply(const tile_memory *memory, i32 buffer, int rows, int columns,
                          float (*sums)[8])
{
    i32 row = tile_row() * 4, column = tile_column() * 4;
    UNROLL for (int k = 0; k < TILE_DEPTH; k++) {
        tile_four a[2], b[2];
        UNROLL for (int i = 0; i < rows; i++)
            a[i] = *(const tile_four *)&memory->a[buffer][k][i * 64 + row];
        UNROLL for (int j = 0; j < columns; j++)
            b[j] = *(const tile_four *)&memory->b[buffer][k][j * 64 + column];
        UNROLL for (int i = 0; i < 4 * rows; i++) UNROLL for (int j = 0; j < 4 * columns; j++)
            sums[i][j] += a[i / 4].e[i % 4] * b[j / 4].e[j % 4];
    }
}

/* Four elements that follow each other along the depth. */
DEVICE void tile_put_deep(float (*to)[TILE_MOST + 4], i32 depth, i32 at, const tile_quad *quad)
{
    UNROLL for (int i = 0; i < 4; i++)
        to[depth + i][at] = from_t(quad->e[i]);
}

/* Along the side. */
DEVICE void tile_put_wide(float (*to)[TILE_MOST + 4], i32 depth, i32 at, const tile_quad *quad)
{
    tile_four four;
    UNROLL for (int i = 0; i < 4; i++)
        four.e[i] = from_t(quad->e[i]);
    *(tile_four *)&to[depth][at] = four;
}

/* ---- Images ---- */

/* The pixels of a block: all, or a class of remainders. */
typedef struct tile_class {
    i32 first_h, first_w, step_h, step_w; /* of pixels in the result */
    i32 h, w;                             /* how many rows and columns that is */
    i32 start_h, start_w;                 /* rows of `in` under tap 0, times the stride */
} tile_class;

DEVICE tile_class tile_class_of(const conv_image_params *p, i32 number, int gradient)
{
    const conv_window *window = &p->window;
    tile_class class_;
    class_.first_h = gradient ? number / window->stride_w : 0;
    class_.first_w = gradient ? number % window->stride_w : 0;
    class_.step_h = gradient ? window->stride_h : 1;
    class_.step_w = gradient ? window->stride_w : 1;
    class_.h = (p->out_h - class_.first_h + class_.step_h - 1) / class_.step_h;
    class_.w = (p->out_w - class_.first_w + class_.step_w - 1) / class_.step_w;
    class_.start_h = class_.first_h + window->pad_h;
    class_.start_w = class_.first_w + window->pad_w;
    return class_;
}

/* A place in the depth: a tap, and a channel of `in`. */
typedef struct tile_tap {
    i32 r, s, c;
    i32 h, w; /* from a pixel's place in `in` */
} tile_tap;

/* Of a class, taps that fall between rows or columns of `in` do not count. */
DEVICE int tile_meets(i32 start, i32 tap, i32 stride, int gradient)
{
    return !gradient || (start - tap) % stride == 0;
}

DEVICE void tile_set_tap(const conv_image_params *p, const tile_class *class_, tile_tap *tap,
                         int gradient)
{
    const conv_window *window = &p->window;
    i32 h = tap->r * window->dilation, w = tap->s * window->dilation;
    tap->h = gradient ? (class_->start_h - h) / window->stride_h : h;
    tap->w = gradient ? (class_->start_w - w) / window->stride_w : w;
}

/* To the next tap that counts, from the one before; beyond the last, r is kernel_h. */
DEVICE void tile_next_tap(const conv_image_params *p, const tile_class *class_, tile_tap *tap,
                          int gradient)
{
    const conv_window *window = &p->window;
    do {
        tap->s++;
        while (tap->s < window->kernel_w &&
               !tile_meets(class_->start_w, tap->s * window->dilation, window->stride_w, gradient))
            tap->s++;
        if (tap->s < window->kernel_w)
            break;
        tap->s = -1;
        tap->r++;
        while (tap->r < window->kernel_h &&
               !tile_meets(class_->start_h, tap->r * window->dilation, window->stride_h, gradient))
            tap->r++;
    } while (tap->r < window->kernel_h);
    tile_set_tap(p, class_, tap, gradient);
}

DEVICE tile_tap tile_first_tap(const conv_image_params *p, const tile_class *class_, int gradient)
{
    tile_tap tap;
    tap.r = 0;
    tap.s = -1;
    tap.c = 0;
    while (tap.r < p->window.kernel_h &&
           !tile_meets(class_->start_h, tap.r * p->window.dilation, p->window.stride_h, gradient))
        tap.r++;
    if (tap.r < p->window.kernel_h)
        tile_next_tap(p, class_, &tap, gradient);
    return tap;
}

DEVICE void tile_move_tap(const conv_image_params *p, const tile_class *class_, tile_tap *tap,
                          i32 by, int gradient)
{
    tap->c += by;
    while (tap->c >= p->in_channels && tap->r < p->window.kernel_h) {
        tap->c -= p->in_channels;
        tile_next_tap(p, class_, tap, gradient);
    }
}

/* How many taps count. */
DEVICE i32 tile_taps(const conv_image_params *p, const tile_class *class_, int gradient)
{
    const conv_window *window = &p->window;
    i32 rows = 0, columns = 0;
    for (i32 r = 0; r < window->kernel_h; r++)
        rows += tile_meets(class_->start_h, r * window->dilation, window->stride_h, gradient);
    for (i32 s = 0; s < window->kernel_w; s++)
        columns += tile_meets(class_->start_w, s * window->dilation, window->stride_w, gradient);
    return rows * columns;
}

typedef struct tile_place {
    i64 offset;
    i32 h, w;
} tile_place;

/* Of a pixel of the class, in `in`; its place in the result goes to shared memory. */
DEVICE tile_place tile_find_pixel(const conv_image_params *p, const tile_class *class_, i64 pixel,
                                  i64 pixels, i32 group, int gradient, i64 *out_offset)
{
    tile_place place;
    i64 rest = pixel / class_->w, n = rest / class_->h;
    i32 j = (i32)(pixel - rest * class_->w), i = (i32)(rest - n * class_->h);
    i32 h = class_->first_h + i * class_->step_h, w = class_->first_w + j * class_->step_w;
    *out_offset = n * p->out_strides[0] + h * p->out_strides[2] + w * p->out_strides[3];
    place.offset = n * p->in_strides[0] + (i64)group * p->in_channels;
    place.h = gradient ? i : h * p->window.stride_h - p->window.pad_h;
    place.w = gradient ? j : w * p->window.stride_w - p->window.pad_w;
    if (pixel >= pixels) {
        *out_offset = -1;
        place.offset = 0;
        place.h = TILE_NOWHERE;
    }
    return place;
}

DEVICE tile_quad tile_load_image(const conv_image_params *p, const tile_place *place,
                                 const tile_tap *tap)
{
    i32 h = place->h + tap->h, w = place->w + tap->w;
    if (tap->r >= p->window.kernel_h || (u32)h >= (u32)p->in_h || (u32)w >= (u32)p->in_w)
        return tile_zero();
    return *(const tile_quad *)((const T *)p->in + place->offset + h * p->in_strides[2] +
                                w * p->in_strides[3] + tap->c);
}

/* Four of the channels of `in` (forward) or of the result (gradients): both lie side by side. */
DEVICE tile_quad tile_load_weight(const conv_image_params *p, const T *weight, const tile_tap *tap,
                                  i32 out_channel, int gradient)
{
    if (tap->r >= p->window.kernel_h || out_channel >= p->out_channels)
        return tile_zero();
    return *(const tile_quad *)(weight + out_channel * (gradient ? 1 : p->weight_strides[0]) +
                                tap->c * (gradient ? p->weight_strides[1] : 1) +
                                tap->r * p->weight_strides[2] + tap->s * p->weight_strides[3]);
}

DEVICE void tile_store_image(const conv_image_params *p, i64 offset, i32 channel, i32 group,
                             const float *sums)
{
    tile_quad quad;
    i64 at = (i64)group * p->out_channels + channel;
    if (offset < 0 || channel >= p->out_channels)
        return;
    UNROLL for (int i = 0; i < 4; i++) {
        float sum = sums[i];
        if (p->bias)
            sum += load((const T *)p->bias, at + i);
        if (p->relu && sum < 0)
            sum = 0;
        quad.e[i] = to_t(sum);
    }
    *(tile_quad *)((T *)p->out + offset + at) = quad;
}

/* Blocks: channels of the result fastest, then groups, classes, pixels. Tiles of 128 pixels. */
DEVICE void tile_image(const conv_image_params *p, tile_memory *memory, int columns, int gradient)
{
    i32 t = (i32)threadIdx.x, wide = columns * 64;
    u32 column_tiles = (u32)(p->out_channels + wide - 1) / (u32)wide, block = blockIdx.x;
    i32 column = (i32)(block % column_tiles) * wide;
    block /= column_tiles;
    i32 group = (i32)(block % (u32)p->groups);
    block /= (u32)p->groups;
    u32 classes = gradient ? (u32)(p->window.stride_h * p->window.stride_w) : 1;
    tile_class class_ = tile_class_of(p, (i32)(block % classes), gradient);
    i64 first = (i64)(block / classes) * TILE_MOST;
    i64 pixels = (i64)p->images * class_.h * class_.w;
    if (class_.h <= 0 || class_.w <= 0 || first >= pixels)
        return;
    i32 depth = tile_taps(p, &class_, gradient) * p->in_channels;
    i32 steps = (depth + TILE_DEPTH - 1) / TILE_DEPTH;
    const T *weight = (const T *)p->weight + group * p->group_stride;

    /* Of images, a thread loads four channels of two pixels. Forward, weights are loaded alike;
       for gradients, four channels of the result at two (or one) places of the depth. */
    i32 quad = t % 4 * 4, loader = t / 4, per_row = wide / 4;
    tile_tap tap = tile_first_tap(p, &class_, gradient), weight_tap = tap;
    tile_place places[2];
    tile_quad image_quads[2], weight_quads[2];
    UNROLL for (int i = 0; i < 2; i++) {
        i64 out_offset;
        places[i] = tile_find_pixel(p, &class_, first + loader + i * 64, pixels, group, gradient,
                                    &out_offset);
        if (t % 4 == 0)
            memory->out_offsets[loader + i * 64] = out_offset;
    }
    tile_move_tap(p, &class_, &tap, quad, gradient);
    i32 weight_depth = t / per_row, weight_column = t % per_row * 4;
    tile_tap weight_taps[2];
    if (gradient)
        UNROLL for (int i = 0; i < columns; i++) {
            weight_taps[i] = weight_tap;
            tile_move_tap(p, &class_, &weight_taps[i], weight_depth + i * (TILE_DEPTH / columns),
                          gradient);
        }

    float sums[8][8] = {{0}};
    for (i32 step = -1; step < steps; step++) {
        i32 buffer = step & 1, next = buffer ^ 1;
        int more = step + 1 < steps;
        if (more) {
            UNROLL for (int i = 0; i < 2; i++)
                image_quads[i] = tile_load_image(p, &places[i], &tap);
            UNROLL for (int i = 0; i < columns; i++)
                weight_quads[i] =
                    gradient ? tile_load_weight(p, weight, &weight_taps[i], column + weight_column,
                                                gradient)
                             : tile_load_weight(p, weight, &tap, column + loader + i * 64,
                                                gradient);
            tile_move_tap(p, &class_, &tap, TILE_DEPTH, gradient);
            if (gradient)
                UNROLL for (int i = 0; i < columns; i++)
                    tile_move_tap(p, &class_, &weight_taps[i], TILE_DEPTH, gradient);
        }
        if (step >= 0)
            tile_multiply(memory, buffer, 2, columns, sums);
        if (more) {
            UNROLL for (int i = 0; i < 2; i++)
                tile_put_deep(memory->a[next], quad, loader + i * 64, &image_quads[i]);
            UNROLL for (int i = 0; i < columns; i++)
                if (gradient)
                    tile_put_wide(memory->b[next], weight_depth + i * (TILE_DEPTH / columns),
                                  weight_column, &weight_quads[i]);
                else
                    tile_put_deep(memory->b[next], quad, loader + i * 64, &weight_quads[i]);
        }
        __syncthreads();
    }
    UNROLL for (int i = 0; i < 8; i++) UNROLL for (int j = 0; j < columns; j++)
        tile_store_image(p, memory->out_offsets[i / 4 * 64 + tile_row() * 4 + i % 4],
                         column + j * 64 + tile_column() * 4, group, &sums[i][j * 4]);
}

#define TILE_IMAGE(name, columns, gradient)                                                        \
    KERNEL_SYNC(name, conv_image_params)                                                           \
    {                                                                                              \
        SHARED ALIGNED(16) tile_memory memory;                                                     \
        tile_image(&p, &memory, columns, gradient);                                                \
    }

TILE_IMAGE(conv_tiles64, 1, 0)
TILE_IMAGE(conv_tiles128, 2, 0)
TILE_IMAGE(conv_tiles64_data, 1, 1)
TILE_IMAGE(conv_tiles128_data, 2, 1)

/* ---- Weights: channels of dy x (taps and channels of x), over pixels ---- */

/* Walks over every 16th pixel of a part of dy. */
typedef struct tile_walk {
    i64 n, left; /* pixels up to the end of the part, from this one on */
    i32 h, w;
} tile_walk;

DEVICE tile_walk tile_walk_from(const conv_weight_params *p, i64 pixel, i64 end)
{
    tile_walk walk;
    i64 rest = pixel / p->y_w;
    walk.n = rest / p->y_h;
    walk.h = (i32)(rest - walk.n * p->y_h);
    walk.w = (i32)(pixel - rest * p->y_w);
    walk.left = end - pixel;
    return walk;
}

DEVICE void tile_step_walk(const conv_weight_params *p, tile_walk *walk)
{
    walk->left -= TILE_DEPTH;
    walk->w += TILE_DEPTH;
    while (walk->w >= p->y_w) {
        walk->w -= p->y_w;
        if (++walk->h == p->y_h) {
            walk->h = 0;
            walk->n++;
        }
    }
}

DEVICE tile_quad tile_load_dy(const conv_weight_params *p, const tile_walk *walk, i64 channel,
                              int valid)
{
    if (walk->left <= 0 || !valid)
        return tile_zero();
    return *(const tile_quad *)((const T *)p->dy + walk->n * p->dy_strides[0] +
                                walk->h * p->dy_strides[2] + walk->w * p->dy_strides[3] + channel);
}

/* Four channels of x under a tap whose distance from the first is (h, w). */
DEVICE tile_quad tile_load_x(const conv_weight_params *p, const tile_walk *walk, i64 channel,
                             i32 tap_h, i32 tap_w, int valid)
{
    i32 h = walk->h * p->window.stride_h - p->window.pad_h + tap_h;
    i32 w = walk->w * p->window.stride_w - p->window.pad_w + tap_w;
    if (walk->left <= 0 || !valid || (u32)h >= (u32)p->x_h || (u32)w >= (u32)p->x_w)
        return tile_zero();
    return *(const tile_quad *)((const T *)p->x + walk->n * p->x_strides[0] +
                                h * p->x_strides[2] + w * p->x_strides[3] + channel);
}

DEVICE void tile_store_weight(const conv_weight_params *p, i32 part, i64 channel, i32 column,
                              i32 columns, const float *sums)
{
    if (p->n_parts > 1) {
        tile_four four;
        UNROLL for (int i = 0; i < 4; i++)
            four.e[i] = sums[i];
        *(tile_four *)&p->parts[part * p->weights + channel * columns + column] = four;
        return;
    }
    i32 at = column / p->in_channels, c = column - at * p->in_channels;
    i32 r = at / p->window.kernel_w, s = at - r * p->window.kernel_w;
    i64 offset = channel * p->weight_strides[0] + c * p->weight_strides[1] +
                 r * p->weight_strides[2] + s * p->weight_strides[3];
    UNROLL for (int i = 0; i < 4; i++)
        store((T *)p->dw, offset + i * p->weight_strides[1], sums[i]);
}

/* Blocks: columns fastest, then rows, groups, parts. Tiles of 128 columns. */
DEVICE void tile_weight(const conv_weight_params *p, tile_memory *memory, int rows)
{
    i32 t = (i32)threadIdx.x, high = rows * 64;
    i32 columns = p->in_channels * p->window.kernel_h * p->window.kernel_w;
    u32 column_tiles = (u32)(columns + TILE_MOST - 1) / TILE_MOST, block = blockIdx.x;
    u32 row_tiles = (u32)(p->out_channels + high - 1) / (u32)high;
    i32 column = (i32)(block % column_tiles) * TILE_MOST;
    block /= column_tiles;
    i32 row = (i32)(block % row_tiles) * high;
    block /= row_tiles;
    i32 group = (i32)(block % (u32)p->groups), part = (i32)(block / (u32)p->groups);
    i64 begin = part * p->part_pixels, end = begin + p->part_pixels;
    end = end < p->pixels ? end : p->pixels;
    i64 steps = (end - begin + TILE_DEPTH - 1) / TILE_DEPTH;

    /* Threads along the side first: 16 * rows of them for dy, 32 for x. */
    i32 dy_row = t % (16 * rows) * 4, dy_depth = t / (16 * rows), x_column = t % 32 * 4,
        x_depth = t / 32;
    i64 dy_channel = (i64)group * p->out_channels + row + dy_row;
    int dy_valid = row + dy_row < p->out_channels, x_valid = column + x_column < columns;
    i32 at = (column + x_column) / p->in_channels, c = (column + x_column) % p->in_channels;
    i32 tap_h = at / p->window.kernel_w * p->window.dilation,
        tap_w = at % p->window.kernel_w * p->window.dilation;
    i64 x_channel = (i64)group * p->in_channels + c;
    tile_walk dy_walks[2], x_walks[2];
    tile_quad dy_quads[2], x_quads[2];
    UNROLL for (int i = 0; i < rows; i++)
        dy_walks[i] = tile_walk_from(p, begin + dy_depth + i * (TILE_DEPTH / rows), end);
    UNROLL for (int i = 0; i < 2; i++)
        x_walks[i] = tile_walk_from(p, begin + x_depth + i * (TILE_DEPTH / 2), end);

    float sums[8][8] = {{0}};
    for (i64 step = -1; step < steps; step++) {
        i32 buffer = (i32)(step & 1), next = buffer ^ 1;
        int more = step + 1 < steps;
        if (more) {
            UNROLL for (int i = 0; i < rows; i++) {
                dy_quads[i] = tile_load_dy(p, &dy_walks[i], dy_channel, dy_valid);
                tile_step_walk(p, &dy_walks[i]);
            }
            UNROLL for (int i = 0; i < 2; i++) {
                x_quads[i] = tile_load_x(p, &x_walks[i], x_channel, tap_h, tap_w, x_valid);
                tile_step_walk(p, &x_walks[i]);
            }
        }
        if (step >= 0)
            tile_multiply(memory, buffer, rows, 2, sums);
        if (more) {
            UNROLL for (int i = 0; i < rows; i++)
                tile_put_wide(memory->a[next], dy_depth + i * (TILE_DEPTH / rows), dy_row,
                              &dy_quads[i]);
            UNROLL for (int i = 0; i < 2; i++)
                tile_put_wide(memory->b[next], x_depth + i * (TILE_DEPTH / 2), x_column,
                              &x_quads[i]);
        }
        __syncthreads();
    }
    UNROLL for (int i = 0; i < 4 * rows; i++) UNROLL for (int j = 0; j < 2; j++) {
        i32 k = row + i / 4 * 64 + tile_row() * 4 + i % 4,
            at_column = column + j * 64 + tile_column() * 4;
        if (k < p->out_channels && at_column < columns)
            tile_store_weight(p, part, (i64)group * p->out_channels + k, at_column, columns,
                              &sums[i][j * 4]);
    }
}

KERNEL_SYNC(conv_tiles64_weight, conv_weight_params)
{
    SHARED ALIGNED(16) tile_memory memory;
    tile_weight(&p, &memory, 1);
}

KERNEL_SYNC(conv_tiles128_weight, conv_weight_params)
{
    SHARED ALIGNED(16) tile_memory memory;
    tile_weight(&p, &memory, 2);
}
