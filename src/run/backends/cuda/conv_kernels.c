/* Kernels of our own for convolutions of any kind: what to launch, and with which numbers. */
#include "base/fail.h"
#include "run/backends/cuda/conv.h"

#define FEW_CHANNELS   4
#define DIRECT_THREADS 256

int64_t neap_conv_parts(int64_t items, int64_t blocks, int64_t wanted, int64_t least)
{
    int64_t parts = wanted / blocks, most = items / least;
    if (parts > most)
        parts = most;
    return parts > 1 ? parts : 1;
}

void neap_conv_strides(const run_array *array, i64 strides[4])
{
    for (int d = 0; d < 4; d++)
        strides[d] = array->shape[d] > 1 ? array->strides[d] : 0;
}

bool neap_conv_has_vectors(const run_array *image, bool whole)
{
    int64_t vector = 16 / neap_dtype_bytes(image->dtype);
    if (image->shape[1] % vector != 0 || image->strides[1] != 1)
        return false;
    for (int d = 0; d < 4; d++)
        if (d != 1 && image->shape[d] > 1 && image->strides[d] % vector != 0)
            return false;
    return !whole || neap_run_array_is_channels_last(image);
}

/* ---- Images ---- */

static int64_t image_blocks(const conv_problem *problem, int64_t rows, int64_t columns)
{
    const run_array *out = problem->target == CONV_Y ? &problem->y : &problem->x;
    return conv_divide_up(conv_pixels(out), rows) * problem->groups *
           conv_divide_up(out->shape[1] / problem->groups, columns);
}

static void set_image(const conv_problem *problem, conv_image_params *p)
{
    bool forward = problem->target == CONV_Y;
    const run_array *out = forward ? &problem->y : &problem->x;
    const run_array *in = forward ? &problem->x : &problem->y;
    i64 weight[4];
    neap_conv_strides(in, p->in_strides);
    neap_conv_strides(out, p->out_strides);
    neap_conv_strides(&problem->w, weight);
    p->weight_strides[0] = weight[forward ? 0 : 1];
    p->weight_strides[1] = weight[forward ? 1 : 0];
    p->weight_strides[2] = weight[2];
    p->weight_strides[3] = weight[3];
    p->group_stride = problem->w.shape[0] / problem->groups * weight[0];
    p->images = out->shape[0];
    p->pixels = conv_pixels(out);
    p->in_channels = (i32)(in->shape[1] / problem->groups);
    p->out_channels = (i32)(out->shape[1] / problem->groups);
    p->groups = (i32)problem->groups;
    p->in_h = (i32)in->shape[2];
    p->in_w = (i32)in->shape[3];
    p->out_h = (i32)out->shape[2];
    p->out_w = (i32)out->shape[3];
    p->window = problem->window;
    p->relu = problem->relu;
    p->in_by_channels = p->in_strides[1] == 1;
    p->weight_by_out = p->weight_strides[0] == 1;
}

static neap_status plan_image(cuda_backend *backend, const conv_problem *problem, bool direct,
                              conv_kernel_plan *plan, neap_diag *diag)
{
    bool forward = problem->target == CONV_Y;
    const run_array *out = forward ? &problem->y : &problem->x;
    static const char *const names[2][2] = {{"conv_gemm_data", "conv_gemm"},
                                            {"conv_direct_data", "conv_direct"}};
    set_image(problem, &plan->direct.image);
    if (direct)
        plan->plain_dims = neap_cuda_dims(backend, neap_run_array_elements(out), DIRECT_THREADS, 8);
    else
        plan->plain_dims =
            (cuda_dims){.blocks = (uint32_t)image_blocks(problem, CONV_ROWS, CONV_COLUMNS),
                        .threads = CONV_THREADS};
    return neap_cuda_find(backend, names[direct][forward], problem->type, &plan->plain, diag);
}

/* Tiles of 128 columns do more work for what they load; 64 waste less, or make enough blocks. */
static int64_t tile_side(int64_t extent, int64_t blocks_of_128)
{
    bool wastes = conv_divide_up(extent, 128) * 128 > conv_divide_up(extent, 64) * 64;
    return wastes || blocks_of_128 < 264 ? 64 : 128;
}

/* Gradients go by class: as many pixels in each as in the largest. */
static int64_t image_tile_blocks(const conv_problem *problem, int64_t columns)
{
    const conv_window *w = &problem->window;
    const run_array *out = problem->target == CONV_Y ? &problem->y : &problem->x;
    int64_t step_h = problem->target == CONV_Y ? 1 : w->stride_h,
            step_w = problem->target == CONV_Y ? 1 : w->stride_w;
    int64_t pixels = out->shape[0] * conv_divide_up(out->shape[2], step_h) *
                     conv_divide_up(out->shape[3], step_w);
    return step_h * step_w * conv_divide_up(pixels, 128) * problem->groups *
           conv_divide_up(out->shape[1] / problem->groups, columns);
}

