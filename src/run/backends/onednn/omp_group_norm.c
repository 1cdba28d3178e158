/*
 * Group normalisation and its gradient. A part takes whole groups of channels of an image, so sums
 * are the same whatever the number of threads; they are in f64.
 *
 * A group is walked in *lines* of constant steps: the pixels of a channel, or, where channels are
 * innermost in memory, the channels of a pixel.
 *
 * The gradients of gamma and beta are sums over images: each group leaves those of its image in the
 * workspace, and a second phase adds up the images, in order.
 */
#include "run/backends/onednn/omp_kernel.h"
#include "run/backends/onednn/omp_rows.h"
#include "run/backends/onednn/omp_walk.h"

#include <math.h>

/* An array of images: a row is a pixel. */
typedef struct images {
    omp_rows pixels;
    int64_t stride; /* from one image to the next */
} images;

typedef struct group_norm {
    images x, y;                     /* or dx for y */
    images dy;                       /* backward */
    run_array mean;                  /* [images, groups], and like it the inverse deviation: */
    run_array invstd;                /* strides */
    int64_t n_images, groups, width; /* width: channels of a group */
    bool by_pixel;                   /* a line is a pixel's channels */
    int64_t affine[2];               /* steps of gamma and beta, or of their gradients */
    int64_t gamma;                   /* backward: step of gamma */
    bool data;                       /* backward: dx is wanted */
    double epsilon;
} group_norm;

/* ---- Groups and lines ---- */

/* Which group, and what a line of it is. */
typedef struct group {
    int64_t image, number;
    int64_t first;         /* channel */
    int64_t lines, length; /* of a line */
} group;

static group group_at(const group_norm *p, int64_t number)
{
    int64_t pixels = p->x.pixels.count;
    return (group){.image = number / p->groups,
                   .number = number % p->groups,
                   .first = number % p->groups * p->width,
                   .lines = p->by_pixel ? pixels : p->width,
                   .length = p->by_pixel ? p->width : pixels};
}

static int64_t line_at(const group_norm *p, const images *a, const group *g, int64_t line)
{
    int64_t channel = g->first + (p->by_pixel ? 0 : line);
    return g->image * a->stride + channel * a->pixels.channel_stride +
           (p->by_pixel ? omp_row(&a->pixels, line) : 0);
}

static int64_t step_of(const group_norm *p, const images *a)
{
    return p->by_pixel ? a->pixels.channel_stride : a->pixels.stride;
}

static int64_t statistic_at(const run_array *array, const group *g)
{
    return g->image * array->strides[0] + g->number * array->strides[1];
}

static images images_of(const run_array *array)
{
    run_array image = neap_run_array_without(array, 0);
    return (images){neap_omp_rows_of(&image, 0), array->strides[0]};
}

static bool has_pixels_apart(const images *a)
{
    return !a->pixels.even || a->pixels.channel_stride == 1;
}

/* ---- Forward ---- */

OMP_CLONES static double group_sum(const float *x, int64_t step, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i * step];
    return sum;
}

OMP_CLONES static double group_squares(const float *x, int64_t step, int64_t n, double mean)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += ((double)x[i * step] - mean) * ((double)x[i * step] - mean);
    return sum;
}

/* Steps of y, x, gamma and beta. */
OMP_CLONES static void group_write(float *y, const float *x, const float *gamma, const float *beta,
                                   const int64_t step[4], int64_t n, float mean, float invstd)
{
    if (step[0] == 1 && step[1] == 1 && step[2] == 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * invstd * *gamma + *beta;
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i * step[0]] =
                (x[i * step[1]] - mean) * invstd * gamma[i * step[2]] + beta[i * step[3]];
    }
}

