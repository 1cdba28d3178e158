/*
 * Convolutions of any kind: matrix products whose operands are gathered from images, direct sums
 * for groups of few channels, and what goes with them (biases, ReLU, sums of parts).
 */
#include "conv.h"
#include "prelude.cuh"

typedef struct ALIGNED(16) conv_four {
    float e[4];
} conv_four;

/* ---- Places ---- */

/* Where a pixel of the result looks in the other image: its first tap, and the image's offset. */
typedef struct conv_place {
    i64 offset;
    i32 h, w;
} conv_place;

/* A tap: how far from the first one, and offsets of the channel and of the weight. */
typedef struct conv_tap {
    i64 channel, weight;
    i32 h, w;
} conv_tap;

DEVICE conv_tap conv_tap_of(const conv_window *window, i64 channel_stride,
                            const i64 *weight_strides, i32 channels, i32 index)
{
    conv_tap tap;
    i32 c = index % channels, at = index / channels;
    i32 r = at / window->kernel_w, s = at % window->kernel_w;
    tap.channel = c * channel_stride;
    tap.weight = c * weight_strides[1] + r * weight_strides[2] + s * weight_strides[3];
    tap.h = r * window->dilation;
    tap.w = s * window->dilation;
    return tap;
}

/* The row (or column) of `in` under a tap, or -1: its distance is along the window forwards; for
   gradients, a position of the result divides by the stride or meets no element. */
DEVICE i32 conv_side(i32 place, i32 tap, i32 extent, i32 stride, int gradient)
{
    i32 at = place + tap;
    if (gradient) {
        at = place - tap;
        if (stride != 1 && at >= 0) {
            i32 whole = at / stride;
            at = whole * stride == at ? whole : -1;
        }
    }
    return at < extent ? at : -1;
}

DEVICE float conv_gather(const T *in, const i64 *strides, const conv_place *place,
                         const conv_tap *tap, i32 extent_h, i32 extent_w,
                         const conv_window *window, int gradient)
{
    i32 h = conv_side(place->h, tap->h, extent_h, window->stride_h, gradient);
    i32 w = conv_side(place->w, tap->w, extent_w, window->stride_w, gradient);
    if (h < 0 || w < 0)
        return 0;
    return load(in, place->offset + tap->channel + h * strides[2] + w * strides[3]);
}

/* ---- Images: pixels x channels of the result, over channels and taps ---- */

typedef struct conv_image_tile {
    float a[CONV_DEPTH][CONV_ROWS + 4];
    float b[CONV_DEPTH][CONV_COLUMNS + 4];
    conv_place places[CONV_ROWS]; /* of a pixel that is none: extents of -1 are never inside */
    i64 out_offsets[CONV_ROWS];   /* -1: no pixel */
    conv_tap taps[2][CONV_DEPTH];
} conv_image_tile;

DEVICE conv_place conv_place_of(const conv_window *window, i32 h, i32 w, i64 offset, int gradient)
{
    conv_place place;
    place.offset = offset;
    place.h = gradient ? h + window->pad_h : h * window->stride_h - window->pad_h;
    place.w = gradient ? w + window->pad_w : w * window->stride_w - window->pad_w;
    return place;
}

DEVICE void conv_set_places(const conv_image_params *p, conv_image_tile *tile, i64 first,
                            i32 group, int gradient)
{
    i32 row = (i32)threadIdx.x;
    if (row >= CONV_ROWS)
        return;
    i64 pixel = first + row;
    if (pixel >= p->pixels) {
        tile->out_offsets[row] = -1;
        tile->places[row] = conv_place_of(&p->window, 0, 0, 0, gradient);
        return;
    }
    i32 w = (i32)(pixel % p->out_w);
    i64 rest = pixel / p->out_w;
    i32 h = (i32)(rest % p->out_h);
    i64 n = rest / p->out_h;
    tile->out_offsets[row] =
        n * p->out_strides[0] + h * p->out_strides[2] + w * p->out_strides[3];
    tile->places[row] =
        conv_place_of(&p->window, h, w,
                      n * p->in_strides[0] + (i64)group * p->in_channels * p->in_strides[1],
                      gradient);
}

DEVICE void conv_set_tap(const conv_image_params *p, conv_image_tile *tile, i32 step, i32 depth)
{
    i32 at = (i32)threadIdx.x, index = step * CONV_DEPTH + at;
    if (at >= CONV_DEPTH)
        return;
    tile->taps[step & 1][at] = conv_tap_of(&p->window, p->in_strides[1], p->weight_strides,
                                           p->in_channels, index < depth ? index : 0);
}