static neap_status plan_image_tiles(cuda_backend *backend, const conv_problem *problem,
                                    conv_kernel_plan *plan, neap_diag *diag)
{
    bool forward = problem->target == CONV_Y;
    const run_array *out = forward ? &problem->y : &problem->x;
    static const char *const names[2][2] = {{"conv_tiles64_data", "conv_tiles64"},
                                            {"conv_tiles128_data", "conv_tiles128"}};
    int64_t side = tile_side(out->shape[1] / problem->groups, image_tile_blocks(problem, 128));
    set_image(problem, &plan->tiles.image);
    plan->fast_dims =
        (cuda_dims){.blocks = (uint32_t)image_tile_blocks(problem, side), .threads = CONV_THREADS};
    return neap_cuda_find(backend, names[side == 128][forward], problem->type, &plan->fast, diag);
}

/* ---- Weights ---- */

/* The partition of one kernel's sums. */
typedef struct weight_partition {
    int64_t blocks; /* of a part */
    int64_t pixels; /* of a part: a multiple of the tiles' depth */
    int64_t parts;
    int64_t side; /* rows of tiles */
} weight_partition;

static int64_t weight_blocks(const conv_problem *problem, int64_t rows, int64_t columns)
{
    const int64_t *w = problem->w.shape;
    return problem->groups * conv_divide_up(w[0] / problem->groups, rows) *
           conv_divide_up(w[1] * w[2] * w[3], columns);
}

static weight_partition partition(const conv_problem *problem, conv_kernel kernel)
{
    weight_partition p = {.side = CONV_TILE};
    int64_t pixels = conv_pixels(&problem->y), wanted = CONV_MANY_BLOCKS / 2, least = 256;
    if (kernel == CONV_TILES) {
        wanted = 264;
        p.side = tile_side(problem->w.shape[0] / problem->groups, wanted);
        p.blocks = weight_blocks(problem, p.side, 128);
    } else if (kernel == CONV_GEMM) {
        p.blocks = weight_blocks(problem, CONV_TILE, CONV_TILE);
    } else {
        p.blocks = neap_run_array_elements(&problem->w);
        wanted = CONV_MANY_BLOCKS;
        least = 1024;
    }
    int64_t parts = problem->bare ? 1 : neap_conv_parts(pixels, p.blocks, wanted, least);
    p.pixels = conv_divide_up(conv_divide_up(pixels, parts), CONV_DEPTH) * CONV_DEPTH;
    p.parts = conv_divide_up(pixels, p.pixels);
    return p;
}

static void set_weight(const conv_problem *problem, const weight_partition *parts,
                       conv_weight_params *p)
{
    neap_conv_strides(&problem->y, p->dy_strides);
    neap_conv_strides(&problem->x, p->x_strides);
    neap_conv_strides(&problem->w, p->weight_strides);
    p->pixels = conv_pixels(&problem->y);
    p->part_pixels = parts->pixels;
    p->weights = neap_run_array_elements(&problem->w);
    p->in_channels = (i32)problem->w.shape[1];
    p->out_channels = (i32)(problem->w.shape[0] / problem->groups);
    p->groups = (i32)problem->groups;
    p->x_h = (i32)problem->x.shape[2];
    p->x_w = (i32)problem->x.shape[3];
    p->y_h = (i32)problem->y.shape[2];
    p->y_w = (i32)problem->y.shape[3];
    p->n_parts = (i32)parts->parts;
    p->window = problem->window;
    p->dy_by_channels = p->dy_strides[1] == 1;
    p->x_by_channels = p->x_strides[1] == 1;
}

static void set_sum(const conv_problem *problem, conv_kernel_plan *plan)
{
    conv_sum_params *p = &plan->sum_params;
    p->count = neap_run_array_elements(&problem->w);
    neap_conv_strides(&problem->w, p->strides);
    p->n_parts = plan->direct.weight.n_parts;
    p->channels = (i32)problem->w.shape[1];
    p->kernel_h = problem->window.kernel_h;
    p->kernel_w = problem->window.kernel_w;
    plan->sum_dims = (cuda_dims){.blocks = (uint32_t)conv_divide_up(p->count, CONV_SUM_ELEMENTS),
                                 .threads = CONV_SUM_ELEMENTS * CONV_SUM_LANES};
}

static neap_status plan_weight(cuda_backend *backend, const conv_problem *problem, bool direct,
                               conv_kernel_plan *plan, neap_diag *diag)
{
    weight_partition parts = partition(problem, direct ? CONV_DIRECT : CONV_GEMM);
    set_weight(problem, &parts, &plan->direct.weight);
    set_sum(problem, plan);
    plan->plain_dims =
        (cuda_dims){.blocks = (uint32_t)(parts.blocks * parts.parts), .threads = CONV_THREADS};
    NEAP_TRY(neap_cuda_find(backend, "conv_sum_parts", problem->type, &plan->sum, diag));
    return neap_cuda_find(backend, direct ? "conv_direct_weight" : "conv_gemm_weight",
                          problem->type, &plan->plain, diag);
}

