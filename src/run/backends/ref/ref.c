/* The reference backend: operands come in as doubles, results are rounded on the way out. */
#include "run/backends/ref/ref.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/half.h"
#include "base/memory.h"
#include "graph/network_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct ref_backend {
    neap_backend base;
    double *scratch; /* the operands of the kernel that runs; as large as any prepared one needs */
    size_t scratch_capacity;
} ref_backend;

typedef struct ref_kernel {
    run_kernel base;
    ref_backend *backend;
    neap_arena arena; /* of all that follows, and of this struct's lists */
    ref_function *function;
    neap_op op;           /* a copy: name, type, counts and attributes */
    run_array *in, *out;  /* op.n_inputs, op.n_outputs */
    int64_t *limits;      /* per input: its integers are below; 0: not integers */
    bool *updated;        /* per input: the op overwrites it */
    ref_tensor *in_dense; /* the same as dense doubles; addresses are set when it runs */
    ref_tensor *out_dense;
} ref_kernel;

static ref_function *const functions[] = {
#define X(type) neap_ref_##type,
#include "graph/ops.def"
#undef X
};

/* ---- For kernels ---- */

int64_t neap_ref_int(const ref_call *call, const char *name)
{
    return neap_run_spec_int(&(run_spec){.op = call->op}, name, 0);
}

double neap_ref_real(const ref_call *call, const char *name)
{
    return neap_run_spec_real(&(run_spec){.op = call->op}, name, 0);
}

int64_t neap_ref_extent(const ref_tensor *x, uint32_t first, uint32_t last)
{
    int64_t extent = 1;
    for (uint32_t d = first; d < last; d++)
        extent *= x->shape[d];
    return extent;
}

/* ---- Integers ---- */

static bool is_integer(neap_dtype dtype)
{
    return dtype == NEAP_I64 || dtype == NEAP_I32 || dtype == NEAP_U8;
}

static neap_status check_integers(const ref_kernel *kernel, uint32_t i, neap_diag *diag)
{
    const ref_tensor *x = &kernel->in_dense[i];
    for (int64_t k = 0; kernel->limits[i] && k < x->n; k++)
        if (x->at[k] < 0 || x->at[k] >= (double)kernel->limits[i])
            return neap_fail(diag, NEAP_INVALID,
                             "op \"%s\" (%s): element %lld of its input %u is %.0f; it must be "
                             "from 0 to %lld",
                             kernel->op.name, kernel->op.type, (long long)k, i, x->at[k],
                             (long long)kernel->limits[i] - 1);
    return NEAP_OK;
}

/* ---- Between memory and doubles ---- */

/* One row of an array: `count` elements, `stride` apart, from element `begin` on. */
typedef void row_function(void *memory, int64_t begin, int64_t stride, int64_t count, double *row);

#define GATHER(type)                                                                               \
    static void gather_##type(void *memory, int64_t begin, int64_t stride, int64_t count,          \
                              double *row)                                                         \
    {                                                                                              \
        const type *from = (const type *)memory + begin;                                           \
        for (int64_t i = 0; i < count; i++)                                                        \
            row[i] = (double)from[i * stride];                                                     \
    }

#define SCATTER(type)                                                                              \
    static void scatter_##type(void *memory, int64_t begin, int64_t stride, int64_t count,         \
                               double *row)                                                        \
    {                                                                                              \
        type *to = (type *)memory + begin;                                                         \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i * stride] = (type)row[i];                                                         \
    }

GATHER(float)
GATHER(double)
GATHER(int64_t)
GATHER(int32_t)
GATHER(uint8_t)
SCATTER(float)
SCATTER(double)
SCATTER(int64_t)
SCATTER(int32_t)
SCATTER(uint8_t)

#define HALF(type)                                                                                 \
    static void gather_##type(void *memory, int64_t begin, int64_t stride, int64_t count,          \
                              double *row)                                                         \
    {                                                                                              \
        const uint16_t *from = (const uint16_t *)memory + begin;                                   \
        for (int64_t i = 0; i < count; i++)                                                        \
            row[i] = (double)neap_from_##type(from[i * stride]);                                   \
    }                                                                                              \
    static void scatter_##type(void *memory, int64_t begin, int64_t stride, int64_t count,         \
                               double *row)                                                        \
    {                                                                                              \
        uint16_t *to = (uint16_t *)memory + begin;                                                 \
        for (int64_t i = 0; i < count; i++)                                                        \
            to[i * stride] = neap_to_##type((float)row[i]);                                        \
    }

HALF(bf16)
HALF(f16)