DEVICE void conv_load_image(const conv_image_params *p, conv_image_tile *tile, i32 step, i32 depth,
                            const T *weight, i32 column, int gradient)
{
    const conv_tap *taps = tile->taps[step & 1];
    i32 t = (i32)threadIdx.x, left = depth - step * CONV_DEPTH;
    UNROLL for (int i = 0; i < CONV_ROWS * CONV_DEPTH / CONV_THREADS; i++) {
        i32 at = t + i * CONV_THREADS;
        i32 k = p->in_by_channels ? at % CONV_DEPTH : at / CONV_ROWS;
        i32 row = p->in_by_channels ? at / CONV_DEPTH : at % CONV_ROWS;
        tile->a[k][row] = k < left ? conv_gather((const T *)p->in, p->in_strides,
                                                 &tile->places[row], &taps[k], p->in_h, p->in_w,
                                                 &p->window, gradient)
                                   : 0;
    }
    UNROLL for (int i = 0; i < CONV_COLUMNS * CONV_DEPTH / CONV_THREADS; i++) {
        i32 at = t + i * CONV_THREADS;
        i32 k = p->weight_by_out ? at / CONV_COLUMNS : at % CONV_DEPTH;
        i32 n = p->weight_by_out ? at % CONV_COLUMNS : at / CONV_DEPTH;
        tile->b[k][n] = k < left && column + n < p->out_channels
                            ? load(weight, (column + n) * p->weight_strides[0] + taps[k].weight)
                            : 0;
    }
}

DEVICE void conv_store_image(const conv_image_params *p, const conv_image_tile *tile, i32 row,
                             i32 group, i32 first, float *sums)
{
    i64 offset = tile->out_offsets[row];
    if (offset < 0)
        return;
    UNROLL for (int j = 0; j < 4; j++) {
        i64 channel = (i64)group * p->out_channels + first + j;
        float sum = sums[j];
        if (first + j >= p->out_channels)
            continue;
        if (p->bias)
            sum += load((const T *)p->bias, channel);
        if (p->relu && sum < 0)
            sum = 0;
        store((T *)p->out, offset + channel * p->out_strides[1], sum);
    }
}

/* Blocks: channels within a group fastest, then groups, then pixels. */
DEVICE void conv_image_gemm(const conv_image_params *p, conv_image_tile *tile, int gradient)
{
    i32 column_tiles = (p->out_channels + CONV_COLUMNS - 1) / CONV_COLUMNS;
    i32 columns = column_tiles * p->groups, within = (i32)(blockIdx.x % (u32)columns);
    i32 group = within / column_tiles, column = within % column_tiles * CONV_COLUMNS;
    i64 first = (i64)(blockIdx.x / (u32)columns) * CONV_ROWS;
    i32 depth = p->in_channels * p->window.kernel_h * p->window.kernel_w;
    i32 steps = (depth + CONV_DEPTH - 1) / CONV_DEPTH;
    const T *weight = (const T *)p->weight + group * p->group_stride;
    i32 n = (i32)threadIdx.x % 16 * 4, m = (i32)threadIdx.x / 16 * 8;
    float sums[8][4] = {{0}};
    conv_set_places(p, tile, first, group, gradient);
    conv_set_tap(p, tile, 0, depth);
    __syncthreads();
    for (i32 step = 0; step < steps; step++) {
        conv_load_image(p, tile, step, depth, weight, column, gradient);
        conv_set_tap(p, tile, step + 1, depth);
        __syncthreads();
        UNROLL for (int k = 0; k < CONV_DEPTH; k++) {
            conv_four a0 = *(const conv_four *)&tile->a[k][m];
            conv_four a1 = *(const conv_four *)&tile->a[k][m + 4];
            conv_four b = *(const conv_four *)&tile->b[k][n];
            UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) {
                sums[i][j] += a0.e[i] * b.e[j];
                sums[i + 4][j] += a1.e[i] * b.e[j];
            }
        }
        __syncthreads();
    }
    UNROLL for (int i = 0; i < 8; i++)
        conv_store_image(p, tile, m + i, group, column + n, sums[i]);
}