static neap_status plan_weight_tiles(cuda_backend *backend, const conv_problem *problem,
                                     conv_kernel_plan *plan, neap_diag *diag)
{
    weight_partition parts = partition(problem, CONV_TILES);
    set_weight(problem, &parts, &plan->tiles.weight);
    plan->fast_parts = (int32_t)parts.parts;
    plan->fast_dims =
        (cuda_dims){.blocks = (uint32_t)(parts.blocks * parts.parts), .threads = CONV_THREADS};
    return neap_cuda_find(backend,
                          parts.side == 128 ? "conv_tiles128_weight" : "conv_tiles64_weight",
                          problem->type, &plan->fast, diag);
}

/* ---- Choices ---- */

/* Whether a grid holds the blocks. */
static bool fits_grid(const conv_problem *problem, conv_kernel kernel)
{
    if (problem->target == CONV_W) {
        weight_partition parts = partition(problem, kernel);
        return parts.blocks * parts.parts <= INT32_MAX;
    }
    return (kernel == CONV_TILES ? image_tile_blocks(problem, 64)
                                 : image_blocks(problem, CONV_ROWS, CONV_COLUMNS)) <= INT32_MAX;
}

/* Tiles would be nearly empty. */
static bool has_few_channels(const conv_problem *problem)
{
    int64_t k = problem->w.shape[0] / problem->groups, c = problem->w.shape[1];
    return (problem->target == CONV_X ? c : k) <= FEW_CHANNELS;
}

/* Tensor cores make products of bf16. */
static bool has_tiles(const conv_problem *problem)
{
    const run_array *w = &problem->w;
    if (problem->type != NEAP_F32 || w->shape[1] % 4 != 0 ||
        w->shape[0] / problem->groups % 4 != 0 || !fits_grid(problem, CONV_TILES))
        return false;
    if (problem->target != CONV_W && w->strides[1] != 1)
        return false;
    for (int d = 0; d < 4 && problem->target != CONV_W; d++)
        if (d != 1 && w->shape[d] > 1 && w->strides[d] % 4 != 0)
            return false;
    return neap_conv_has_vectors(&problem->x, false) && neap_conv_has_vectors(&problem->y, false);
}

conv_kernel neap_conv_plain_kernel(const conv_problem *problem)
{
    return has_few_channels(problem) || !fits_grid(problem, CONV_GEMM) ? CONV_DIRECT : CONV_GEMM;
}

uint32_t neap_conv_kernels(const conv_problem *problem, conv_kernel kernels[CONV_MOST_KERNELS])
{
    uint32_t count = 0;
    if (neap_conv_is_depthwise(problem))
        kernels[count++] = CONV_DEPTHWISE;
    if (has_tiles(problem))
        kernels[count++] = CONV_TILES;
    if (count == 0 && neap_conv_plain_kernel(problem) == CONV_DIRECT)
        kernels[count++] = CONV_DIRECT;
    if (fits_grid(problem, CONV_GEMM))
        kernels[count++] = CONV_GEMM;
    return count;
}

/* The kernel for addresses that the one of `kernel` does not take, or the only one. */
static bool is_direct(const conv_problem *problem, conv_kernel kernel)
{
    if (kernel == CONV_TILES)
        kernel = neap_conv_plain_kernel(problem);
    return kernel != CONV_GEMM;
}

static int64_t parts_bytes(const conv_problem *problem, int64_t parts)
{
    return parts * neap_run_array_elements(&problem->w) * (int64_t)sizeof(float);
}

int64_t neap_conv_kernel_workspace(const conv_problem *problem, conv_kernel kernel)
{
    if (problem->target != CONV_W)
        return 0;
    int64_t plain = partition(problem, is_direct(problem, kernel) ? CONV_DIRECT : CONV_GEMM).parts;
    int64_t parts = plain > 1 ? plain : 0, fast = 0;
    if (kernel == CONV_DEPTHWISE)
        fast = neap_conv_depthwise_parts(problem);
    else if (kernel == CONV_TILES)
        fast = partition(problem, CONV_TILES).parts;
    if (kernel == CONV_TILES && fast == 1)
        fast = 0;
    return parts_bytes(problem, parts > fast ? parts : fast);
}