static row_function *row_function_of(neap_dtype dtype, bool gather)
{
    switch (dtype) {
    case NEAP_F32:
        return gather ? gather_float : scatter_float;
    case NEAP_F64:
        return gather ? gather_double : scatter_double;
    case NEAP_BF16:
        return gather ? gather_bf16 : scatter_bf16;
    case NEAP_F16:
        return gather ? gather_f16 : scatter_f16;
    case NEAP_I64:
        return gather ? gather_int64_t : scatter_int64_t;
    case NEAP_I32:
        return gather ? gather_int32_t : scatter_int32_t;
    default:
        return gather ? gather_uint8_t : scatter_uint8_t;
    }
}

/* Goes through the array's rows in row-major order. */
static void copy_array(const run_array *array, void *memory, double *dense, bool gather)
{
    row_function *row = row_function_of(array->dtype, gather);
    uint32_t last = array->rank - 1;
    if (neap_run_array_is_plain(array)) {
        row(memory, 0, 1, neap_run_array_elements(array), dense);
        return;
    }
    int64_t at[NEAP_MAX_RANK] = {0}, begin = 0, rows = 1;
    for (uint32_t d = 0; d < last; d++)
        rows *= array->shape[d];
    for (int64_t r = 0; r < rows; r++) {
        row(memory, begin, array->strides[last], array->shape[last], dense);
        dense += array->shape[last];
        for (uint32_t d = last; d-- > 0;) {
            begin += array->strides[d];
            if (++at[d] < array->shape[d])
                break;
            begin -= at[d] * array->strides[d];
            at[d] = 0;
        }
    }
}

/* ---- Running ---- */

/* Everything is read before anything is written, so results may lie on operands. */
static neap_status ref_run_kernel(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    const ref_kernel *kernel = (const ref_kernel *)self;
    double *free_scratch = kernel->backend->scratch;
    for (uint32_t i = 0; i < kernel->op.n_inputs; i++) {
        ref_tensor *x = &kernel->in_dense[i];
        x->at = free_scratch;
        free_scratch += x->n;
        copy_array(&kernel->in[i], args->in[i], x->at, true);
        neap_status status = check_integers(kernel, i, diag);
        if (status != NEAP_OK)
            return status;
    }
    for (uint32_t i = 0; i < kernel->op.n_outputs; i++) {
        ref_tensor *x = &kernel->out_dense[i];
        x->at = free_scratch;
        free_scratch += x->n;
        memset(x->at, 0, (size_t)x->n * sizeof *x->at);
    }
    kernel->function(&(ref_call){
        .op = &kernel->op, .in = kernel->in_dense, .out = kernel->out_dense, .seed = args->seed});
    for (uint32_t i = 0; i < kernel->op.n_outputs; i++)
        copy_array(&kernel->out[i], args->out[i], kernel->out_dense[i].at, false);
    for (uint32_t i = 0; i < kernel->op.n_inputs; i++)
        if (kernel->updated[i])
            copy_array(&kernel->in[i], args->in[i], kernel->in_dense[i].at, false);
    return NEAP_OK;
}

static void ref_destroy(run_kernel *self)
{
    ref_kernel *kernel = (ref_kernel *)self;
    neap_arena_clear(&kernel->arena);
    NEAP_DELETE(kernel->backend->base.allocator, 1, kernel);
}

/* ---- Preparing ---- */

static bool ref_supports_op(neap_backend *backend, const run_spec *spec, neap_diag *diag)
{
    (void)backend;
    return neap_run_check_op(spec, diag) == NEAP_OK;
}

static neap_status ref_variants(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                                uint32_t *count, neap_diag *diag)
{
    if (!ref_supports_op(backend, spec, diag))
        return NEAP_UNSUPPORTED;
    workspaces[0] = 0;
    *count = 1;
    return NEAP_OK;
}

/* False without memory. */
static bool copy_op(ref_kernel *kernel, const neap_op *op)
{
    neap_attr *attrs = neap_arena_copy(&kernel->arena, op->attrs, op->n_attrs, sizeof *attrs);
    bool good = attrs != NULL;
    for (uint32_t i = 0; good && i < op->n_attrs; i++) {
        attrs[i].name = neap_arena_text(&kernel->arena, attrs[i].name, strlen(attrs[i].name));
        good = attrs[i].name != NULL;
    }
    kernel->op = (neap_op){.name = neap_arena_text(&kernel->arena, op->name, strlen(op->name)),
                           .type = neap_arena_text(&kernel->arena, op->type, strlen(op->type)),
                           .n_inputs = op->n_inputs,
                           .n_outputs = op->n_outputs,
                           .random = op->random,
                           .n_attrs = op->n_attrs,
                           .attrs = attrs};
    return good && kernel->op.name && kernel->op.type;
}

