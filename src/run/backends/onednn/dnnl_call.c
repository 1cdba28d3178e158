/* Kernels on oneDNN's primitives. */
#include "run/backends/onednn/dnnl_call.h"

#include "base/fail.h"
#include "base/memory.h"

#define ALIGNMENT 64

typedef struct call_operand {
    bool is_result;
    uint32_t index;
    int64_t place;               /* in the workspace, of the copy; -1: used where it lies */
    dnnl_api_primitive *reorder; /* makes or takes the copy, unless its rows are uneven */
    dnnl_api_primitive *adder;   /* the same for a result that every part adds to */
    int64_t part_bytes;          /* from one part of it to the next; 0: it has no parts */
    bool uneven;
    omp_rows rows;
} call_operand;

typedef struct call {
    run_kernel base;
    neap_allocator *allocator;
    int threads;
    int64_t parts;
    dnnl_api_primitive *primitive;
    call_operand operands[DNNL_OPERAND_SCRATCH];
    bool used[DNNL_OPERAND_SCRATCH];
    int64_t scratch; /* place in the workspace, shared by all primitives and the bias */
    int64_t workspace;
    dnnl_bias_work bias_work;
    omp_rows bias_rows;
} call;

static void destroy(run_kernel *self)
{
    call *made = (call *)self;
    for (int i = 0; i < DNNL_OPERAND_SCRATCH; i++) {
        neap_dnnl_api_destroy(made->operands[i].reorder);
        neap_dnnl_api_destroy(made->operands[i].adder);
    }
    neap_dnnl_api_destroy(made->primitive);
    NEAP_DELETE(made->allocator, 1, made);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t reserve(int64_t *end, int64_t bytes)
{
    int64_t place = *end;
    *end += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return place;
}

/* The layout of one part of an operand of ours. */
static dnnl_layout part_of(const dnnl_choice *choice, dnnl_operand operand)
{
    dnnl_layout part = choice->sources[operand].ours;
    if (operand == DNNL_OPERAND_SRC || operand == DNNL_OPERAND_DST)
        part.shape[0] /= choice->parts;
    return part;
}

/* Gives an operand a place in the workspace if the primitive wants it to lie otherwise, or if parts
   must be added up. */
static neap_status place_operand(call *made, const dnnl_choice *choice, dnnl_operand operand,
                                 neap_diag *diag)
{
    const dnnl_source *source = &choice->sources[operand];
    call_operand *placed = &made->operands[operand];
    *placed = (call_operand){.is_result = source->is_result,
                             .index = source->index,
                             .place = -1,
                             .uneven = source->uneven,
                             .rows = source->rows};
    made->used[operand] = choice->problem.operands[operand].rank > 0;
    if (!made->used[operand])
        return NEAP_OK;
    const dnnl_layout part = part_of(choice, operand);
    bool has_parts = operand == DNNL_OPERAND_SRC || operand == DNNL_OPERAND_DST;
    bool adds = choice->parts > 1 && source->is_result && !has_parts;
    if (choice->parts > 1 && has_parts)
        placed->part_bytes = part.shape[0] * part.strides[0] * (int64_t)sizeof(float);
    if (!adds && !source->uneven && neap_dnnl_api_lies(made->primitive, operand, &part))
        return NEAP_OK;
    placed->place = reserve(&made->workspace, neap_dnnl_api_bytes(made->primitive, operand));
    if (source->uneven)
        return NEAP_OK;
    neap_status status = neap_dnnl_api_describe_reorder(
        made->primitive, operand, &part, source->is_result ? DNNL_COPY_OUT : DNNL_COPY_IN,
        &placed->reorder, diag);
    if (status == NEAP_OK && adds)
        status = neap_dnnl_api_describe_reorder(made->primitive, operand, &part, DNNL_COPY_ADD,
                                                &placed->adder, diag);
    return status;
}

static int64_t scratch_of(const dnnl_api_primitive *primitive)
{
    return primitive ? neap_dnnl_api_bytes(primitive, DNNL_OPERAND_SCRATCH) : 0;
}

static neap_status place_all(call *made, const dnnl_choice *choice, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    int64_t scratch = scratch_of(made->primitive);
    for (int i = 0; i < DNNL_OPERAND_SCRATCH && status == NEAP_OK; i++) {
        status = place_operand(made, choice, (dnnl_operand)i, diag);
        scratch = larger(scratch, scratch_of(made->operands[i].reorder));
        scratch = larger(scratch, scratch_of(made->operands[i].adder));
    }
    if (made->bias_work == DNNL_BIAS_SUM)
        scratch = larger(scratch, neap_omp_rows_sum_bytes(&made->bias_rows, made->threads));
    made->scratch = reserve(&made->workspace, scratch);
    return status;
}

static neap_status describe(neap_backend *backend, const dnnl_choice *choice, call **kernel,
                            neap_diag *diag)
{
    call *made;
    neap_status status = NEAP_NEW(backend->allocator, 1, &made, diag);
    if (status != NEAP_OK)
        return status;
    made->base.destroy = destroy;
    made->allocator = backend->allocator;
    made->threads = backend->threads;
    made->parts = choice->parts;
    made->bias_work = choice->bias_work;
    made->bias_rows = choice->bias_rows;
    status = neap_dnnl_api_describe(onednn_api(backend), &choice->problem, choice->implementation,
                                    &made->primitive, diag);
    if (status == NEAP_OK && !made->primitive)
        status = neap_fail(diag, NEAP_UNSUPPORTED, "oneDNN has no kernel for op \"%s\"",
                           choice->problem.name);
    if (status == NEAP_OK)
        status = place_all(made, choice, diag);
    if (status == NEAP_OK)
        *kernel = made;
    else
        destroy(&made->base);
    return status;
}

neap_status neap_dnnl_call_workspace(neap_backend *backend, const dnnl_choice *choice,
                                     int64_t *bytes, neap_diag *diag)
{
    call *made;
    neap_status status = describe(backend, choice, &made, diag);
    if (status == NEAP_OK) {
        *bytes = made->workspace;
        destroy(&made->base);
    }
    return status;
}

/* ---- Running ---- */

/* A call without workspace has no address to offset. */
static char *at(const run_args *args, int64_t place)
{
    return args->workspace ? (char *)args->workspace + place : NULL;
}

/* The library takes operands and results alike as void *; it writes to results only. */
static void *address(const call_operand *operand, const run_args *args, int64_t part)
{
    union {
        const void *read;
        void *write;
    } either;
    if (operand->is_result)
        either.write = args->out[operand->index];
    else
        either.read = args->in[operand->index];
    return (char *)either.write + part * operand->part_bytes;
}

static neap_status copy(const call *made, const call_operand *operand, const run_args *args,
                        int64_t part, neap_diag *diag)
{
    void *ours = address(operand, args, part), *theirs = at(args, operand->place);
    if (operand->uneven) {
        neap_omp_rows_copy(&operand->rows, made->threads, ours, theirs, !operand->is_result);
        return NEAP_OK;
    }
    void *addresses[DNNL_OPERANDS] = {
        [DNNL_OPERAND_SRC] = operand->is_result ? theirs : ours,
        [DNNL_OPERAND_DST] = operand->is_result ? ours : theirs,
        [DNNL_OPERAND_SCRATCH] = at(args, made->scratch),
    };
    return neap_dnnl_api_run(part > 0 && operand->adder ? operand->adder : operand->reorder,
                             addresses, diag);
}

/* Copies operands in or results out. What has no parts is copied in once. */
static neap_status copy_all(const call *made, bool results, const run_args *args, int64_t part,
                            neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (int i = 0; i < DNNL_OPERAND_SCRATCH && status == NEAP_OK; i++) {
        const call_operand *operand = &made->operands[i];
        if (made->used[i] && operand->place >= 0 && operand->is_result == results &&
            (results || part == 0 || operand->part_bytes))
            status = copy(made, operand, args, part, diag);
    }
    return status;
}

static neap_status run_part(const call *made, const run_args *args, int64_t part, neap_diag *diag)
{
    void *addresses[DNNL_OPERANDS] = {[DNNL_OPERAND_SCRATCH] = at(args, made->scratch)};
    for (int i = 0; i < DNNL_OPERAND_SCRATCH; i++)
        if (made->used[i])
            addresses[i] = made->operands[i].place < 0 ? address(&made->operands[i], args, part)
                                                       : at(args, made->operands[i].place);
    neap_status status = copy_all(made, false, args, part, diag);
    if (status == NEAP_OK)
        status = neap_dnnl_api_run(made->primitive, addresses, diag);
    if (status == NEAP_OK)
        status = copy_all(made, true, args, part, diag);
    return status;
}

static neap_status run(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    const call *made = (const call *)self;
    neap_status status = NEAP_OK;
    for (int64_t part = 0; part < made->parts && status == NEAP_OK; part++)
        status = run_part(made, args, part, diag);
    if (status == NEAP_OK && made->bias_work == DNNL_BIAS_ADD)
        neap_omp_rows_add(&made->bias_rows, made->threads, args->out[0], args->in[2]);
    else if (status == NEAP_OK && made->bias_work == DNNL_BIAS_SUM)
        neap_omp_rows_sum(&made->bias_rows, made->threads, args->in[0], args->out[1],
                          at(args, made->scratch));
    return status;
}

neap_status neap_dnnl_call_prepare(neap_backend *backend, const dnnl_choice *choice,
                                   run_kernel **kernel, neap_diag *diag)
{
    call *made;
    neap_status status = describe(backend, choice, &made, diag);
    if (status != NEAP_OK)
        return status;
    made->base.run = run;
    for (int i = 0; i < DNNL_OPERAND_SCRATCH && status == NEAP_OK; i++) {
        if (made->operands[i].reorder)
            status = neap_dnnl_api_compile(made->operands[i].reorder, diag);
        if (status == NEAP_OK && made->operands[i].adder)
            status = neap_dnnl_api_compile(made->operands[i].adder, diag);
    }
    if (status == NEAP_OK)
        status = neap_dnnl_api_compile(made->primitive, diag);
    if (status == NEAP_OK)
        *kernel = &made->base;
    else
        destroy(&made->base);
    return status;
}
