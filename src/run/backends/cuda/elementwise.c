/* Elementwise ops: which kernel, and how it walks over its operands. */
#include "run/backends/cuda/elementwise.h"

#include "run/axes.h"
#include "run/backends/cuda/operands.h"

#include <math.h>

enum { Y, A, B, C, COUNTER = C }; /* operands of the walk */

/* ---- Planning ---- */

/* The array that operand k walks over. A dropout's mask is a result, or the second input. */
static run_array operand(const run_spec *spec, uint32_t k)
{
    if (k == Y)
        return spec->out[0];
    if (k >= B && spec->op->n_outputs > 1)
        return k == B ? spec->out[1] : neap_run_array_counter(&spec->out[0]);
    return neap_run_array_repeat(&spec->in[k - A], &spec->out[0]);
}

/* Vectors, where all operands are of type T, or bytes, and go through memory in step. */
static void plan_vectors(cuda_elementwise *e)
{
    uint32_t apart = e->counts ? 1u << COUNTER : 0;
    bool three = e->operands > C && !e->counts;
    e->vectors = e->params.walk;
    e->params.splat = e->operands > B && !three && e->size[B] > 1 && /* bytes are read one by one */
                      e->params.walk.stride[0][B] == 0;
    if (e->params.splat)
        apart |= 1u << B;
    e->has_vectors =
        !e->params.wide && neap_cuda_walk_widen(&e->vectors, e->operands, e->width, apart);
    if (e->has_vectors)
        e->tail = (int)(e->params.walk.units - e->vectors.units * e->width);
}

neap_status neap_cuda_elementwise_plan(cuda_backend *backend, const run_spec *spec,
                                       const char *kernel, cuda_elementwise *e, neap_diag *diag)
{
    neap_dtype type = neap_cuda_type(spec);
    run_array arrays[WALK_OPERANDS];
    e->counts = spec->op->n_outputs > 1;
    e->operands = e->counts ? COUNTER + 1 : 1 + spec->op->n_inputs;
    e->width = 16 / (int)neap_dtype_bytes(type);
    for (uint32_t k = 0; k < e->operands; k++) {
        arrays[k] = operand(spec, k);
        bool counter = e->counts && k == COUNTER;
        e->size[k] = counter ? 0 : (uint32_t)neap_dtype_bytes(arrays[k].dtype);
        if (type == NEAP_BF16 && arrays[k].dtype == NEAP_F32)
            e->params.wide |= counter ? 0 : 1u << k;
    }
    neap_cuda_walk_plan(&e->params.walk, e->operands, arrays);
    e->params.step = e->counts ? (u64)e->params.walk.stride[0][COUNTER] : 0;
    plan_vectors(e);
    return neap_cuda_find(backend, kernel, type, &e->function, diag);
}

/* ---- Running ---- */

static bool all_aligned(const cuda_elementwise *e, const elementwise_params *p)
{
    bool bytes = e->operands > B && e->size[B] == 1;
    uintptr_t mask = (uintptr_t)p->mask | (bytes ? (uintptr_t)p->b : 0);
    bool second = e->operands <= B || bytes || p->splat || cuda_is_aligned(p->b);
    return cuda_is_aligned(p->y) && cuda_is_aligned(p->a) && second && cuda_is_aligned(p->c) &&
           mask % (uintptr_t)e->width == 0;
}

/* Moves the first elements of all operands, if they are there. */
static void advance(const cuda_elementwise *e, elementwise_params *p, const int64_t *at)
{
    p->y = (char *)p->y + at[Y] * e->size[Y];
    p->a = (const char *)p->a + at[A] * e->size[A];
    if (p->mask)
        p->mask += at[B];
    else if (p->b)
        p->b = (const char *)p->b + at[B] * e->size[B];
    if (e->operands > C && p->c)
        p->c = (const char *)p->c + at[C] * e->size[C];
    if (e->counts)
        p->first += (u64)at[COUNTER];
}

static neap_status launch(cuda_backend *backend, const cuda_elementwise *e,
                          const elementwise_params *p, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    int64_t begin = 0, at[WALK_OPERANDS];
    elementwise_params part = *p;
    if (neap_cuda_walk_fits(&p->walk))
        return CUDA_LAUNCH(backend, e->function, neap_cuda_walk_dims(&p->walk), p, diag);
    while (status == NEAP_OK && neap_cuda_walk_cut(&p->walk, &begin, &part.walk, at)) {
        walk w = part.walk;
        part = *p;
        part.walk = w;
        part.tail = begin == p->walk.extent[p->walk.rank - 1] ? p->tail : 0;
        advance(e, &part, at);
        status = launch(backend, e, &part, diag);
    }
    return status;
}

