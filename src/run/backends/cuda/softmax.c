/*
 * Softmax along an axis (kernels/softmax.cu). How many threads share a row depends on shapes and
 * strides alone.
 */
#include "run/backends/cuda/kernels/softmax.h"

#include "run/backends/cuda/images.h"
#include "run/backends/cuda/operands.h"

#define MOST_BLOCKS   8192
#define LONG_ROW      1024 /* elements: from then on a block does a row */
#define FEW_ROWS      2048 /* fewer do not occupy a device with one thread each */
#define LEAST_FOR_ALL 128  /* elements of a row that a warp shares although it lies crosswise */

typedef struct softmax_plan {
    const cuda_function *function;
    softmax_params params; /* without addresses */
} softmax_plan;

static i32 lanes_of(const softmax_params *p)
{
    i32 lanes = 0;
    bool neighbours = p->x_step == 1 && p->out_step == 1;
    if (neighbours && p->length >= LONG_ROW)
        return SOFTMAX_THREADS_LOG2;
    if (neighbours)
        while (lanes < 5 && (4 << lanes) < p->length)
            lanes++;
    else if (p->rows < FEW_ROWS && p->length >= LEAST_FOR_ALL)
        lanes = 5;
    return lanes;
}

static neap_status plan(cuda_backend *backend, const run_spec *spec, bool backward, void *made,
                        neap_diag *diag)
{
    softmax_plan *s = made;
    softmax_params *p = &s->params;
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    const run_array *x = &spec->in[backward], *out = &spec->out[0];
    p->length = out->shape[axis];
    p->rows = neap_run_array_elements(out) / p->length;
    p->x_rows = neap_cuda_row_walk(x, 0, axis);
    p->x_step = neap_cuda_step(x, axis);
    p->out_rows = neap_cuda_row_walk(out, 0, axis);
    p->out_step = neap_cuda_step(out, axis);
    if (backward) {
        p->dy_rows = neap_cuda_row_walk(&spec->in[0], 0, axis);
        p->dy_step = neap_cuda_step(&spec->in[0], axis);
    }
    p->lanes_log2 = lanes_of(p);
    return neap_cuda_find(backend, backward ? "softmax_rows_bw" : "softmax_rows",
                          neap_cuda_type(spec), &s->function, diag);
}

static neap_status plan_softmax(cuda_backend *backend, const run_spec *spec, void *made,
                                neap_diag *diag)
{
    return plan(backend, spec, false, made, diag);
}

static neap_status plan_softmax_bw(cuda_backend *backend, const run_spec *spec, void *made,
                                   neap_diag *diag)
{
    return plan(backend, spec, true, made, diag);
}

static neap_status launch(cuda_backend *backend, const softmax_plan *s, softmax_params *p,
                          neap_diag *diag)
{
    int64_t in_block = SOFTMAX_THREADS >> p->lanes_log2,
            blocks = (p->rows + in_block - 1) / in_block;
    cuda_dims dims = {.blocks = (uint32_t)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS),
                      .threads = SOFTMAX_THREADS};
    return CUDA_LAUNCH(backend, s->function, dims, p, diag);
}

static neap_status run_softmax(cuda_backend *backend, const void *made, const run_args *args,
                               neap_diag *diag)
{
    const softmax_plan *s = made;
    softmax_params p = s->params;
    p.x = args->in[0];
    p.out = args->out[0];
    return launch(backend, s, &p, diag);
}

static neap_status run_softmax_bw(cuda_backend *backend, const void *made, const run_args *args,
                                  neap_diag *diag)
{
    const softmax_plan *s = made;
    softmax_params p = s->params;
    p.dy = args->in[0];
    p.x = args->in[1];
    p.out = args->out[0];
    return launch(backend, s, &p, diag);
}

CUDA_OP(softmax, {.plan_bytes = sizeof(softmax_plan),
                  .plan = plan_softmax,
                  .run = run_softmax,
                  .check = neap_cuda_check_one_type})
CUDA_OP(softmax_bw, {.plan_bytes = sizeof(softmax_plan),
                     .plan = plan_softmax_bw,
                     .run = run_softmax_bw,
                     .check = neap_cuda_check_one_type})