static void forward_group(const group_norm *p, const omp_task *task, const group *g)
{
    const float *x = omp_in(task, 0);
    int64_t in_line[4] = {step_of(p, &p->y), step_of(p, &p->x), p->by_pixel ? p->affine[0] : 0,
                          p->by_pixel ? p->affine[1] : 0};
    double count = (double)(g->lines * g->length), sum = 0, squares = 0;
    for (int64_t l = 0; l < g->lines; l++)
        sum += group_sum(x + line_at(p, &p->x, g, l), in_line[1], g->length);
    for (int64_t l = 0; l < g->lines; l++)
        squares += group_squares(x + line_at(p, &p->x, g, l), in_line[1], g->length, sum / count);
    float mean = (float)(sum / count), invstd = (float)(1 / sqrt(squares / count + p->epsilon));
    omp_out(task, 1)[statistic_at(&p->mean, g)] = mean;
    omp_out(task, 2)[statistic_at(&p->invstd, g)] = invstd;
    for (int64_t l = 0; l < g->lines; l++) {
        int64_t channel = g->first + (p->by_pixel ? 0 : l);
        group_write(omp_out(task, 0) + line_at(p, &p->y, g, l), x + line_at(p, &p->x, g, l),
                    omp_in(task, 1) + channel * p->affine[0],
                    omp_in(task, 2) + channel * p->affine[1], in_line, g->length, mean, invstd);
    }
}

static void forward_work(const omp_task *task)
{
    const group_norm *p = task->plan;
    omp_range mine = omp_share(task, p->n_images * p->groups, 1);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        group g = group_at(p, i);
        forward_group(p, task, &g);
    }
}

static void plan_sizes(group_norm *p, const run_spec *spec, const run_array *x)
{
    p->groups = neap_run_spec_int(spec, "groups", 1);
    p->n_images = x->shape[0];
    p->width = x->shape[1] / p->groups;
    p->x = images_of(x);
}

static void plan_group_norm(const run_spec *spec, int parts, void *plan)
{
    group_norm *p = plan;
    (void)parts;
    plan_sizes(p, spec, &spec->in[0]);
    p->y = images_of(&spec->out[0]);
    p->mean = spec->out[1];
    p->invstd = spec->out[2];
    p->affine[0] = spec->in[1].strides[0];
    p->affine[1] = spec->in[2].strides[0];
    p->epsilon = neap_run_spec_real(spec, "epsilon", 1e-5);
    p->by_pixel = has_pixels_apart(&p->x) || has_pixels_apart(&p->y);
}

/* ---- Backward: with z = (x - mean) invstd, channel c has the sums of dy z and of dy ---- */

/* A line of dy and x. */
typedef struct group_line {
    const float *dy, *x;
    int64_t dy_step, x_step;
    float mean, invstd;
} group_line;

/* A line of one channel, or of one element of each. */
OMP_CLONES static void group_add_pixels(double *sums, const group_line *l, int64_t n)
{
    double dz = 0, d = 0;
#pragma omp simd reduction(+ : dz, d)
    for (int64_t i = 0; i < n; i++) {
        double own = (double)l->dy[i * l->dy_step];
        dz += own * (double)((l->x[i * l->x_step] - l->mean) * l->invstd);
        d += own;
    }
    sums[0] += dz;
    sums[1] += d;
}

OMP_CLONES static void group_add_channels(double *sums, const group_line *l, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double own = (double)l->dy[i * l->dy_step];
        sums[2 * i] += own * (double)((l->x[i * l->x_step] - l->mean) * l->invstd);
        sums[2 * i + 1] += own;
    }
}

/* dx = invstd * (d - mean(d) - z * mean(d z)), with d = dy * gamma. */
OMP_CLONES static void group_write_dx(float *dx, int64_t dx_step, const float *gamma,
                                      int64_t gamma_step, const group_line *l, int64_t n,
                                      const float means[2])
{
    const float *dy = l->dy, *x = l->x, mean = l->mean, invstd = l->invstd;
    if (dx_step == 1 && l->dy_step == 1 && l->x_step == 1 && gamma_step == 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = invstd * (dy[i] * *gamma - means[1] - (x[i] - mean) * invstd * means[0]);
    } else {
        for (int64_t i = 0; i < n; i++)
            dx[i * dx_step] = invstd * (dy[i * l->dy_step] * gamma[i * gamma_step] - means[1] -
                                        (x[i * l->x_step] - mean) * invstd * means[0]);
    }
}

static group_line line_of(const group_norm *p, const omp_task *task, const group *g, int64_t line)
{
    uint32_t mean = p->data ? 3 : 2;
    return (group_line){.dy = omp_in(task, 0) + line_at(p, &p->dy, g, line),
                        .x = omp_in(task, 1) + line_at(p, &p->x, g, line),
                        .dy_step = step_of(p, &p->dy),
                        .x_step = step_of(p, &p->x),
                        .mean = omp_in(task, mean)[statistic_at(&p->mean, g)],
                        .invstd = omp_in(task, mean + 1)[statistic_at(&p->invstd, g)]};
}

