/* Layer normalisation: layer_norm.h. */
#include "layer_norm.h"
#include "row_walk.cuh"

#define LAYER_PIECES (LAYER_ELEMENTS / VECTOR)

/* ---- Teams ---- */

/* Which of a block's teams a thread is in, how many there are, and its number in the team. */
typedef struct layer_place {
    int team, teams, at;
} layer_place;

DEVICE layer_place layer_here(const layer_norm_params *p)
{
    layer_place place;
    place.team = (int)threadIdx.x / p->team;
    place.teams = (int)blockDim.x / p->team;
    place.at = (int)threadIdx.x - place.team * p->team;
    return place;
}

#define LAYER_SCRATCH (2 * LAYER_THREADS / WARP) /* floats of shared memory for one sum */

/* The sums of a and, unless it is 0, b over the threads of a team, for each of them. The next
   call must have another `scratch`, the one after that may have this one: one barrier does. */
DEVICE void layer_team_sums(int team, float *scratch, float *a, float *b)
{
    int warp = (int)threadIdx.x / WARP, warps = team / WARP, first = warp / warps * warps;
    *a = warp_sum(*a);
    if (b)
        *b = warp_sum(*b);
    if (warps == 1)
        return;
    if (threadIdx.x % WARP == 0) {
        scratch[2 * warp] = *a;
        scratch[2 * warp + 1] = b ? *b : 0.0f;
    }
    __syncthreads();
    float sum_a = 0, sum_b = 0;
    for (int i = first; i < first + warps; i++) {
        sum_a += scratch[2 * i];
        sum_b += scratch[2 * i + 1];
    }
    *a = sum_a;
    if (b)
        *b = sum_b;
}

/* In kernels with `whole`, rows are evenly spaced and consist of whole vectors. */
DEVICE i64 layer_at(const row_walk *rows, i64 row, int whole)
{
    return whole ? row * rows->stride[0] : row_at(rows, row);
}

DEVICE void layer_get(const T *row, int c, int channels, i64 step, int whole, float *e)
{
    if (whole && c < channels)
        row_get_whole(row + c, e);
    else
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            e[i] = !whole && c + i < channels ? load(row, (c + i) * step) : 0.0f;
}

DEVICE void layer_put(T *row, int c, int channels, i64 step, int whole, const float *e)
{
    if (!whole)
        row_put(row, c, channels, step, e);
    else if (c < channels)
        row_put_whole(row + c, e);
}

/* ---- Forward ---- */

/* y may be x. */
DEVICE void layer_forward(const layer_norm_params *p, float *scratch, int whole)
{
    layer_place place = layer_here(p);
    int team = p->team, at = place.at;
    i64 row = (i64)blockIdx.x * place.teams + place.team;
    int channels = row < p->rows ? (int)p->channels : 0;
    const T *x = (const T *)p->x + (channels ? layer_at(&p->x_rows, row, whole) : 0);
    float e[LAYER_PIECES][VECTOR], sum = 0, square = 0, share = 1.0f / (float)p->channels;
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++)
        layer_get(x, (k * team + at) * VECTOR, channels, p->x_step, whole, e[k]);
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++)
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            sum += e[k][i];
    layer_team_sums(team, scratch, &sum, 0);
    float mean = p->mean ? sum * share : 0.0f;
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++)
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            float d = e[k][i] - mean;
            square += (k * team + at) * VECTOR + i < channels ? d * d : 0.0f;
        }
    layer_team_sums(team, scratch + LAYER_SCRATCH, &square, 0);
    float invstd = 1.0f / sqrtf(square * share + p->epsilon);
    if (!channels)
        return;
    if (at == 0) {
        if (p->mean)
            p->mean[layer_at(&p->mean_rows, row, whole)] = mean;
        p->invstd[layer_at(&p->invstd_rows, row, whole)] = invstd;
    }
    T *y = (T *)p->out + layer_at(&p->out_rows, row, whole);
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++) {
        int c = (k * team + at) * VECTOR;
        float gamma[VECTOR], beta[VECTOR];
        layer_get((const T *)p->gamma, c, channels, p->gamma_step, whole, gamma);
        if (p->beta)
            layer_get((const T *)p->beta, c, channels, p->beta_step, whole, beta);
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            e[k][i] = (e[k][i] - mean) * invstd * gamma[i] + (p->beta ? beta[i] : 0.0f);
        layer_put(y, c, channels, p->out_step, whole, e[k]);
    }
}

KERNEL_SYNC_OF(LAYER_THREADS, 2, layer_norm_rows, layer_norm_params)
{
    SHARED float scratch[2 * LAYER_SCRATCH];
    layer_forward(&p, scratch, 1);
}