/* Tensors like the arrays; adds their elements to *elements. NULL without memory. */
static ref_tensor *tensors_like(neap_arena *arena, const run_array *arrays, uint32_t count,
                                size_t *elements)
{
    ref_tensor *tensors = neap_arena_alloc(arena, count, sizeof *tensors);
    for (uint32_t i = 0; tensors && i < count; i++) {
        tensors[i].dtype = arrays[i].dtype;
        tensors[i].rank = arrays[i].rank;
        memcpy(tensors[i].shape, arrays[i].shape, sizeof tensors[i].shape);
        tensors[i].n = neap_run_array_elements(&arrays[i]);
        *elements += (size_t)tensors[i].n;
    }
    return tensors;
}

static neap_status fill_kernel(ref_kernel *kernel, const run_spec *spec, neap_diag *diag)
{
    neap_arena *arena = &kernel->arena;
    uint32_t n_in = spec->op->n_inputs, n_out = spec->op->n_outputs;
    size_t elements = 0;
    kernel->function = functions[neap_op_def_index(spec->op->type)];
    kernel->in = neap_arena_copy(arena, spec->in, n_in, sizeof *spec->in);
    kernel->out = neap_arena_copy(arena, spec->out, n_out, sizeof *spec->out);
    kernel->limits = neap_arena_alloc(arena, n_in, sizeof *kernel->limits);
    kernel->updated = neap_arena_alloc(arena, n_in, sizeof *kernel->updated);
    kernel->in_dense = tensors_like(arena, spec->in, n_in, &elements);
    kernel->out_dense = tensors_like(arena, spec->out, n_out, &elements);
    if (!copy_op(kernel, spec->op) || !kernel->in || !kernel->out || !kernel->limits ||
        !kernel->updated || !kernel->in_dense || !kernel->out_dense)
        return neap_fail_no_memory(diag);
    for (uint32_t i = 0; i < n_in && spec->op->n_updates > 0; i++)
        for (uint32_t k = 0; k < spec->op->n_updates; k++)
            kernel->updated[i] |= spec->op->updates[k] == spec->op->inputs[i];
    for (uint32_t i = 0; i < n_in; i++)
        kernel->limits[i] = is_integer(spec->in[i].dtype) ? neap_run_integer_limit(spec, i) : 0;
    return NEAP_RESERVE(kernel->backend->base.allocator, elements, &kernel->backend->scratch,
                        &kernel->backend->scratch_capacity, diag);
}

static neap_status ref_prepare(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                               neap_diag *diag)
{
    ref_kernel *made;
    if (!ref_supports_op(backend, spec, diag))
        return NEAP_UNSUPPORTED;
    if (spec->variant != 0)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "op \"%s\" (%s): the ref backend has one variant, not number %u",
                         spec->op->name, spec->op->type, spec->variant);
    neap_status status = NEAP_NEW(backend->allocator, 1, &made, diag);
    if (status != NEAP_OK)
        return status;
    made->base = (run_kernel){ref_run_kernel, ref_destroy};
    made->backend = (ref_backend *)backend;
    neap_arena_init(&made->arena, backend->allocator);
    status = fill_kernel(made, spec, diag);
    if (status == NEAP_OK)
        *kernel = &made->base;
    else
        ref_destroy(&made->base);
    return status;
}

static neap_status ref_open(neap_allocator *allocator, const neap_backend_options *options,
                            neap_backend **backend, neap_diag *diag)
{
    ref_backend *made;
    (void)options;
    neap_status status = NEAP_NEW(allocator, 1, &made, diag);
    if (status != NEAP_OK)
        return status;
    snprintf(made->base.machine, sizeof made->base.machine, "ref");
    *backend = &made->base;
    return NEAP_OK;
}

static void ref_close(neap_backend *backend)
{
    ref_backend *ref = (ref_backend *)backend;
    NEAP_DELETE(backend->allocator, ref->scratch_capacity, ref->scratch);
    NEAP_DELETE(backend->allocator, 1, ref);
}

const run_backend_type neap_run_backend_ref = {
    .name = "ref",
    .summary = "every op as its definition reads, in double precision: what others are checked by",
    .open = ref_open,
    .close = ref_close,
    .supports_op = ref_supports_op,
    .variants = ref_variants,
    .prepare = ref_prepare,
};