neap_status neap_cuda_elementwise_run(cuda_backend *backend, const void *plan, const run_args *args,
                                      neap_diag *diag)
{
    const cuda_elementwise *e = plan;
    elementwise_params p = e->params;
    void *const *in = args->in + e->scalar;
    p.y = args->out[0];
    p.a = in[0];
    if (e->counts) {
        p.mask = args->out[1];
        p.seed = cuda_seed(args);
    } else if (e->operands > B) {
        p.b = in[1];
        p.c = e->operands > C ? in[2] : NULL;
    }
    if (e->has_vectors && all_aligned(e, &p)) {
        p.walk = e->vectors;
        p.vectors = 1;
        p.tail = e->tail;
    }
    if (e->scalar)
        p.c = args->in[0];
    return launch(backend, e, &p, diag);
}

/* ---- Ops ---- */

SIMPLE_OP(relu, "relu_forward")
SIMPLE_OP(relu_bw, "relu_backward")
SIMPLE_OP(relu6, "relu6_forward")
SIMPLE_OP(relu6_bw, "relu6_backward")
SIMPLE_OP(sigmoid, "sigmoid_forward")
SIMPLE_OP(sigmoid_bw, "sigmoid_backward")
SIMPLE_OP(tanh, "tanh_forward")
SIMPLE_OP(tanh_bw, "tanh_backward")
SIMPLE_OP(add, "add_elements")
SIMPLE_OP(mul, "mul_elements")
SIMPLE_OP(sub, "sub_elements")
SIMPLE_OP(div, "div_elements")
SIMPLE_OP(div_bw, "div_backward")
SIMPLE_OP(max, "max_elements")
SIMPLE_OP(min, "min_elements")
SIMPLE_OP(prelu, "prelu_forward")
SIMPLE_OP(prelu_bw_data, "prelu_backward_data")
SIMPLE_OP(prelu_bw_weight, "prelu_backward_weight")

static neap_status plan_max_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    cuda_elementwise *e = plan;
    e->params.p = neap_run_spec_int(spec, "of_b", 0) ? -1 : 1;
    return neap_cuda_elementwise_plan(backend, spec, "chosen_backward", e, diag);
}

static neap_status plan_min_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    cuda_elementwise *e = plan;
    e->params.p = neap_run_spec_int(spec, "of_b", 0) ? 1 : -1;
    return neap_cuda_elementwise_plan(backend, spec, "chosen_backward", e, diag);
}

ELEMENTWISE_OP(max_bw)
ELEMENTWISE_OP(min_bw)

static neap_status plan_gelu(cuda_backend *backend, const run_spec *spec, void *plan,
                             neap_diag *diag)
{
    bool tanh_form = neap_run_spec_int(spec, "tanh", 0);
    return neap_cuda_elementwise_plan(backend, spec,
                                      tanh_form ? "gelu_tanh_forward" : "gelu_forward", plan, diag);
}

static neap_status plan_gelu_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    bool tanh_form = neap_run_spec_int(spec, "tanh", 0);
    return neap_cuda_elementwise_plan(
        backend, spec, tanh_form ? "gelu_tanh_backward" : "gelu_backward", plan, diag);
}

ELEMENTWISE_OP(gelu)
ELEMENTWISE_OP(gelu_bw)

static neap_status plan_scale(cuda_backend *backend, const run_spec *spec, void *plan,
                              neap_diag *diag)
{
    cuda_elementwise *e = plan;
    e->params.p = (float)neap_run_spec_real(spec, "factor", 1);
    e->params.q = (float)neap_run_spec_real(spec, "offset", 0);
    return neap_cuda_elementwise_plan(backend, spec, "scale_elements", e, diag);
}

ELEMENTWISE_OP(scale)

