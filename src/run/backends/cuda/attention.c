/*
 * Attention and its gradient: on tensor cores for heads of up to 128 features if elements are bf16,
 * or f32 may be rounded to tf32 (kernels/attention_mma.cuh); otherwise, or where a block of the
 * device has too little shared memory, in f32 arithmetic (kernels/attention.cu). Which one does not
 * depend on addresses: the same bytes give the same bits.
 */
#include "run/backends/cuda/kernels/attention.h"
#include "base/fail.h"
#include "run/backends/cuda/cuda.h"

#include <math.h>
#include <stdio.h>

#define TILE_BYTES   ((uint32_t)(ATTENTION_TILE * ATTENTION_TILE * sizeof(float)))
#define SYSTEM_BYTES 1024 /* of a block's shared memory, on some devices */

/* A kernel, how many of the rows each block has, and its shared memory. */
typedef struct attention_kernel {
    const cuda_function *function; /* NULL: not needed */
    uint32_t rows, shared, chunks;
} attention_kernel;

typedef struct attention_plan {
    attention_kernel forward;   /* of the op */
    const cuda_function *inner; /* of its gradient, as the others; NULL where only dv is wanted */
    attention_kernel dq, dkv;
    attention_params params; /* without addresses */
    bool packed;
    bool wants[3];   /* dq, dk, dv */
    int64_t element; /* bytes */
} attention_plan;

/* ---- Shapes ---- */

/* Strides are arbitrary where the extent is 1. */
static int64_t stride(const run_array *array, uint32_t dim)
{
    return array->shape[dim] == 1 ? dim == 2 : array->strides[dim];
}

static attention_operand operand_of(const run_array *array)
{
    return (attention_operand){
        .batch = stride(array, 0), .row = stride(array, 1), .step = stride(array, 2)};
}

/* q, k and v are three arrays, or one that packs them. */
static neap_status plan_shape(const run_spec *spec, const run_array *q, bool packed,
                              const run_array *lse, attention_plan *plan, neap_diag *diag)
{
    attention_params *p = &plan->params;
    const run_array *k = packed ? q : q + 1;
    double dropout = neap_run_spec_real(spec, "dropout", 0);
    int64_t heads = neap_run_spec_int(spec, "heads", 1), longest = q->shape[1];
    if (k->shape[1] > longest)
        longest = k->shape[1];
    if (longest > INT32_MAX - 256 || longest * heads > INT32_MAX ||
        q->shape[0] > INT32_MAX / (longest * heads))
        return neap_fail(diag, NEAP_UNSUPPORTED, "op \"%s\" (%s): too many rows", spec->op->name,
                         spec->op->type);
    p->batch = (i32)q->shape[0];
    p->heads = (i32)heads;
    p->queries = (i32)q->shape[1];
    p->keys = (i32)k->shape[1];
    p->width = (i32)(q->shape[2] / (packed ? 3 : 1) / heads);
    p->causal = neap_run_spec_int(spec, "causal", 0) != 0;
    p->scale = (float)(1 / sqrt((double)p->width));
    p->scale_2 = (float)(1.4426950408889634 / sqrt((double)p->width));
    p->least = (u32)ceil(dropout * 0x1p24);
    p->keep = (float)(1 / (1 - dropout));
    p->q = operand_of(q);
    p->k = operand_of(k);
    p->lse_batch = stride(lse, 0);
    p->lse_head = stride(lse, 1);
    p->lse_row = stride(lse, 2);
    plan->packed = packed;
    plan->element = neap_dtype_bytes(neap_cuda_type(spec));
    return NEAP_OK;
}

/* ---- Which kernels ---- */

/* Features that a head's rows are padded to; 0: not on tensor cores. */
static uint32_t padded_width(const cuda_backend *backend, const attention_plan *plan)
{
    uint32_t width = (uint32_t)(plan->params.width + 31) / 32 * 32;
    bool may = plan->element == 2 || backend->tf32;
    return may && width <= 128 ? width : 0;
}

static bool has_room(const cuda_backend *backend, uint32_t shared)
{
    return shared + SYSTEM_BYTES <= backend->platform->shared_bytes;
}

/* `suffix`: of the kernel's name. On tensor cores each warp has `tiles` tiles of 16 rows and the
   block `shared` bytes, or `tight` with one tile; elsewhere the block has `squares` tiles of 64 x
   64 floats, for which every device has room. */
static neap_status find(cuda_backend *backend, const attention_plan *plan, const char *suffix,
                        uint32_t tiles, uint32_t shared, uint32_t tight, uint32_t squares,
                        attention_kernel *kernel, neap_diag *diag)
{
    char name[40];
    uint32_t width = padded_width(backend, plan), rows = 16 * ATTENTION_WARPS;
    neap_dtype type = plan->element == 2 ? NEAP_BF16 : NEAP_F32;
    if (width && has_room(backend, shared)) {
        snprintf(name, sizeof name, "attention_%u%s", width, suffix);
        *kernel = (attention_kernel){NULL, rows * tiles, shared, 1};
    } else if (width * (uint32_t)plan->element == ATTENTION_TIGHT_ROW && has_room(backend, tight)) {
        snprintf(name, sizeof name, "attention_tight%s", suffix);
        *kernel = (attention_kernel){NULL, rows, tight, 1};
    } else {
        snprintf(name, sizeof name, "attention_any_head%s", suffix);
        *kernel = (attention_kernel){NULL, ATTENTION_TILE, squares * TILE_BYTES,
                                     (uint32_t)(plan->params.width + ATTENTION_TILE - 1) /
                                         ATTENTION_TILE};
    }
    return neap_cuda_find(backend, name, type, &kernel->function, diag);
}