KERNEL_SYNC(conv_gemm, conv_image_params)
{
    SHARED ALIGNED(16) conv_image_tile tile;
    conv_image_gemm(&p, &tile, 0);
}

KERNEL_SYNC(conv_gemm_data, conv_image_params)
{
    SHARED ALIGNED(16) conv_image_tile tile;
    conv_image_gemm(&p, &tile, 1);
}

/* ---- Images, one thread per element: groups of few channels ---- */

DEVICE float conv_element(const conv_image_params *p, const conv_place *place, i32 group,
                          i32 channel, int gradient)
{
    const conv_window *window = &p->window;
    const T *in = (const T *)p->in;
    const T *weight =
        (const T *)p->weight + group * p->group_stride + channel * p->weight_strides[0];
    float sum = 0;
    for (i32 r = 0; r < window->kernel_h; r++) {
        i32 h = conv_side(place->h, r * window->dilation, p->in_h, window->stride_h, gradient);
        if (h < 0)
            continue;
        for (i32 s = 0; s < window->kernel_w; s++) {
            i32 w = conv_side(place->w, s * window->dilation, p->in_w, window->stride_w, gradient);
            if (w < 0)
                continue;
            const T *x = in + place->offset + h * p->in_strides[2] + w * p->in_strides[3];
            const T *y = weight + r * p->weight_strides[2] + s * p->weight_strides[3];
            for (i32 c = 0; c < p->in_channels; c++)
                sum += load(x, c * p->in_strides[1]) * load(y, c * p->weight_strides[1]);
        }
    }
    return sum;
}

/* Elements in the order of memory: channels or columns fastest. */
DEVICE void conv_image_direct(const conv_image_params *p, int gradient)
{
    i32 channels = p->groups * p->out_channels;
    i64 plane = (i64)p->out_h * p->out_w, total = p->pixels * channels;
    for (i64 i = global_thread(); i < total; i += global_threads()) {
        i64 n;
        i32 k, h, w;
        if (p->in_by_channels) {
            i64 pixel = i / channels;
            k = (i32)(i - pixel * channels);
            n = pixel / plane;
            i64 at = pixel - n * plane;
            h = (i32)(at / p->out_w);
            w = (i32)(at - (i64)h * p->out_w);
        } else {
            i64 image = i / plane, at = i - image * plane;
            h = (i32)(at / p->out_w);
            w = (i32)(at - (i64)h * p->out_w);
            n = image / channels;
            k = (i32)(image - n * channels);
        }
        i32 group = k / p->out_channels;
        conv_place place =
            conv_place_of(&p->window, h, w,
                          n * p->in_strides[0] + (i64)group * p->in_channels * p->in_strides[1],
                          gradient);
        float sum = conv_element(p, &place, group, k - group * p->out_channels, gradient);
        if (p->bias)
            sum += load((const T *)p->bias, k);
        if (p->relu && sum < 0)
            sum = 0;
        store((T *)p->out,
              n * p->out_strides[0] + k * p->out_strides[1] + h * p->out_strides[2] +
                  w * p->out_strides[3],
              sum);
    }
}

KERNEL(conv_direct, conv_image_params)
{
    conv_image_direct(&p, 0);
}

KERNEL(conv_direct_data, conv_image_params)
{
    conv_image_direct(&p, 1);
}

/* ---- Weights: channels of dy x (taps and channels of x), over pixels ---- */

typedef struct conv_weight_tile {
    float a[CONV_DEPTH][CONV_TILE + 4];
    float b[CONV_DEPTH][CONV_TILE + 4];
    conv_tap taps[CONV_TILE];
    conv_place places[2][CONV_DEPTH]; /* of pixels in x */
    i64 dy_offsets[2][CONV_DEPTH];    /* -1: no pixel */
} conv_weight_tile;

/* Thread i < CONV_DEPTH walks pixels i, i + CONV_DEPTH, ... of a part. */
typedef struct conv_walk {
    i64 n, left; /* pixels up to the end of the part, from this on */
    i32 h, w;
} conv_walk;

