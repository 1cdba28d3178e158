/*
 * Convolutions whose groups have one channel, on images whose channels lie side by side: windows
 * of 3 x 3, 5 x 5 and 7 x 7 with stride 1 or 2 and padding of half a window, without dilation.
 *
 * Each thread has a vector of channels. Images are read through the first-level cache, which the
 * threads of a block share: they are neighbours. Weights are a window per channel in memory; a
 * block copies those of its channels to shared memory, tap by tap.
 */
#include "conv.h"
#include "prelude.cuh"

/* Weights of a block's channels, tap by tap; fours of all vectors lie side by side, so that threads
   read from different banks. */
#define DEPTHWISE_FOURS (DEPTHWISE_MOST_LANES * 4 + 4)
typedef struct depthwise_weights {
    float e[DEPTHWISE_MOST * DEPTHWISE_MOST][VECTOR / 4][DEPTHWISE_FOURS];
} depthwise_weights;

typedef struct ALIGNED(16) depthwise_four {
    float e[4];
} depthwise_four;

typedef struct depthwise_floats {
    depthwise_four fours[4 / sizeof(T)];
} depthwise_floats;

/* Where a thread works. */
typedef struct depthwise_spot {
    i32 channel, lane;
    i32 row, column;
    i64 image;
} depthwise_spot;

DEVICE depthwise_spot depthwise_find(const depthwise_params *p)
{
    depthwise_spot spot;
    u32 t = threadIdx.x, block = blockIdx.x;
    u32 lane = t % (u32)p->lanes, tile = t / (u32)p->lanes % (u32)p->tiles,
        row = t / (u32)(p->lanes * p->tiles);
    u32 channels = block % (u32)p->channel_blocks;
    block /= (u32)p->channel_blocks;
    u32 columns = block % (u32)p->column_blocks;
    block /= (u32)p->column_blocks;
    u32 rows = block % (u32)p->row_blocks;
    spot.image = block / (u32)p->row_blocks;
    spot.lane = (i32)lane;
    spot.channel = (i32)(channels * (u32)p->lanes + lane) * VECTOR;
    spot.column = (i32)((columns * (u32)p->tiles + tile) * DEPTHWISE_COLUMNS);
    spot.row = (i32)(rows * (u32)p->rows + row);
    return spot;
}

DEVICE void depthwise_copy_weights(const depthwise_params *p, depthwise_weights *weights, int side)
{
    i32 channels = p->lanes * VECTOR, taps = side * side;
    i32 first = (i32)(blockIdx.x % (u32)p->channel_blocks) * channels;
    for (i32 i = (i32)threadIdx.x; i < channels * taps; i += DEPTHWISE_THREADS) {
        i32 channel = i / taps, tap = i - channel * taps, r = tap / side, s = tap - r * side;
        float weight = 0;
        if (first + channel < p->channels)
            weight = load((const T *)p->weight, (first + channel) * p->weight_strides[0] +
                                                    r * p->weight_strides[1] +
                                                    s * p->weight_strides[2]);
        weights->e[p->flip ? taps - 1 - tap : tap][channel % VECTOR / 4]
                  [channel / VECTOR * 4 + channel % 4] = weight;
    }
}

DEVICE depthwise_floats depthwise_weight_at(const depthwise_weights *weights, int tap, i32 lane)
{
    depthwise_floats floats;
    UNROLL for (int i = 0; i < VECTOR / 4; i++)
        floats.fours[i] = *(const depthwise_four *)&weights->e[tap][i][lane * 4];
    return floats;
}

DEVICE void depthwise_add(float *sums, const vector *x, const depthwise_floats *weight)
{
    UNROLL for (int i = 0; i < VECTOR; i++)
        sums[i] += from_t(x->e[i]) * weight->fours[i / 4].e[i % 4];
}

DEVICE void depthwise_store(const depthwise_params *p, const depthwise_spot *spot,
                            float (*sums)[16 / sizeof(T)])
{
    T *out = (T *)p->out + spot->image * p->out_strides[0] + spot->row * p->out_strides[2] +
             spot->channel;
    vector bias;
    UNROLL for (int i = 0; i < VECTOR; i++)
        bias.e[i] = to_t(0);
    if (p->bias)
        bias = *(const vector *)((const T *)p->bias + spot->channel);
    UNROLL for (int j = 0; j < DEPTHWISE_COLUMNS; j++) {
        vector v;
        if (spot->column + j >= p->out_w)
            continue;
        UNROLL for (int i = 0; i < VECTOR; i++) {
            float y = sums[j][i] + from_t(bias.e[i]);
            v.e[i] = to_t(p->relu && y < 0 ? 0 : y);
        }
        *(vector *)(out + (spot->column + j) * p->out_strides[3]) = v;
    }
}