neap_status neap_conv_kernel_plan(cuda_backend *backend, const conv_problem *problem,
                                  conv_kernel kernel, conv_kernel_plan *plan, neap_diag *diag)
{
    bool direct = is_direct(problem, kernel), of_weight = problem->target == CONV_W;
    plan->kernel = kernel;
    plan->target = problem->target;
    plan->bias = problem->bias && !of_weight;
    plan->y_at = problem->y_at;
    plan->x_at = problem->x_at;
    plan->w_at = problem->w_at;
    NEAP_TRY(of_weight ? plan_weight(backend, problem, direct, plan, diag)
                       : plan_image(backend, problem, direct, plan, diag));
    if (kernel == CONV_DEPTHWISE)
        return neap_conv_plan_depthwise(backend, problem, plan, diag);
    if (kernel == CONV_TILES)
        return of_weight ? plan_weight_tiles(backend, problem, plan, diag)
                         : plan_image_tiles(backend, problem, plan, diag);
    return NEAP_OK;
}

/* ---- Running ---- */

/* All operands that are read or written as vectors. */
static bool is_aligned(const conv_kernel_plan *plan, const run_args *args)
{
    return cuda_is_aligned(conv_address(args, plan->y_at)) &&
           cuda_is_aligned(conv_address(args, plan->x_at)) &&
           (plan->target == CONV_W || cuda_is_aligned(conv_address(args, plan->w_at))) &&
           (!plan->bias || cuda_is_aligned(args->in[2]));
}

static neap_status launch_image(cuda_backend *backend, const cuda_function *function,
                                cuda_dims dims, const conv_image_params *planned,
                                const conv_image_params *addresses, neap_diag *diag)
{
    conv_image_params params = *planned;
    params.in = addresses->in;
    params.weight = addresses->weight;
    params.bias = addresses->bias;
    params.out = addresses->out;
    return CUDA_LAUNCH(backend, function, dims, &params, diag);
}

static neap_status run_image(cuda_backend *backend, const conv_kernel_plan *plan,
                             const run_args *args, neap_diag *diag)
{
    bool forward = plan->target == CONV_Y, aligned = plan->fast && is_aligned(plan, args);
    conv_image_params at = {.in = conv_address(args, forward ? plan->x_at : plan->y_at),
                            .weight = conv_address(args, plan->w_at),
                            .bias = plan->bias ? args->in[2] : NULL,
                            .out = conv_address(args, forward ? plan->y_at : plan->x_at)};
    if (!aligned)
        return launch_image(backend, plan->plain, plan->plain_dims, &plan->direct.image, &at, diag);
    if (plan->kernel == CONV_TILES)
        return launch_image(backend, plan->fast, plan->fast_dims, &plan->tiles.image, &at, diag);
    depthwise_params params = plan->depthwise.image;
    params.in = at.in;
    params.weight = at.weight;
    params.bias = at.bias;
    params.out = at.out;
    return CUDA_LAUNCH(backend, plan->fast, plan->fast_dims, &params, diag);
}

/* The sums of parts, or dw itself if there is one part. */
static neap_status launch_weight(cuda_backend *backend, const conv_kernel_plan *plan, bool aligned,
                                 const run_args *args, neap_diag *diag)
{
    const void *dy = conv_address(args, plan->y_at), *x = conv_address(args, plan->x_at);
    if (aligned && plan->kernel == CONV_DEPTHWISE) {
        depthwise_weight_params params = plan->depthwise.weight;
        params.dy = dy;
        params.x = x;
        params.parts = args->workspace;
        return CUDA_LAUNCH(backend, plan->fast, plan->fast_dims, &params, diag);
    }
    conv_weight_params params = aligned ? plan->tiles.weight : plan->direct.weight;
    params.dy = dy;
    params.x = x;
    params.parts = args->workspace;
    params.dw = conv_address(args, plan->w_at);
    return CUDA_LAUNCH(backend, aligned ? plan->fast : plan->plain,
                       aligned ? plan->fast_dims : plan->plain_dims, &params, diag);
}

static neap_status run_weight(cuda_backend *backend, const conv_kernel_plan *plan,
                              const run_args *args, neap_diag *diag)
{
    bool aligned = plan->fast && is_aligned(plan, args);
    conv_sum_params sum = plan->sum_params;
    if (aligned)
        sum.n_parts = plan->fast_parts;
    NEAP_TRY(launch_weight(backend, plan, aligned, args, diag));
    if (sum.n_parts == 1 && !(aligned && plan->kernel == CONV_DEPTHWISE))
        return NEAP_OK;
    sum.parts = args->workspace;
    sum.out = conv_address(args, plan->w_at);
    return CUDA_LAUNCH(backend, plan->sum, plan->sum_dims, &sum, diag);
}

neap_status neap_conv_kernel_run(cuda_backend *backend, const conv_kernel_plan *plan,
                                 const run_args *args, neap_diag *diag)
{
    return plan->target == CONV_W ? run_weight(backend, plan, args, diag)
                                  : run_image(backend, plan, args, diag);
}