DEVICE void conv_set_pixel(const conv_weight_params *p, conv_weight_tile *tile, conv_walk *walk,
                           i32 step, i32 group)
{
    i32 at = (i32)threadIdx.x, buffer = step & 1;
    if (at >= CONV_DEPTH)
        return;
    tile->dy_offsets[buffer][at] =
        walk->left <= 0 ? -1
                        : walk->n * p->dy_strides[0] + walk->h * p->dy_strides[2] +
                              walk->w * p->dy_strides[3] +
                              (i64)group * p->out_channels * p->dy_strides[1];
    tile->places[buffer][at] = conv_place_of(
        &p->window, walk->h, walk->w,
        walk->n * p->x_strides[0] + (i64)group * p->in_channels * p->x_strides[1], 0);
    walk->left -= CONV_DEPTH;
    walk->w += CONV_DEPTH;
    while (walk->w >= p->y_w) {
        walk->w -= p->y_w;
        if (++walk->h == p->y_h) {
            walk->h = 0;
            walk->n++;
        }
    }
}

DEVICE conv_walk conv_walk_from(const conv_weight_params *p, i32 part)
{
    conv_walk walk;
    i64 first = part * p->part_pixels + threadIdx.x;
    i64 end = (part + 1) * p->part_pixels;
    i64 rest = first / p->y_w;
    walk.w = (i32)(first % p->y_w);
    walk.h = (i32)(rest % p->y_h);
    walk.n = rest / p->y_h;
    walk.left = (end < p->pixels ? end : p->pixels) - first;
    return walk;
}

DEVICE void conv_load_weight(const conv_weight_params *p, conv_weight_tile *tile, i32 step,
                             i32 row, i32 column, i32 columns)
{
    i32 t = (i32)threadIdx.x, buffer = step & 1;
    UNROLL for (int i = 0; i < CONV_TILE * CONV_DEPTH / CONV_THREADS; i++) {
        i32 at = t + i * CONV_THREADS;
        i32 k = p->dy_by_channels ? at / CONV_TILE : at % CONV_DEPTH;
        i32 m = p->dy_by_channels ? at % CONV_TILE : at / CONV_DEPTH;
        i64 offset = tile->dy_offsets[buffer][k];
        tile->a[k][m] = offset >= 0 && row + m < p->out_channels
                            ? load((const T *)p->dy, offset + (row + m) * p->dy_strides[1])
                            : 0;
    }
    UNROLL for (int i = 0; i < CONV_TILE * CONV_DEPTH / CONV_THREADS; i++) {
        i32 at = t + i * CONV_THREADS;
        i32 k = p->x_by_channels ? at / CONV_TILE : at % CONV_DEPTH;
        i32 n = p->x_by_channels ? at % CONV_TILE : at / CONV_DEPTH;
        tile->b[k][n] = tile->dy_offsets[buffer][k] >= 0 && column + n < columns
                            ? conv_gather((const T *)p->x, p->x_strides, &tile->places[buffer][k],
                                          &tile->taps[n], p->x_h, p->x_w, &p->window, 0)
                            : 0;
    }
}

DEVICE void conv_store_weight(const conv_weight_params *p, const conv_weight_tile *tile, i32 part,
                              i64 channel, i32 column, i32 at, i32 columns, float sum)
{
    if (p->n_parts == 1)
        store((T *)p->dw, channel * p->weight_strides[0] + tile->taps[at].weight, sum);
    else
        p->parts[part * p->weights + channel * columns + column + at] = sum;
}

/* Blocks: columns fastest, then rows, groups, parts. */
KERNEL_SYNC(conv_gemm_weight, conv_weight_params)
{
    SHARED ALIGNED(16) conv_weight_tile tile;
    i32 columns = p.in_channels * p.window.kernel_h * p.window.kernel_w;
    u32 column_tiles = (u32)(columns + CONV_TILE - 1) / CONV_TILE;
    u32 row_tiles = (u32)(p.out_channels + CONV_TILE - 1) / CONV_TILE;
    u32 rest = blockIdx.x / column_tiles;
    i32 column = (i32)(blockIdx.x % column_tiles) * CONV_TILE;
    i32 row = (i32)(rest % row_tiles) * CONV_TILE;
    rest /= row_tiles;
    i32 group = (i32)(rest % (u32)p.groups), part = (i32)(rest / (u32)p.groups);
    conv_walk walk = conv_walk_from(&p, part);
    i64 end = (part + 1) * p.part_pixels;
    i64 steps = ((end < p.pixels ? end : p.pixels) - part * p.part_pixels + CONV_DEPTH - 1) /
                CONV_DEPTH;
    i32 n = (i32)threadIdx.x % 16 * 4, m = (i32)threadIdx.x / 16 * 4;
    float sums[4][4] = {{0}};
    if (threadIdx.x < CONV_TILE)
        tile.taps[threadIdx.x] =
            conv_tap_of(&p.window, p.x_strides[1], p.weight_strides, p.in_channels,
                        column + (i32)threadIdx.x < columns ? column + (i32)threadIdx.x : 0);
    conv_set_pixel(&p, &tile, &walk, 0, group);
    __syncthreads();
    for (i64 step = 0; step < steps; step++) {
        conv_load_weight(&p, &tile, (i32)(step & 1), row, column, columns);
        conv_set_pixel(&p, &tile, &walk, (i32)(step & 1) + 1, group);
        __syncthreads();
        UNROLL for (int k = 0; k < CONV_DEPTH; k++) {
            conv_four a = *(const conv_four *)&tile.a[k][m];
            conv_four b = *(const conv_four *)&tile.b[k][n];
            UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++)
                sums[i][j] += a.e[i] * b.e[j];
        }
        __syncthreads();
    }
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++)
        if (row + m + i < p.out_channels && column + n + j < columns)
            conv_store_weight(&p, &tile, part, (i64)group * p.out_channels + row + m + i, column,
                              n + j, columns, sums[i][j]);
}

