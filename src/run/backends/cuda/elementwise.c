/* Elementwise ops: which kernel, and how it walks over its operands. */
#include "run/backends/cuda/kernels/elementwise.h"

#include "run/backends/cuda/walk.h"

#include <math.h>

enum { Y, A, B, COUNTER }; /* operands of the walk */

typedef struct elementwise {
    const cuda_function *function;
    uint32_t operands;
    uint32_t size[WALK_OPERANDS]; /* bytes of an element; 0 of the counter */
    bool has_vectors;
    int width;                 /* elements of a vector */
    walk vectors;              /* if has_vectors; params has the walk over elements */
    int tail;                  /* elements after the vectors */
    elementwise_params params; /* without addresses */
} elementwise;

/* ---- Planning ---- */

/* The array that operand k walks over. A dropout's mask is a result, or the second input. */
static run_array operand(const run_spec *spec, uint32_t k)
{
    if (k == Y)
        return spec->out[0];
    if (k == COUNTER)
        return neap_run_array_counter(&spec->out[0]);
    if (k == B && spec->op->n_outputs > 1)
        return spec->out[1];
    return neap_run_array_repeat(&spec->in[k - A], &spec->out[0]);
}

/* Vectors, where all operands are of type T, or bytes, and go through memory in step. */
static void plan_vectors(elementwise *e)
{
    uint32_t apart = 1u << COUNTER;
    e->vectors = e->params.walk;
    e->params.splat = e->operands > B && e->params.walk.stride[0][B] == 0;
    if (e->params.splat)
        apart |= 1u << B;
    e->has_vectors =
        !e->params.wide && neap_cuda_walk_widen(&e->vectors, e->operands, e->width, apart);
    if (e->has_vectors)
        e->tail = (int)(e->params.walk.units - e->vectors.units * e->width);
}

static neap_status plan_walk(cuda_backend *backend, const run_spec *spec, const char *kernel,
                             elementwise *e, neap_diag *diag)
{
    neap_dtype type = neap_cuda_type(spec);
    run_array arrays[WALK_OPERANDS];
    e->operands = spec->op->n_outputs > 1 ? 4 : 1 + spec->op->n_inputs;
    e->width = 16 / (int)neap_dtype_bytes(type);
    for (uint32_t k = 0; k < e->operands; k++) {
        arrays[k] = operand(spec, k);
        e->size[k] = k == COUNTER ? 0 : (uint32_t)neap_dtype_bytes(arrays[k].dtype);
        if (type == NEAP_BF16 && arrays[k].dtype == NEAP_F32)
            e->params.wide |= k == COUNTER ? 0 : 1u << k;
    }
    neap_cuda_walk_plan(&e->params.walk, e->operands, arrays);
    e->params.step = (u64)e->params.walk.stride[0][COUNTER];
    plan_vectors(e);
    return neap_cuda_find(backend, kernel, type, &e->function, diag);
}

/* ---- Running ---- */

static bool all_aligned(const elementwise *e, const elementwise_params *p)
{
    bool bytes = e->operands > B && e->size[B] == 1;
    uintptr_t mask = (uintptr_t)p->mask | (bytes ? (uintptr_t)p->b : 0);
    bool second = e->operands <= B || bytes || p->splat || cuda_is_aligned(p->b);
    return cuda_is_aligned(p->y) && cuda_is_aligned(p->a) && second &&
           mask % (uintptr_t)e->width == 0;
}

/* Moves the first elements of all operands, if they are there. */
static void advance(const elementwise *e, elementwise_params *p, const int64_t *at)
{
    p->y = (char *)p->y + at[Y] * e->size[Y];
    p->a = (const char *)p->a + at[A] * e->size[A];
    if (p->mask)
        p->mask += at[B];
    else if (p->b)
        p->b = (const char *)p->b + at[B] * e->size[B];
    p->first += (u64)at[COUNTER];
}

static neap_status launch(cuda_backend *backend, const elementwise *e, const elementwise_params *p,
                          neap_diag *diag)
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

static neap_status run(cuda_backend *backend, const void *plan, const run_args *args,
                       neap_diag *diag)
{
    const elementwise *e = plan;
    elementwise_params p = e->params;
    p.y = args->out[0];
    p.a = args->in[0];
    if (e->operands > COUNTER) {
        p.mask = args->out[1];
        p.seed = cuda_seed(args);
    } else if (e->operands > B) {
        p.b = args->in[1];
    }
    if (e->has_vectors && all_aligned(e, &p)) {
        p.walk = e->vectors;
        p.vectors = 1;
        p.tail = e->tail;
    }
    return launch(backend, e, &p, diag);
}

/* ---- Ops ---- */

#define ELEMENTWISE_OP(type)                                                                       \
    CUDA_OP(type, {.plan_bytes = sizeof(elementwise), .plan = plan_##type, .run = run})

#define SIMPLE_OP(type, kernel)                                                                    \
    static neap_status plan_##type(cuda_backend *backend, const run_spec *spec, void *plan,        \
                                   neap_diag *diag)                                                \
    {                                                                                              \
        return plan_walk(backend, spec, kernel, plan, diag);                                       \
    }                                                                                              \
    ELEMENTWISE_OP(type)

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

static neap_status plan_gelu(cuda_backend *backend, const run_spec *spec, void *plan,
                             neap_diag *diag)
{
    bool tanh_form = neap_run_spec_int(spec, "tanh", 0);
    return plan_walk(backend, spec, tanh_form ? "gelu_tanh_forward" : "gelu_forward", plan, diag);
}

static neap_status plan_gelu_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    bool tanh_form = neap_run_spec_int(spec, "tanh", 0);
    return plan_walk(backend, spec, tanh_form ? "gelu_tanh_backward" : "gelu_backward", plan, diag);
}

ELEMENTWISE_OP(gelu)
ELEMENTWISE_OP(gelu_bw)

static neap_status plan_scale(cuda_backend *backend, const run_spec *spec, void *plan,
                              neap_diag *diag)
{
    elementwise *e = plan;
    e->params.p = (float)neap_run_spec_real(spec, "factor", 1);
    e->params.q = (float)neap_run_spec_real(spec, "offset", 0);
    return plan_walk(backend, spec, "scale_elements", e, diag);
}

ELEMENTWISE_OP(scale)

static void set_exponent(elementwise *e, double exponent)
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
    return plan_walk(backend, spec, "power_forward", plan, diag);
}

static neap_status plan_pow_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    elementwise *e = plan;
    double power = neap_run_spec_real(spec, "power", 1);
    e->params.p = (float)power;
    set_exponent(e, power - 1);
    return plan_walk(backend, spec, "power_backward", e, diag);
}

ELEMENTWISE_OP(pow)
ELEMENTWISE_OP(pow_bw)

static neap_status plan_dropout(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    elementwise *e = plan;
    double p = neap_run_spec_real(spec, "p", 0);
    e->params.least = (u32)ceil(p * 0x1p24); /* draws are whole multiples of 2^-24 */
    e->params.q = (float)(1 / (1 - p));
    return plan_walk(backend, spec, "dropout_forward", e, diag);
}

static neap_status plan_dropout_bw(cuda_backend *backend, const run_spec *spec, void *plan,
                                   neap_diag *diag)
{
    elementwise *e = plan;
    e->params.q = (float)(1 / (1 - neap_run_spec_real(spec, "p", 0)));
    return plan_walk(backend, spec, "dropout_backward", e, diag);
}

ELEMENTWISE_OP(dropout)
ELEMENTWISE_OP(dropout_bw)