/* dy, repeated along the axes of the mean and divided by their extent. */
static neap_status plan_mean_axes_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                     neap_diag *diag)
{
    cuda_elementwise *e = plan;
    run_spread spread = neap_run_spread_of(spec, &spec->in[0], &spec->out[0]);
    run_array repeated = neap_run_spread_repeat(&spread, &spec->out[0]);
    run_spec scaled = *spec;
    scaled.in = &repeated;
    e->params.p = (float)((double)neap_run_array_elements(&spec->in[0]) /
                          (double)neap_run_array_elements(&spec->out[0]));
    return neap_cuda_elementwise_plan(backend, &scaled, "scale_elements", e, diag);
}

ELEMENTWISE_OP(mean_axes_bw)

static void set_exponent(cuda_elementwise *e, double exponent)
{
    e->params.q = (float)exponent;
    e->params.exponent = exponent == 0     ? POWER_0
                         : exponent == 1   ? POWER_1
                         : exponent == 2   ? POWER_2
                         : exponent == 3   ? POWER_3
                         : exponent == 0.5 ? POWER_HALF
                                           : POWER_ANY;
}

static neap_status plan_pow(cuda_backend *backend, const run_spec *spec, void *plan,
                            neap_diag *diag)
{
    set_exponent(plan, neap_run_spec_real(spec, "power", 1));
    return neap_cuda_elementwise_plan(backend, spec, "power_forward", plan, diag);
}

static neap_status plan_pow_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    cuda_elementwise *e = plan;
    double power = neap_run_spec_real(spec, "power", 1);
    e->params.p = (float)power;
    set_exponent(e, power - 1);
    return neap_cuda_elementwise_plan(backend, spec, "power_backward", e, diag);
}

ELEMENTWISE_OP(pow)
ELEMENTWISE_OP(pow_bw)

static neap_status plan_dropout(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    cuda_elementwise *e = plan;
    double p = neap_run_spec_real(spec, "p", 0);
    e->params.least = (u32)ceil(p * 0x1p24); /* draws are whole multiples of 2^-24 */
    e->params.q = (float)(1 / (1 - p));
    return neap_cuda_elementwise_plan(backend, spec, "dropout_forward", e, diag);
}

static neap_status plan_dropout_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                   neap_diag *diag)
{
    cuda_elementwise *e = plan;
    e->params.q = (float)(1 / (1 - neap_run_spec_real(spec, "p", 0)));
    return neap_cuda_elementwise_plan(backend, spec, "dropout_backward", e, diag);
}

/* The first of two choices, or the other. */
static neap_status plan_where_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                 neap_diag *diag)
{
    cuda_elementwise *e = plan;
    e->params.q = 1;
    e->params.other = neap_run_spec_int(spec, "of_b", 0) != 0;
    return neap_cuda_elementwise_plan(backend, spec, "dropout_backward", e, diag);
}

ELEMENTWISE_OP(where_bw)
SIMPLE_OP(where, "where_select")

/* Between f32 and bf16. */
static neap_status check_cast_types(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, spec->in[0].dtype == NEAP_F32, spec->out[0].dtype == NEAP_F32,
                               diag);
}

static neap_status plan_cast(cuda_backend *backend, const run_spec *spec, void *plan,
                             neap_diag *diag)
{
    return neap_cuda_elementwise_plan(backend, spec, "cast_elements", plan, diag);
}

CUDA_OP(cast, {.plan_bytes = sizeof(cuda_elementwise),
               .plan = plan_cast,
               .run = neap_cuda_elementwise_run,
               .check = check_cast_types})

/* The gradient of the loss is in f32, and no operand of the walk. */
static neap_status check_mse_bw_types(const run_spec *spec, neap_diag *diag)
{
    return neap_cuda_check_mix(spec, 1, 0, diag);
}

static neap_status plan_mse_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    cuda_elementwise *e = plan;
    neap_op op = *spec->op;
    run_spec pair = {.op = &op, .in = spec->in + 1, .out = spec->out};
    op.n_inputs = 2;
    e->scalar = true;
    e->params.p = (float)(2 / (double)neap_run_array_elements(&spec->out[0]));
    return neap_cuda_elementwise_plan(backend, &pair, "mse_backward", e, diag);
}

CUDA_OP(mse_bw, {.plan_bytes = sizeof(cuda_elementwise),
                 .plan = plan_mse_bw,
                 .run = neap_cuda_elementwise_run,
                 .check = check_mse_bw_types})

ELEMENTWISE_OP(dropout)
ELEMENTWISE_OP(dropout_bw)