/* The sum of all threads, for thread 0. `scratch` has room for all of them. */
DEVICE float conv_block_sum(float x, float *scratch)
{
    i32 t = (i32)threadIdx.x;
    scratch[t] = x;
    __syncthreads();
    if (t < WARP) {
        for (i32 i = t + WARP; i < CONV_THREADS; i += WARP)
            x += scratch[i];
        scratch[t] = x;
    }
    __syncthreads();
    if (t == 0)
        for (i32 i = 1; i < WARP; i++)
            x += scratch[i];
    return x;
}

/* One block per weight and part, for groups of few channels. */
KERNEL_SYNC(conv_direct_weight, conv_weight_params)
{
    SHARED float scratch[CONV_THREADS];
    i32 columns = p.in_channels * p.window.kernel_h * p.window.kernel_w;
    i64 index = blockIdx.x % (u64)p.weights, channel = index / columns;
    i32 part = (i32)(blockIdx.x / (u64)p.weights), group = (i32)(channel / p.out_channels);
    conv_tap tap = conv_tap_of(&p.window, p.x_strides[1], p.weight_strides, p.in_channels,
                               (i32)(index % columns));
    i64 end = (part + 1) * p.part_pixels;
    float sum = 0;
    end = end < p.pixels ? end : p.pixels;
    for (i64 i = part * p.part_pixels + threadIdx.x; i < end; i += blockDim.x) {
        i64 rest = i / p.y_w, n = rest / p.y_h;
        i32 w = (i32)(i - rest * p.y_w), h = (i32)(rest - n * p.y_h);
        conv_place place = conv_place_of(
            &p.window, h, w, n * p.x_strides[0] + (i64)group * p.in_channels * p.x_strides[1], 0);
        sum += load((const T *)p.dy, n * p.dy_strides[0] + channel * p.dy_strides[1] +
                                         h * p.dy_strides[2] + w * p.dy_strides[3]) *
               conv_gather((const T *)p.x, p.x_strides, &place, &tap, p.x_h, p.x_w, &p.window, 0);
    }
    sum = conv_block_sum(sum, scratch);
    if (threadIdx.x > 0)
        return;
    if (p.n_parts == 1)
        store((T *)p.dw, channel * p.weight_strides[0] + tap.weight, sum);
    else
        p.parts[part * p.weights + index] = sum;
}

/* ---- Sums of parts ---- */

KERNEL_SYNC(conv_sum_parts, conv_sum_params)
{
    SHARED float sums[CONV_SUM_LANES][CONV_SUM_ELEMENTS];
    i32 at = (i32)threadIdx.x % CONV_SUM_ELEMENTS, lane = (i32)threadIdx.x / CONV_SUM_ELEMENTS;
    i64 i = (i64)blockIdx.x * CONV_SUM_ELEMENTS + at;
    float sum = 0;
    if (i < p.count)
        for (i32 part = lane; part < p.n_parts; part += CONV_SUM_LANES)
            sum += p.parts[part * p.count + i];
    sums[lane][at] = sum;
    __syncthreads();
    if (lane > 0 || i >= p.count)
        return;
    for (int j = 1; j < CONV_SUM_LANES; j++)
        sum += sums[j][at];
    i64 rest = i / p.channels, row = rest / p.kernel_w, k = row / p.kernel_h;
    i64 c = i - rest * p.channels, s = rest - row * p.kernel_w, r = row - k * p.kernel_h;
    store((T *)p.out,
          k * p.strides[0] + c * p.strides[1] + r * p.strides[2] + s * p.strides[3], sum);
}