/* ---- Images ---- */

/* The convolution, or its gradient if the stride is 1. */
DEVICE void depthwise_image(const depthwise_params *p, depthwise_weights *weights, int side,
                            int stride)
{
    depthwise_spot spot = depthwise_find(p);
    int wide = (DEPTHWISE_COLUMNS - 1) * stride + side;
    float sums[DEPTHWISE_COLUMNS][16 / sizeof(T)] = {{0}};
    depthwise_copy_weights(p, weights, side);
    __syncthreads();
    if (spot.channel >= p->channels || spot.row >= p->out_h || spot.column >= p->out_w)
        return;
    i32 left = spot.column * stride - side / 2;
    const T *image = (const T *)p->in + spot.image * p->in_strides[0] + spot.channel;
    UNROLL for (int r = 0; r < side; r++) {
        i32 h = spot.row * stride - side / 2 + r;
        if (h < 0 || h >= p->in_h)
            continue;
        const T *row = image + h * p->in_strides[2];
        depthwise_floats taps[DEPTHWISE_MOST];
        UNROLL for (int s = 0; s < side; s++)
            taps[s] = depthwise_weight_at(weights, r * side + s, spot.lane);
        UNROLL for (int i = 0; i < wide; i++) {
            i32 w = left + i;
            if (w < 0 || w >= p->in_w)
                continue;
            vector x = *(const vector *)(row + w * p->in_strides[3]);
            UNROLL for (int j = 0; j < DEPTHWISE_COLUMNS; j++)
                if (i - j * stride >= 0 && i - j * stride < side)
                    depthwise_add(sums[j], &x, &taps[i - j * stride]);
        }
    }
    depthwise_store(p, &spot, sums);
}

/* The gradient of a window of stride 2: in is dy, out is dx. Element (h, w) of dx meets tap (r, s)
   where h + side / 2 - r and w + side / 2 - s are even. */
DEVICE void depthwise_data2(const depthwise_params *p, depthwise_weights *weights, int side)
{
    depthwise_spot spot = depthwise_find(p);
    int pad = side / 2, least = -((side - pad - 1) / 2), most = (DEPTHWISE_COLUMNS - 1 + pad) / 2;
    float sums[DEPTHWISE_COLUMNS][16 / sizeof(T)] = {{0}};
    depthwise_copy_weights(p, weights, side);
    __syncthreads();
    if (spot.channel >= p->channels || spot.row >= p->out_h || spot.column >= p->out_w)
        return;
    const T *image = (const T *)p->in + spot.image * p->in_strides[0] + spot.channel;
    UNROLL for (int r = 0; r < side; r++) {
        i32 h = spot.row + pad - r;
        if (h < 0 || h % 2 != 0 || h / 2 >= p->in_h)
            continue;
        const T *row = image + h / 2 * p->in_strides[2];
        depthwise_floats taps[DEPTHWISE_MOST];
        UNROLL for (int s = 0; s < side; s++)
            taps[s] = depthwise_weight_at(weights, r * side + s, spot.lane);
        UNROLL for (int i = least; i <= most; i++) {
            i32 w = spot.column / 2 + i;
            if (w < 0 || w >= p->in_w)
                continue;
            vector dy = *(const vector *)(row + w * p->in_strides[3]);
            UNROLL for (int j = 0; j < DEPTHWISE_COLUMNS; j++) {
                int s = j + pad - 2 * i;
                if (s >= 0 && s < side)
                    depthwise_add(sums[j], &dy, &taps[s]);
            }
        }
    }
    depthwise_store(p, &spot, sums);
}

#define DEPTHWISE_IMAGE(name, call)                                                                \
    KERNEL_SYNC(name, depthwise_params)                                                            \
    {                                                                                              \
        SHARED ALIGNED(16) depthwise_weights weights;                                              \
        call;                                                                                      \
    }

DEPTHWISE_IMAGE(depthwise3, depthwise_image(&p, &weights, 3, 1))
DEPTHWISE_IMAGE(depthwise5, depthwise_image(&p, &weights, 5, 1))
DEPTHWISE_IMAGE(depthwise7, depthwise_image(&p, &weights, 7, 1))
DEPTHWISE_IMAGE(depthwise3_stride2, depthwise_image(&p, &weights, 3, 2))
DEPTHWISE_IMAGE(depthwise5_stride2, depthwise_image(&p, &weights, 5, 2))
DEPTHWISE_IMAGE(depthwise7_stride2, depthwise_image(&p, &weights, 7, 2))
DEPTHWISE_IMAGE(depthwise3_data2, depthwise_data2(&p, &weights, 3))
DEPTHWISE_IMAGE(depthwise5_data2, depthwise_data2(&p, &weights, 5))
DEPTHWISE_IMAGE(depthwise7_data2, depthwise_data2(&p, &weights, 7))