KERNEL_SYNC_OF(LAYER_THREADS, 1, layer_norm_rows_any, layer_norm_params)
{
    SHARED float scratch[2 * LAYER_SCRATCH];
    layer_forward(&p, scratch, 0);
}

/* A block for each row, of any length. */
KERNEL_SYNC(layer_norm_long, layer_norm_params)
{
    SHARED float scratch[WARP];
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T *x = (const T *)p.x + row_at(&p.x_rows, row);
        T *y = (T *)p.out + row_at(&p.out_rows, row);
        float sum = 0, square = 0, share = 1.0f / (float)p.channels;
        for (i64 c = threadIdx.x; c < p.channels; c += blockDim.x)
            sum += load(x, c * p.x_step);
        float mean = p.mean ? block_sum(sum, scratch) * share : 0.0f;
        for (i64 c = threadIdx.x; c < p.channels; c += blockDim.x) {
            float d = load(x, c * p.x_step) - mean;
            square += d * d;
        }
        float invstd = 1.0f / sqrtf(block_sum(square, scratch) * share + p.epsilon);
        if (threadIdx.x == 0) {
            if (p.mean)
                p.mean[row_at(&p.mean_rows, row)] = mean;
            p.invstd[row_at(&p.invstd_rows, row)] = invstd;
        }
        for (i64 c = threadIdx.x; c < p.channels; c += blockDim.x)
            store(y, c * p.out_step, (load(x, c * p.x_step) - mean) * invstd *
                                             load((const T *)p.gamma, c * p.gamma_step) +
                                         (p.beta ? load((const T *)p.beta, c * p.beta_step) : 0));
    }
}

/* ---- Backward ---- */

/* Sums over the rows of a team so far: of dy z and of dy. */
typedef struct layer_sums {
    float gamma[LAYER_PIECES][VECTOR], beta[LAYER_PIECES][VECTOR];
} layer_sums;

/*
 * With d = dy gamma and z = (x - mean) invstd: dx = invstd (d - mean(d) - z mean(d z)). dx may be
 * dy or x. A row that is not there has no channels.
 */
DEVICE void layer_backward_row(const layer_norm_params *p, float *scratch, int at, i64 row,
                               int whole, layer_sums *sums)
{
    int team = p->team;
    int channels = row < p->rows ? (int)p->channels : 0;
    i64 there = channels ? row : 0;
    const T *dy = (const T *)p->dy + layer_at(&p->dy_rows, there, whole);
    const T *x = (const T *)p->x + layer_at(&p->x_rows, there, whole);
    float mean = p->mean ? p->mean[layer_at(&p->mean_rows, there, whole)] : 0.0f;
    float invstd = p->invstd[layer_at(&p->invstd_rows, there, whole)];
    float d[LAYER_PIECES][VECTOR], z[LAYER_PIECES][VECTOR], sum = 0, product = 0;
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++) {
        int c = (k * team + at) * VECTOR;
        layer_get(dy, c, channels, p->dy_step, whole, d[k]);
        layer_get(x, c, channels, p->x_step, whole, z[k]);
    }
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++) {
        float gamma[VECTOR];
        if (p->out)
            layer_get((const T *)p->gamma, (k * team + at) * VECTOR, channels, p->gamma_step,
                      whole, gamma);
        UNROLL
        for (int i = 0; i < VECTOR; i++) {
            z[k][i] = (z[k][i] - mean) * invstd;
            sums->gamma[k][i] += d[k][i] * z[k][i];
            sums->beta[k][i] += d[k][i];
            d[k][i] *= p->out ? gamma[i] : 0.0f;
            sum += d[k][i];
            product += d[k][i] * z[k][i];
        }
    }
    if (!p->out)
        return;
    layer_team_sums(team, scratch, &sum, &product);
    float share = 1.0f / (float)p->channels;
    if (!p->mean)
        sum = 0;
    T *dx = (T *)p->out + layer_at(&p->out_rows, there, whole);
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++) {
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            d[k][i] = invstd * (d[k][i] - sum * share - z[k][i] * (product * share));
        layer_put(dx, (k * team + at) * VECTOR, channels, p->out_step, whole, d[k]);
    }
}

/* Adds up the teams of a block in order, into its partials; `total` is shared memory of two floats
   for each channel. */