/* ---- Biases ---- */

/* Channels side by side and pixels without gaps: lanes of vectors x pixels. */
KERNEL_SYNC(conv_bias_vectors, conv_bias_params)
{
    SHARED float sums[CONV_THREADS][VECTOR + 1];
    i32 lane = (i32)threadIdx.x % p.lanes, row = (i32)threadIdx.x / p.lanes,
        rows = CONV_THREADS / p.lanes;
    i32 channel = ((i32)blockIdx.x * p.lanes + lane) * VECTOR;
    i64 end = (blockIdx.y + 1) * p.part_pixels;
    float sum[VECTOR] = {0};
    end = end < p.pixels ? end : p.pixels;
    if (channel < p.channels)
        for (i64 i = blockIdx.y * p.part_pixels + row; i < end; i += rows) {
            vector v = *(const vector *)((const T *)p.dy + i * p.strides[3] + channel);
            UNROLL for (int j = 0; j < VECTOR; j++)
                sum[j] += from_t(v.e[j]);
        }
    UNROLL for (int j = 0; j < VECTOR; j++)
        sums[threadIdx.x][j] = sum[j];
    __syncthreads();
    if (row > 0 || channel >= p.channels)
        return;
    for (i32 i = 1; i < rows; i++)
        UNROLL for (int j = 0; j < VECTOR; j++)
            sum[j] += sums[i * p.lanes + lane][j];
    UNROLL for (int j = 0; j < VECTOR; j++)
        p.parts[(i64)blockIdx.y * p.channels + channel + j] = sum[j];
}

/* One block per channel and part. */
KERNEL_SYNC(conv_bias_any, conv_bias_params)
{
    SHARED float scratch[CONV_THREADS];
    i64 end = (blockIdx.y + 1) * p.part_pixels;
    float sum = 0;
    end = end < p.pixels ? end : p.pixels;
    for (i64 i = blockIdx.y * p.part_pixels + threadIdx.x; i < end; i += blockDim.x) {
        i64 rest = i / p.w, n = rest / p.h;
        sum += load((const T *)p.dy, n * p.strides[0] + blockIdx.x * p.strides[1] +
                                         (rest - n * p.h) * p.strides[2] +
                                         (i - rest * p.w) * p.strides[3]);
    }
    sum = conv_block_sum(sum, scratch);
    if (threadIdx.x == 0)
        p.parts[(i64)blockIdx.y * p.channels + blockIdx.x] = sum;
}

DEVICE float conv_finished(float x, float bias, i32 relu)
{
    x += bias;
    return relu && x < 0 ? 0 : x;
}

/* Channels side by side, without gaps. */
KERNEL(conv_finish_vectors, conv_finish_params)
{
    i64 count = p.elements / VECTOR;
    u32 vectors = (u32)p.channels / VECTOR;
    for (i64 i = global_thread(); i < count; i += global_threads()) {
        u32 channel = (i >> 32 ? (u32)(i % vectors) : (u32)i % vectors) * VECTOR;
        vector *at = (vector *)p.out + i, v = *at, b;
        UNROLL for (int j = 0; j < VECTOR; j++)
            b.e[j] = to_t(0);
        if (p.bias)
            b = *(const vector *)((const T *)p.bias + channel);
        UNROLL for (int j = 0; j < VECTOR; j++)
            v.e[j] = to_t(conv_finished(from_t(v.e[j]), from_t(b.e[j]), p.relu));
        *at = v;
    }
}

KERNEL(conv_finish_any, conv_finish_params)
{
    for (i64 i = global_thread(); i < p.elements; i += global_threads()) {
        i64 row = i / p.w, image = row / p.h, n = image / p.channels, k = image - n * p.channels;
        i64 at = n * p.strides[0] + k * p.strides[1] + (row - image * p.h) * p.strides[2] +
                 (i - row * p.w) * p.strides[3];
        float bias = p.bias ? load((const T *)p.bias, k) : 0;
        store((T *)p.out, at, conv_finished(load((const T *)p.out, at), bias, p.relu));
    }
}