/* The sums of channel c of an image: dy z, dy. */
static double *sums_of(const group_norm *p, const omp_task *task, int64_t image, int64_t channel)
{
    return (double *)task->args->workspace + 2 * (image * p->groups * p->width + channel);
}

static void backward_group(const group_norm *p, const omp_task *task, const group *g)
{
    double *sums = sums_of(p, task, g->image, g->first), weighted[2] = {0, 0};
    const float *gamma = p->data ? omp_in(task, 2) + g->first * p->gamma : NULL;
    for (int64_t i = 0; i < 2 * p->width; i++)
        sums[i] = 0;
    for (int64_t l = 0; l < g->lines; l++) {
        group_line line = line_of(p, task, g, l);
        if (p->by_pixel)
            group_add_channels(sums, &line, g->length);
        else
            group_add_pixels(sums + 2 * l, &line, g->length);
    }
    for (int64_t i = 0; p->data && i < 2 * p->width; i++)
        weighted[i % 2] += (double)gamma[i / 2 * p->gamma] * sums[i];
    double count = (double)(g->lines * g->length);
    const float means[2] = {(float)(weighted[0] / count), (float)(weighted[1] / count)};
    for (int64_t l = 0; p->data && l < g->lines; l++) {
        group_line line = line_of(p, task, g, l);
        group_write_dx(omp_out(task, 0) + line_at(p, &p->y, g, l), step_of(p, &p->y),
                       gamma + (p->by_pixel ? 0 : l * p->gamma), p->by_pixel ? p->gamma : 0, &line,
                       g->length, means);
    }
}

/* Some channels of dgamma and dbeta. */
static void add_images(const group_norm *p, const omp_task *task)
{
    omp_range channels = omp_share(task, p->groups * p->width, 8);
    for (int64_t c = channels.begin; c < channels.end; c++) {
        double sums[2] = {0, 0};
        for (int64_t image = 0; image < p->n_images; image++)
            for (int which = 0; which < 2; which++)
                sums[which] += sums_of(p, task, image, c)[which];
        for (uint32_t which = 0; which < 2; which++)
            omp_out(task, p->data + which)[c * p->affine[which]] = (float)sums[which];
    }
}

static void backward_work(const omp_task *task)
{
    const group_norm *p = task->plan;
    omp_range mine = omp_share(task, p->n_images * p->groups, 1);
    if (task->phase == 1)
        add_images(p, task);
    for (int64_t i = mine.begin; task->phase == 0 && i < mine.end; i++) {
        group g = group_at(p, i);
        backward_group(p, task, &g);
    }
}

static void plan_group_norm_bw(const run_spec *spec, int parts, void *plan)
{
    group_norm *p = plan;
    (void)parts;
    p->data = spec->op->n_outputs == 3;
    plan_sizes(p, spec, &spec->in[1]);
    p->dy = images_of(&spec->in[0]);
    p->mean = spec->in[p->data ? 3 : 2];
    p->invstd = spec->in[p->data ? 4 : 3];
    p->by_pixel = has_pixels_apart(&p->x) || has_pixels_apart(&p->dy);
    if (p->data) {
        p->y = images_of(&spec->out[0]);
        p->gamma = spec->in[2].strides[0];
        p->by_pixel = p->by_pixel || has_pixels_apart(&p->y);
    }
    p->affine[0] = spec->out[p->data].strides[0];
    p->affine[1] = spec->out[p->data + 1].strides[0];
}

static int64_t backward_workspace(const run_spec *spec, int parts)
{
    (void)parts;
    return spec->in[1].shape[0] * spec->in[1].shape[1] * 2 * (int64_t)sizeof(double);
}

OMP_OP(group_norm,
       {.plan_bytes = sizeof(group_norm), .plan = plan_group_norm, .work = forward_work})
OMP_OP(group_norm_bw, {.plan_bytes = sizeof(group_norm),
                       .plan = plan_group_norm_bw,
                       .workspace = backward_workspace,
                       .work = backward_work,
                       .phases = 2})