DEVICE void layer_add_teams(const layer_norm_params *p, const layer_place *place, float *total,
                            const layer_sums *sums)
{
    float *partial = p->partials + (i64)blockIdx.x * 2 * p->channels;
    for (int t = 0; t < place->teams; t++) {
        if (t == place->team)
            UNROLL
            for (int k = 0; k < LAYER_PIECES; k++)
                UNROLL
                for (int i = 0; i < VECTOR; i++) {
                    int c = (k * p->team + place->at) * VECTOR + i;
                    if (c < p->channels) {
                        total[2 * c] = (t ? total[2 * c] : 0.0f) + sums->gamma[k][i];
                        total[2 * c + 1] = (t ? total[2 * c + 1] : 0.0f) + sums->beta[k][i];
                    }
                }
        __syncthreads();
    }
    for (int c = (int)threadIdx.x; c < p->channels; c += (int)blockDim.x) {
        partial[c] = total[2 * c];
        partial[p->channels + c] = total[2 * c + 1];
    }
}

DEVICE void layer_backward(const layer_norm_params *p, float *scratch, float *total, int whole)
{
    layer_place place = layer_here(p);
    layer_sums sums;
    UNROLL
    for (int k = 0; k < LAYER_PIECES; k++)
        UNROLL
        for (int i = 0; i < VECTOR; i++)
            sums.gamma[k][i] = sums.beta[k][i] = 0;
    i64 step = (i64)gridDim.x * place.teams;
    int turn = 0;
    for (i64 first = (i64)blockIdx.x * place.teams; first < p->rows; first += step) {
        layer_backward_row(p, scratch + turn * LAYER_SCRATCH, place.at, first + place.team, whole,
                           &sums);
        turn = !turn;
    }
    layer_add_teams(p, &place, total, &sums);
}

KERNEL_SYNC_OF(LAYER_THREADS, 2, layer_norm_bw_rows, layer_norm_params)
{
    SHARED float scratch[2 * LAYER_SCRATCH];
    DYNAMIC_SHARED(float, total);
    layer_backward(&p, scratch, total, 1);
}

KERNEL_SYNC_OF(LAYER_THREADS, 1, layer_norm_bw_rows_any, layer_norm_params)
{
    SHARED float scratch[2 * LAYER_SCRATCH];
    DYNAMIC_SHARED(float, total);
    layer_backward(&p, scratch, total, 0);
}

/* A block for each row, of any length. A thread keeps its channels, and so its partials. */
KERNEL_SYNC(layer_norm_bw_long, layer_norm_params)
{
    SHARED float scratch[WARP];
    float *partial = p.partials + (i64)blockIdx.x * 2 * p.channels;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T *dy = (const T *)p.dy + row_at(&p.dy_rows, row);
        const T *x = (const T *)p.x + row_at(&p.x_rows, row);
        float mean = p.mean ? p.mean[row_at(&p.mean_rows, row)] : 0.0f;
        float invstd = p.invstd[row_at(&p.invstd_rows, row)], sum = 0, product = 0;
        for (i64 c = threadIdx.x; c < p.channels; c += blockDim.x) {
            float d = load(dy, c * p.dy_step), z = (load(x, c * p.x_step) - mean) * invstd;
            int first = row == blockIdx.x;
            partial[c] = (first ? 0.0f : partial[c]) + d * z;
            partial[p.channels + c] = (first ? 0.0f : partial[p.channels + c]) + d;
            if (p.out)
                d *= load((const T *)p.gamma, c * p.gamma_step);
            sum += d;
            product += d * z;
        }
        sum = p.mean ? block_sum(sum, scratch) / (float)p.channels : 0.0f;
        product = block_sum(product, scratch) / (float)p.channels;
        if (!p.out)
            continue;
        T *dx = (T *)p.out + row_at(&p.out_rows, row);
        for (i64 c = threadIdx.x; c < p.channels; c += blockDim.x) {
            float z = (load(x, c * p.x_step) - mean) * invstd;
            float d = load(dy, c * p.dy_step) * load((const T *)p.gamma, c * p.gamma_step);
            store(dx, c * p.out_step, invstd * (d - sum - z * product));
        }
    }
}

/* The partials of all blocks to dgamma and dbeta: a block has 32 channels of one of them, its warps
   (a power of two of them) share the parts. */
KERNEL_SYNC(layer_norm_gradients, layer_norm_params)
{
    SHARED float sums[1024];
    int t = (int)threadIdx.x, line = t / WARP, lines = (int)blockDim.x / WARP;
    i64 c = (i64)blockIdx.x * WARP + t % WARP;
    float sum = 0;
    for (int part = line; part < p.parts && c < p.channels; part += lines)
        sum += p.partials[((i64)part * 2 + blockIdx.y) * p.channels + c];
    sums[t] = sum;
    for (int half = lines / 2; half > 0; half /= 2) {
        __syncthreads();
        if (line < half)
            sums[t] += sums[t + half * WARP];
    }
    if (line == 0 && c < p.channels)
        store((T *)(blockIdx.y ? p.dbeta : p.dgamma),
              c * (blockIdx.y ? p.dbeta_step : p.dgamma_step), sums[t]);
}