static neap_status find_forward(cuda_backend *backend, attention_plan *plan, neap_diag *diag)
{
    uint32_t row = padded_width(backend, plan) * (uint32_t)plan->element;
    uint32_t tiles = ATTENTION_FORWARD_TILES(row);
    return find(backend, plan, "", tiles, ATTENTION_FORWARD_SHARED(row, tiles),
                ATTENTION_FORWARD_SHARED(row, 1), 3, &plan->forward, diag);
}

static neap_status find_dq(cuda_backend *backend, attention_plan *plan, neap_diag *diag)
{
    uint32_t row = padded_width(backend, plan) * (uint32_t)plan->element;
    uint32_t tiles = ATTENTION_DQ_TILES(row);
    return find(backend, plan, "_dq", tiles, ATTENTION_BACKWARD_SHARED(row, tiles),
                ATTENTION_BACKWARD_SHARED(row, 1), 4, &plan->dq, diag);
}

static neap_status find_dkv(cuda_backend *backend, attention_plan *plan, neap_diag *diag)
{
    uint32_t width = padded_width(backend, plan), row = width * (uint32_t)plan->element;
    uint32_t tiles = ATTENTION_DKV_TILES(width);
    return find(backend, plan, "_dkv", tiles, ATTENTION_BACKWARD_SHARED(row, tiles),
                ATTENTION_BACKWARD_SHARED(row, 1), 5, &plan->dkv, diag);
}

/* ---- Plans ---- */

static neap_status plan_forward(cuda_backend *backend, const run_spec *spec, void *made,
                                neap_diag *diag)
{
    attention_plan *plan = made;
    bool packed = spec->op->n_inputs == 1;
    neap_status status = plan_shape(spec, &spec->in[0], packed, &spec->out[1], plan, diag);
    if (status != NEAP_OK)
        return status;
    plan->params.v = packed ? plan->params.q : operand_of(&spec->in[2]);
    plan->params.o = operand_of(&spec->out[0]);
    return find_forward(backend, plan, diag);
}

/* Reads (do, qkv, o, lse), (do, q, k, v, o, lse), or (do, q, k, lse) where only dv is wanted. */
static void plan_gradients(const run_spec *spec, attention_plan *plan)
{
    static const char *const names[3] = {"wants_dq", "wants_dk", "wants_dv"};
    attention_params *p = &plan->params;
    attention_operand *gradients[3] = {&p->dq, &p->dk, &p->dv};
    uint32_t count = 0;
    p->d_o = operand_of(&spec->in[0]);
    for (int i = 0; i < 3; i++) {
        plan->wants[i] =
            plan->packed || spec->op->n_outputs == 3 || neap_run_spec_int(spec, names[i], 0) != 0;
        if (plan->wants[i])
            *gradients[i] = operand_of(&spec->out[plan->packed ? 0 : count++]);
    }
    if (plan->wants[0] || plan->wants[1]) {
        p->v = plan->packed ? p->q : operand_of(&spec->in[3]);
        p->o = operand_of(&spec->in[spec->op->n_inputs - 2]);
    }
}

static neap_status plan_backward(cuda_backend *backend, const run_spec *spec, void *made,
                                 neap_diag *diag)
{
    attention_plan *plan = made;
    const run_array *q = &spec->in[1];
    neap_status status = plan_shape(spec, q, q->shape[2] != spec->in[0].shape[2],
                                    &spec->in[spec->op->n_inputs - 1], plan, diag);
    if (status != NEAP_OK)
        return status;
    plan_gradients(spec, plan);
    if (plan->wants[0] || plan->wants[1])
        status =
            neap_cuda_find(backend, "attention_inner", neap_cuda_type(spec), &plan->inner, diag);
    if (status == NEAP_OK && plan->wants[0])
        status = find_dq(backend, plan, diag);
    if (status == NEAP_OK && (plan->wants[1] || plan->wants[2]))
        status = find_dkv(backend, plan, diag);
    return status;
}

/* do . o of every row; not where only dv is wanted. */
static int64_t backward_workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    const run_array *lse = &spec->in[spec->op->n_inputs - 1];
    bool only_dv = spec->op->n_inputs == 4 && spec->in[1].shape[2] == spec->in[0].shape[2];
    return only_dv ? 0 : neap_run_array_elements(lse) * (int64_t)sizeof(float);
}

/* ---- Runs ---- */

/* With 16-byte vectors, rows of heads must begin at multiples of them. `part`: 0 to 2 of a packed
   array. */
