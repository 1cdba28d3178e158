/*
 * Batches of matrix products. The matrices of the innermost batch dimension, which lie at even
 * steps, are one product with its variants; other dimensions repeat it.
 */
#include "base/fail.h"
#include "run/backends/cuda/images.h"
#include "run/backends/cuda/matmul.h"
#include "run/batches.h"

#define MOST_BATCHES 65535 /* of one launch */

typedef struct batched_matmul {
    cuda_matmul matmul;
    run_batches batches; /* the last one is the product's */
    int64_t size;        /* bytes of an element */
} batched_matmul;

/* More batches than a launch takes become equal parts of it: the largest that there are. */
static void limit_batches(run_batches *batches)
{
    uint32_t last = batches->rank - 1;
    int64_t extent = batches->extent[last], part = MOST_BATCHES;
    if (extent <= MOST_BATCHES || batches->rank == NEAP_MAX_RANK)
        return;
    while (extent % part != 0)
        part--;
    batches->extent[last] = extent / part;
    batches->extent[last + 1] = part;
    for (int k = 0; k < RUN_BATCH_OPERANDS; k++) {
        batches->stride[last + 1][k] = batches->stride[last][k];
        batches->stride[last][k] *= part;
    }
    batches->rank++;
}

static gemm_axis axis_of(const run_array *array, uint32_t dim)
{
    gemm_axis axis = {.dims = 1, .shape = {array->shape[dim]}};
    axis.strides[0] = array->shape[dim] > 1 ? array->strides[dim] : 0;
    return axis;
}

static cuda_matrix matrix_of(const run_array *array, const run_batches *batches, int operand,
                             bool transposed)
{
    cuda_matrix matrix = {.row = axis_of(array, array->rank - 2),
                          .column = axis_of(array, array->rank - 1),
                          .batch = batches->stride[batches->rank - 1][operand]};
    return transposed ? neap_cuda_transposed(matrix) : matrix;
}

static cuda_matmul_form pose(const run_spec *spec, run_batches *batches)
{
    const run_array *a = &spec->in[0], *b = &spec->in[1], *y = &spec->out[0];
    bool turn_a = neap_run_spec_int(spec, "transpose_a", 0) != 0;
    bool turn_b = neap_run_spec_int(spec, "transpose_b", 0) != 0;
    *batches = neap_run_batches_of(a, b, y);
    limit_batches(batches);
    return (cuda_matmul_form){.product = {.type = neap_cuda_type(spec),
                                          .m = y->shape[y->rank - 2],
                                          .n = y->shape[y->rank - 1],
                                          .k = a->shape[a->rank - (turn_a ? 2 : 1)],
                                          .batches = batches->extent[batches->rank - 1],
                                          .a = matrix_of(a, batches, RUN_BATCH_A, turn_a),
                                          .b = matrix_of(b, batches, RUN_BATCH_B, turn_b),
                                          .d = matrix_of(y, batches, RUN_BATCH_Y, false)}};
}

static neap_status list_matmul(cuda_backend *backend, const run_spec *spec, int64_t *workspaces,
                               uint32_t *count, neap_diag *diag)
{
    run_batches batches;
    cuda_matmul_form form = pose(spec, &batches);
    return neap_cuda_matmul_variants(backend, &form, workspaces, count, diag);
}

static neap_status plan_matmul(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    batched_matmul *made = plan;
    cuda_matmul_form form = pose(spec, &made->batches);
    made->size = neap_dtype_bytes(neap_cuda_type(spec));
    return neap_cuda_matmul_plan(backend, &form, spec->variant, &made->matmul, diag);
}

static neap_status run_matmul(cuda_backend *backend, const void *plan, const run_args *args,
                              neap_diag *diag)
{
    const batched_matmul *made = plan;
    const run_batches *batches = &made->batches;
    int64_t count = 1;
    for (uint32_t d = 0; d + 1 < batches->rank; d++)
        count *= batches->extent[d];
    for (int64_t i = 0; i < count; i++) {
        int64_t at[RUN_BATCH_OPERANDS] = {0}, rest = i;
        for (uint32_t d = batches->rank - 1; d-- > 0; rest /= batches->extent[d])
            for (int k = 0; k < RUN_BATCH_OPERANDS; k++)
                at[k] += rest % batches->extent[d] * batches->stride[d][k] * made->size;
        cuda_addresses addresses = {.a = (const char *)args->in[0] + at[RUN_BATCH_A],
                                    .b = (const char *)args->in[1] + at[RUN_BATCH_B],
                                    .d = (char *)args->out[0] + at[RUN_BATCH_Y]};
        NEAP_TRY(
            neap_cuda_matmul_run(backend, &made->matmul, &addresses, NULL, args->workspace, diag));
    }
    return NEAP_OK;
}

static void clear_matmul(cuda_backend *backend, void *plan)
{
    neap_cuda_matmul_clear(backend, &((batched_matmul *)plan)->matmul);
}

CUDA_OP(matmul, {.plan_bytes = sizeof(batched_matmul),
                 .plan = plan_matmul,
                 .run = run_matmul,
                 .variants = list_matmul,
                 .clear = clear_matmul,
                 .check = neap_cuda_check_one_type})
