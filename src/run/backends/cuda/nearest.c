/* Resizing to the nearest pixel (kernels/nearest.cu): a table of sources, then the pixels. */
#include "run/backends/cuda/kernels/nearest.h"
#include "base/fail.h"
#include "run/backends/cuda/images.h"
#include "run/backends/cuda/walk.h"
#include "run/nearest.h"

typedef struct nearest_plan {
    const cuda_function *table, *pixels;
    nearest_table_params sources; /* without addresses */
    nearest_params params;
    int64_t size; /* bytes of an element */
} nearest_plan;

/* An array in the shape of an image that has a step along one dimension alone. */
static run_array along(const run_array *image, uint32_t dim)
{
    run_array numbers = *image;
    for (uint32_t d = 0; d < image->rank; d++)
        numbers.strides[d] = d == dim;
    return numbers;
}

static void plan_table(const run_spec *spec, const run_array *small, const run_array *large,
                       nearest_plan *plan)
{
    for (uint32_t which = 0; which < 2; which++) {
        run_nearest n = run_nearest_of(spec, small, large, which);
        plan->sources.from[which] = n.from;
        plan->sources.to[which] = n.to;
        plan->sources.scale[which] = n.scale;
        plan->sources.half_pixel = n.half_pixel;
        plan->sources.round = n.round;
    }
}

static neap_status plan_pixels(cuda_backend *backend, const run_spec *spec, const char *kernel,
                               nearest_plan *plan, neap_diag *diag)
{
    const run_array *from = &spec->in[0], *to = &spec->out[0];
    nearest_params *p = &plan->params;
    run_array corner = *to;
    for (uint32_t d = 0; d < 4; d++)
        corner.strides[d] = d < 2 ? from->strides[d] : 0;
    neap_cuda_walk_plan(&p->walk, 4, (run_array[]){*to, corner, along(to, 2), along(to, 3)});
    p->rows = plan->sources.to[0];
    p->columns = plan->sources.to[1];
    p->from_row = from->strides[2];
    p->from_column = from->strides[3];
    plan->size = neap_dtype_bytes(neap_cuda_type(spec));
    NEAP_TRY(neap_cuda_find(backend, "nearest_table", neap_cuda_type(spec), &plan->table, diag));
    return neap_cuda_find(backend, kernel, neap_cuda_type(spec), &plan->pixels, diag);
}

static neap_status plan_resize_nearest(cuda_backend *backend, const run_spec *spec, void *plan,
                                       neap_diag *diag)
{
    plan_table(spec, &spec->in[0], &spec->out[0], plan);
    return plan_pixels(backend, spec, "nearest_forward", plan, diag);
}

static neap_status plan_resize_nearest_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                          neap_diag *diag)
{
    plan_table(spec, &spec->out[0], &spec->in[0], plan);
    return plan_pixels(backend, spec, "nearest_backward", plan, diag);
}

static int64_t workspace_of(const run_array *large)
{
    return (large->shape[2] + large->shape[3]) * (int64_t)sizeof(i32);
}

static int64_t forward_workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    return workspace_of(&spec->out[0]);
}

static int64_t backward_workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    return workspace_of(&spec->in[0]);
}

static neap_status launch(cuda_backend *backend, const nearest_plan *plan, const nearest_params *p,
                          neap_diag *diag)
{
    int64_t begin = 0, at[WALK_OPERANDS];
    nearest_params part = *p;
    if (neap_cuda_walk_fits(&p->walk))
        return CUDA_LAUNCH(backend, plan->pixels, neap_cuda_walk_dims(&p->walk), p, diag);
    while (neap_cuda_walk_cut(&p->walk, &begin, &part.walk, at)) {
        part.to = (char *)p->to + at[0] * plan->size;
        part.from = (const char *)p->from + at[1] * plan->size;
        part.first_row = p->first_row + at[2];
        part.first_column = p->first_column + at[3];
        NEAP_TRY(launch(backend, plan, &part, diag));
    }
    return NEAP_OK;
}

static neap_status run_nearest_pixels(cuda_backend *backend, const void *planned,
                                      const run_args *args, neap_diag *diag)
{
    const nearest_plan *plan = planned;
    nearest_table_params table = plan->sources;
    nearest_params p = plan->params;
    table.sources = args->workspace;
    p.sources = args->workspace;
    p.from = args->in[0];
    p.to = args->out[0];
    cuda_dims dims = neap_cuda_dims(backend, p.rows + p.columns, 256, 0);
    NEAP_TRY(CUDA_LAUNCH(backend, plan->table, dims, &table, diag));
    return launch(backend, plan, &p, diag);
}

CUDA_OP(resize_nearest, {.plan_bytes = sizeof(nearest_plan),
                         .plan = plan_resize_nearest,
                         .run = run_nearest_pixels,
                         .workspace = forward_workspace,
                         .check = neap_cuda_check_images})
CUDA_OP(resize_nearest_bw, {.plan_bytes = sizeof(nearest_plan),
                            .plan = plan_resize_nearest_bw,
                            .run = run_nearest_pixels,
                            .workspace = backward_workspace,
                            .check = neap_cuda_check_images})