/* ---- Weights ---- */

/* Four channels: a thread has sums of a row of the window for each. */
typedef struct ALIGNED(4 * sizeof(T)) depthwise_quad {
    T e[4];
} depthwise_quad;

/* Adds the products of a row of dy and the row of x that tap row r of the window meets. */
DEVICE void depthwise_add_row(const depthwise_weight_params *p, const T *dy, const T *x,
                              int side, int stride, float (*sums)[4])
{
    int wide = (DEPTHWISE_COLUMNS - 1) * stride + side;
    for (i32 column = 0; column < p->y_w; column += DEPTHWISE_COLUMNS) {
        depthwise_quad d[DEPTHWISE_COLUMNS];
        i32 left = column * stride - side / 2;
        UNROLL for (int j = 0; j < DEPTHWISE_COLUMNS; j++) {
            if (column + j < p->y_w)
                d[j] = *(const depthwise_quad *)(dy + (column + j) * p->dy_strides[3]);
            else
                UNROLL for (int c = 0; c < 4; c++)
                    d[j].e[c] = to_t(0);
        }
        UNROLL for (int i = 0; i < wide; i++) {
            if (left + i < 0 || left + i >= p->x_w)
                continue;
            depthwise_quad v = *(const depthwise_quad *)(x + (left + i) * p->x_strides[3]);
            UNROLL for (int j = 0; j < DEPTHWISE_COLUMNS; j++)
                if (i - j * stride >= 0 && i - j * stride < side)
                    UNROLL for (int c = 0; c < 4; c++)
                        sums[i - j * stride][c] += from_t(d[j].e[c]) * from_t(v.e[c]);
        }
    }
}

/* Blocks: channels fastest, then parts. */
DEVICE void depthwise_weight(const depthwise_weight_params *p, float *shared, int side, int stride)
{
    i32 t = (i32)threadIdx.x, lane = t % p->lanes, r = t / p->lanes % side,
        row_lane = t / p->lanes / side;
    i32 block = (i32)(blockIdx.x % (u32)p->channel_blocks),
        part = (i32)(blockIdx.x / (u32)p->channel_blocks);
    i32 channel = (block * p->lanes + lane) * 4;
    i64 end = (part + 1) * p->part_rows;
    float sums[DEPTHWISE_MOST][4] = {{0}};
    end = end < p->rows ? end : p->rows;
    if (row_lane < p->row_lanes && channel < p->channels)
        for (i64 i = part * p->part_rows + row_lane; i < end; i += p->row_lanes) {
            i64 n = i / p->y_h;
            i32 row = (i32)(i - n * p->y_h), h = row * stride - side / 2 + r;
            if (h >= 0 && h < p->x_h)
                depthwise_add_row(
                    p, (const T *)p->dy + n * p->dy_strides[0] + row * p->dy_strides[2] + channel,
                    (const T *)p->x + n * p->x_strides[0] + h * p->x_strides[2] + channel, side,
                    stride, sums);
        }
    /* shared: row lane, then channel, then tap */
    i32 channels = p->lanes * 4, taps = side * side;
    if (row_lane < p->row_lanes)
        UNROLL for (int s = 0; s < side; s++) UNROLL for (int c = 0; c < 4; c++)
            shared[(row_lane * channels + lane * 4 + c) * taps + r * side + s] = sums[s][c];
    __syncthreads();
    i32 first = block * channels, count = p->channels - first;
    count = (count < channels ? count : channels) * taps;
    for (i32 i = t; i < count; i += (i32)blockDim.x) {
        float sum = 0;
        for (i32 j = 0; j < p->row_lanes; j++)
            sum += shared[j * channels * taps + i];
        p->parts[((i64)part * p->channels + first) * taps + i] = sum;
    }
}

#define DEPTHWISE_WEIGHT(name, side, stride)                                                       \
    KERNEL_SYNC(name, depthwise_weight_params)                                                     \
    {                                                                                              \
        DYNAMIC_SHARED(float, shared);                                                             \
        depthwise_weight(&p, shared, side, stride);                                                \
    }

DEPTHWISE_WEIGHT(depthwise3_weight, 3, 1)
DEPTHWISE_WEIGHT(depthwise5_weight, 5, 1)
DEPTHWISE_WEIGHT(depthwise7_weight, 7, 1)
DEPTHWISE_WEIGHT(depthwise3_weight2, 3, 2)
DEPTHWISE_WEIGHT(depthwise5_weight2, 5, 2)
DEPTHWISE_WEIGHT(depthwise7_weight2, 7, 2)