static void place(const attention_plan *plan, attention_operand *x, void *address, int64_t part)
{
    const attention_params *p = &plan->params;
    int64_t vector = 16 / plan->element;
    x->at = (char *)address + part * p->heads * p->width * x->step * plan->element;
    x->vectors = cuda_is_aligned(x->at) && x->step == 1 && x->row % vector == 0 &&
                 x->batch % vector == 0 && p->width % vector == 0;
}

/* Places q, k and v, or their gradients: three addresses, or one where they are packed. */
static void place_three(const attention_plan *plan, attention_operand *x[3], void *const *addresses)
{
    for (int i = 0; i < 3; i++)
        place(plan, x[i], addresses[plan->packed ? 0 : i], plan->packed ? i : 0);
}

/* On the tiles of so many rows of each head. */
static neap_status launch(cuda_backend *backend, const attention_kernel *kernel,
                          const attention_params *p, uint32_t rows, neap_diag *diag)
{
    cuda_dims dims = {
        .blocks = (rows + kernel->rows - 1) / kernel->rows * (uint32_t)(p->batch * p->heads),
        .blocks_y = kernel->chunks,
        .threads = ATTENTION_THREADS,
        .dynamic_shared = kernel->shared,
    };
    return CUDA_LAUNCH(backend, kernel->function, dims, p, diag);
}

static neap_status run_forward(cuda_backend *backend, const void *planned, const run_args *args,
                               neap_diag *diag)
{
    const attention_plan *plan = planned;
    attention_params p = plan->params;
    place_three(plan, (attention_operand *[3]){&p.q, &p.k, &p.v}, args->in);
    place(plan, &p.o, args->out[0], 0);
    p.lse = args->out[1];
    p.seed = cuda_seed(args);
    return launch(backend, &plan->forward, &p, (uint32_t)p.queries, diag);
}

/* The addresses of what the gradient reads; p.v and p.o only if it does. */
static void place_backward(const attention_plan *plan, const run_args *args, attention_params *p)
{
    attention_operand *gradients[3] = {&p->dq, &p->dk, &p->dv};
    uint32_t last = plan->packed ? 3 : plan->inner ? 5 : 3, count = 0;
    void *const *q = args->in + 1;
    place(plan, &p->d_o, args->in[0], 0);
    if (plan->inner) {
        place_three(plan, (attention_operand *[3]){&p->q, &p->k, &p->v}, q);
        place(plan, &p->o, args->in[last - 1], 0);
    } else {
        place(plan, &p->q, q[0], 0);
        place(plan, &p->k, q[1], 0);
    }
    p->lse = args->in[last];
    p->inner = plan->inner ? args->workspace : NULL;
    p->seed = cuda_seed(args);
    for (int i = 0; i < 3; i++)
        if (plan->packed)
            place(plan, gradients[i], args->out[0], i);
        else if (plan->wants[i])
            place(plan, gradients[i], args->out[count++], 0);
}

static neap_status run_backward(cuda_backend *backend, const void *planned, const run_args *args,
                                neap_diag *diag)
{
    const attention_plan *plan = planned;
    attention_params p = plan->params;
    neap_status status = NEAP_OK;
    place_backward(plan, args, &p);
    if (plan->inner)
        status = CUDA_LAUNCH(
            backend, plan->inner,
            neap_cuda_dims(backend, (int64_t)p.batch * p.queries * p.heads * 8, 256, 0), &p, diag);
    if (status == NEAP_OK && plan->dkv.function)
        status = launch(backend, &plan->dkv, &p, (uint32_t)p.keys, diag);
    if (status == NEAP_OK && plan->dq.function)
        status = launch(backend, &plan->dq, &p, (uint32_t)p.queries, diag);
    return status;
}

/* ---- Types ---- */

/* All of one type but for the log-sum-exps, which are f32. */
static neap_status check_arrays(const run_spec *spec, const run_array *lse, neap_diag *diag)
{
    const neap_op *op = spec->op;
    neap_status status = neap_cuda_check_types(spec, diag);
    neap_dtype type = neap_cuda_type(spec);
    bool alike = lse->dtype == NEAP_F32;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        alike &= &spec->in[i] == lse || spec->in[i].dtype == type;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        alike &= &spec->out[i] == lse || spec->out[i].dtype == type;
    if (status == NEAP_OK && !alike)
        status = neap_fail(diag, NEAP_UNSUPPORTED,
                           "op \"%s\" (%s): its operands have several types", op->name, op->type);
    return status;
}

static neap_status check_forward(const run_spec *spec, neap_diag *diag)
{
    return check_arrays(spec, &spec->out[1], diag);
}

static neap_status check_backward(const run_spec *spec, neap_diag *diag)
{
    return check_arrays(spec, &spec->in[spec->op->n_inputs - 1], diag);
}

CUDA_OP(attention, {.plan_bytes = sizeof(attention_plan),
                    .plan = plan_forward,
                    .run = run_forward,
                    .check = check_forward})
CUDA_OP(attention_bw, {.plan_bytes = sizeof(attention_plan),
                       .plan = plan_backward,
                       .run = run_backward,
                       .workspace = backward_workspace,
                       .check = check_backward})
