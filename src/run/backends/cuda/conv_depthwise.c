/* How blocks of the depthwise kernels cover images. */
#include "base/fail.h"
#include "run/backends/cuda/conv.h"

/* The largest of 16, 8, 4 lanes that wastes the fewest. */
static int64_t lanes_for(int64_t vectors)
{
    int64_t best = DEPTHWISE_MOST_LANES;
    for (int64_t lanes = best / 2; lanes >= 4; lanes /= 2)
        if (conv_divide_up(vectors, lanes) * lanes < conv_divide_up(vectors, best) * best)
            best = lanes;
    return best;
}

static int64_t image_blocks(const run_array *out, int64_t lanes, int64_t tiles, int64_t rows)
{
    int64_t vector = 16 / neap_dtype_bytes(out->dtype);
    return conv_divide_up(out->shape[1], lanes * vector) *
           conv_divide_up(out->shape[3], tiles * DEPTHWISE_COLUMNS) *
           conv_divide_up(out->shape[2], rows) * out->shape[0];
}

/* Tiles of columns in a block: as few as cover the image, at most 8. */
static int64_t tiles_for(const run_array *out, int64_t lanes)
{
    int64_t tiles = 1, most = DEPTHWISE_THREADS / lanes;
    while (tiles < 8 && tiles < most && tiles * DEPTHWISE_COLUMNS < out->shape[3])
        tiles *= 2;
    return tiles;
}

static int64_t vectors_of(const run_array *image)
{
    return image->shape[1] * neap_dtype_bytes(image->dtype) / 16;
}

bool neap_conv_is_depthwise(const conv_problem *problem)
{
    const conv_window *w = &problem->window;
    int side = w->kernel_h;
    const run_array *out = problem->target == CONV_X ? &problem->x : &problem->y;
    if (problem->w.shape[1] != 1 || problem->w.shape[0] != problem->groups)
        return false;
    if ((side != 3 && side != 5 && side != 7) || w->kernel_w != side || w->pad_h != side / 2 ||
        w->pad_w != side / 2 || w->dilation != 1 || w->stride_h != w->stride_w || w->stride_h > 2)
        return false;
    return neap_conv_has_vectors(&problem->x, false) && neap_conv_has_vectors(&problem->y, false) &&
           image_blocks(out, 4, 1, 1) <= INT32_MAX;
}

/* ---- Images ---- */

static neap_status plan_image(cuda_backend *backend, const conv_problem *problem,
                              conv_kernel_plan *plan, neap_diag *diag)
{
    static const char *const names[3][3] = {
        {"depthwise3", "depthwise5", "depthwise7"},
        {"depthwise3_stride2", "depthwise5_stride2", "depthwise7_stride2"},
        {"depthwise3_data2", "depthwise5_data2", "depthwise7_data2"}};
    bool forward = problem->target == CONV_Y;
    const run_array *out = forward ? &problem->y : &problem->x;
    const run_array *in = forward ? &problem->x : &problem->y;
    depthwise_params *p = &plan->depthwise.image;
    int64_t lanes = lanes_for(vectors_of(out)), tiles = tiles_for(out, lanes),
            rows = DEPTHWISE_THREADS / (lanes * tiles), vector = 16 / neap_dtype_bytes(out->dtype);
    i64 weight[4];
    neap_conv_strides(in, p->in_strides);
    neap_conv_strides(out, p->out_strides);
    neap_conv_strides(&problem->w, weight);
    p->weight_strides[0] = weight[0];
    p->weight_strides[1] = weight[2];
    p->weight_strides[2] = weight[3];
    p->channels = (i32)out->shape[1];
    p->in_h = (i32)in->shape[2];
    p->in_w = (i32)in->shape[3];
    p->out_h = (i32)out->shape[2];
    p->out_w = (i32)out->shape[3];
    p->lanes = (i32)lanes;
    p->tiles = (i32)tiles;
    p->rows = (i32)rows;
    p->channel_blocks = (i32)conv_divide_up(out->shape[1], lanes * vector);
    p->column_blocks = (i32)conv_divide_up(out->shape[3], tiles * DEPTHWISE_COLUMNS);
    p->row_blocks = (i32)conv_divide_up(out->shape[2], rows);
    p->flip = !forward && problem->window.stride_h == 1;
    p->relu = problem->relu;
    plan->fast_dims = (cuda_dims){.blocks = (uint32_t)image_blocks(out, lanes, tiles, rows),
                                  .threads = DEPTHWISE_THREADS};
    int kind = problem->window.stride_h == 1 ? 0 : 2 - forward;
    return neap_cuda_find(backend, names[kind][problem->window.kernel_h / 2 - 1], problem->type,
                          &plan->fast, diag);
}

/* ---- Weights ---- */

static int64_t weight_row_lanes(const conv_problem *problem, int64_t lanes)
{
    return DEPTHWISE_THREADS / (lanes * problem->window.kernel_h);
}

/* Rows of dy in a part. */
static int64_t part_rows(const conv_problem *problem)
{
    int64_t rows = problem->y.shape[0] * problem->y.shape[2];
    int64_t lanes = lanes_for(problem->y.shape[1] / 4);
    int64_t parts = neap_conv_parts(rows, conv_divide_up(problem->y.shape[1], lanes * 4),
                                    CONV_MANY_BLOCKS, 2 * weight_row_lanes(problem, lanes));
    return conv_divide_up(rows, parts);
}

int64_t neap_conv_depthwise_parts(const conv_problem *problem)
{
    return conv_divide_up(problem->y.shape[0] * problem->y.shape[2], part_rows(problem));
}

static neap_status plan_weight(cuda_backend *backend, const conv_problem *problem,
                               conv_kernel_plan *plan, neap_diag *diag)
{
    static const char *const names[2][3] = {
        {"depthwise3_weight", "depthwise5_weight", "depthwise7_weight"},
        {"depthwise3_weight2", "depthwise5_weight2", "depthwise7_weight2"}};
    depthwise_weight_params *p = &plan->depthwise.weight;
    const int64_t *y = problem->y.shape;
    int64_t lanes = lanes_for(y[1] / 4), side = problem->window.kernel_h;
    neap_conv_strides(&problem->y, p->dy_strides);
    neap_conv_strides(&problem->x, p->x_strides);
    p->rows = y[0] * y[2];
    p->part_rows = part_rows(problem);
    p->channels = (i32)y[1];
    p->x_h = (i32)problem->x.shape[2];
    p->x_w = (i32)problem->x.shape[3];
    p->y_h = (i32)y[2];
    p->y_w = (i32)y[3];
    p->lanes = (i32)lanes;
    p->row_lanes = (i32)weight_row_lanes(problem, lanes);
    p->channel_blocks = (i32)conv_divide_up(y[1], lanes * 4);
    plan->fast_parts = (i32)neap_conv_depthwise_parts(problem);
    plan->fast_dims = (cuda_dims){
        .blocks = (uint32_t)(p->channel_blocks * plan->fast_parts),
        .threads = DEPTHWISE_THREADS,
        .dynamic_shared = (uint32_t)(p->row_lanes * lanes * 4 * side * side * (int)sizeof(float))};
    return neap_cuda_find(backend, names[problem->window.stride_h - 1][side / 2 - 1], problem->type,
                          &plan->fast, diag);
}

neap_status neap_conv_plan_depthwise(cuda_backend *backend, const conv_problem *problem,
                                     conv_kernel_plan *plan, neap_diag *diag)
{
    return problem->target == CONV_W ? plan_weight(backend, problem, plan, diag)
                                     : plan_image(backend, problem, plan, diag);
}
