/*
 * Embedding and its gradient (kernels/embedding.cu).
 *
 * Workspace of the gradient: two arrays of sorted keys and positions, counters of tiles and digits,
 * two sums for each chunk.
 */
#include "base/fail.h"
#include "run/backends/cuda/id_sort.h"
#include "run/backends/cuda/images.h"

#include <stdio.h>

enum { THREADS = 256 };

typedef struct embedding_plan {
    const cuda_function *copy, *copy_vector; /* forward */
    const cuda_function *zero, *zero_vector, *sum, *sum_vector, *join, *join_vector;
    cuda_id_sort sort; /* backward */
    embedding_ids ids;
    run_array rows, table;
    neap_dtype type;
    int64_t width; /* elements of a vector in rows of both; 1: strides do not allow them */
    int64_t zero_width;
    char name[64];
} embedding_plan;

/* ---- Planning ---- */

static bool fits_vectors(const run_array *rows, int64_t width)
{
    uint32_t last = rows->rank - 1;
    for (uint32_t d = 0; d < last; d++)
        if (rows->shape[d] > 1 && rows->strides[d] % width != 0)
            return false;
    return rows->shape[last] % width == 0 && rows->strides[last] == 1;
}

static void plan_rows(cuda_backend *backend, const run_spec *spec, uint32_t ids,
                      const run_array *rows, const run_array *table, embedding_plan *plan)
{
    (void)backend;
    plan->type = neap_cuda_type(spec);
    int64_t width = 16 / neap_dtype_bytes(plan->type);
    plan->ids = neap_cuda_ids(&spec->in[ids], rows, 0);
    plan->rows = *rows;
    plan->table = *table;
    plan->zero_width = fits_vectors(table, width) ? width : 1;
    plan->width = fits_vectors(rows, width) ? plan->zero_width : 1;
    snprintf(plan->name, sizeof plan->name, "%s", spec->op->name);
}

static int64_t step_of(const run_array *array, uint32_t d)
{
    return array->shape[d] > 1 ? array->strides[d] : 0;
}

static embedding_params params_of(const cuda_backend *backend, const embedding_plan *plan,
                                  int64_t rows, int64_t width)
{
    int64_t groups = plan->table.shape[1] / width;
    embedding_params params = {.ids = plan->ids,
                               .row_step = step_of(&plan->rows, plan->rows.rank - 1),
                               .table_row = step_of(&plan->table, 0),
                               .table_step = step_of(&plan->table, 1),
                               .features = plan->table.shape[1],
                               .entries = plan->table.shape[0],
                               .items = rows * groups,
                               .by_groups = neap_cuda_image_divisor(groups),
                               .wide = rows * groups > INT32_MAX,
                               .trouble = backend->platform->trouble};
    return params;
}

static neap_status plan_forward(cuda_backend *backend, const run_spec *spec, void *plan,
                                neap_diag *diag)
{
    embedding_plan *made = plan;
    plan_rows(backend, spec, 0, &spec->out[0], &spec->in[1], made);
    NEAP_TRY(neap_cuda_find(backend, "embedding_forward", made->type, &made->copy, diag));
    return neap_cuda_find(backend, "embedding_forward_vector", made->type, &made->copy_vector,
                          diag);
}

static neap_status plan_backward(cuda_backend *backend, const run_spec *spec, void *plan,
                                 neap_diag *diag)
{
    embedding_plan *made = plan;
    plan_rows(backend, spec, 1, &spec->in[0], &spec->out[0], made);
    const struct {
        const char *name;
        const cuda_function **function;
    } all[] = {{"embedding_zero", &made->zero}, {"embedding_zero_vector", &made->zero_vector},
               {"embedding_sum", &made->sum},   {"embedding_sum_vector", &made->sum_vector},
               {"embedding_join", &made->join}, {"embedding_join_vector", &made->join_vector}};
    NEAP_TRY(neap_cuda_id_sort_plan(backend, &made->ids, made->table.shape[0], &made->sort, diag));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        NEAP_TRY(neap_cuda_find(backend, all[i].name, made->type, all[i].function, diag));
    return NEAP_OK;
}

/* Keys, positions and blocks are counted in 32 bits. */
static neap_status check_sizes(const run_spec *spec, neap_diag *diag)
{
    const run_array *ids = spec->in[0].dtype == NEAP_I64 || spec->in[0].dtype == NEAP_I32
                               ? &spec->in[0]
                               : &spec->in[1];
    const run_array *table = ids == &spec->in[0] ? &spec->in[1] : &spec->out[0];
    NEAP_TRY(neap_cuda_check_one_type(spec, diag));
    if (neap_run_array_elements(ids) > INT32_MAX || table->shape[0] >= INT32_MAX ||
        table->shape[1] > INT32_MAX)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "op \"%s\" (%s): the cuda backend takes less than 2^31 ids, rows and "
                         "columns",
                         spec->op->name, spec->op->type);
    return NEAP_OK;
}

/* ---- Workspace of the gradient ---- */

typedef struct embedding_layout {
    int64_t chunks, partial_row;
    int64_t heads, tails; /* offsets in bytes, behind the sort's workspace */
    int64_t bytes;
} embedding_layout;

static embedding_layout layout_of(int64_t ids, int64_t features)
{
    embedding_layout l = {.chunks = (ids + EMBEDDING_CHUNK - 1) / EMBEDDING_CHUNK,
                          .partial_row = (features + 7) / 8 * 8};
    int64_t sums = (l.chunks * l.partial_row * (int64_t)sizeof(float) + 63) / 64 * 64;
    l.heads = neap_cuda_id_sort_workspace(ids);
    l.tails = l.heads + sums;
    l.bytes = l.tails + sums;
    return l;
}

static int64_t workspace_bytes(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    return layout_of(neap_run_array_elements(&spec->in[1]), spec->out[0].shape[1]).bytes;
}

/* ---- Running ---- */

static neap_status run_forward(cuda_backend *backend, const void *plan, const run_args *args,
                               neap_diag *diag)
{
    const embedding_plan *planned = plan;
    bool vectors =
        planned->width > 1 && cuda_is_aligned(args->in[1]) && cuda_is_aligned(args->out[0]);
    embedding_params params =
        params_of(backend, planned, planned->ids.count, vectors ? planned->width : 1);
    params.ids.at = args->in[0];
    params.table = args->in[1];
    params.rows = args->out[0];
    NEAP_TRY(CUDA_LAUNCH(backend, vectors ? planned->copy_vector : planned->copy,
                         neap_cuda_dims(backend, params.items, THREADS, 0), &params, diag));
    return neap_cuda_check_indices(backend, planned->name, diag);
}

static neap_status zero_table(cuda_backend *backend, const embedding_plan *plan, void *table,
                              neap_diag *diag)
{
    bool vectors = plan->zero_width > 1 && cuda_is_aligned(table);
    embedding_params params =
        params_of(backend, plan, plan->table.shape[0], vectors ? plan->zero_width : 1);
    params.table = table;
    return CUDA_LAUNCH(backend, vectors ? plan->zero_vector : plan->zero,
                       neap_cuda_dims(backend, params.items, THREADS, 4), &params, diag);
}

static neap_status sum_rows(cuda_backend *backend, const embedding_plan *plan,
                            const embedding_layout *layout, const run_args *args,
                            const cuda_sorted_ids *sorted, neap_diag *diag)
{
    unsigned char *workspace = args->workspace;
    bool vectors = plan->width > 1 && cuda_is_aligned(args->in[0]) && cuda_is_aligned(args->out[0]);
    int64_t groups = plan->table.shape[1] / (vectors ? plan->width : 1);
    embedding_sum_params params = {.ids = plan->ids,
                                   .keys = sorted->keys,
                                   .positions = sorted->positions,
                                   .dy = args->in[0],
                                   .dw = args->out[0],
                                   .heads = (float *)(void *)(workspace + layout->heads),
                                   .tails = (float *)(void *)(workspace + layout->tails),
                                   .partial_row = layout->partial_row,
                                   .dy_step = step_of(&plan->rows, plan->rows.rank - 1),
                                   .dw_row = step_of(&plan->table, 0),
                                   .dw_step = step_of(&plan->table, 1),
                                   .features = plan->table.shape[1],
                                   .entries = plan->table.shape[0]};
    uint32_t threads = groups >= THREADS ? THREADS : (uint32_t)(groups + 31) / 32 * 32;
    int64_t blocks_y = (groups + threads - 1) / threads;
    cuda_dims dims = {.blocks = (uint32_t)layout->chunks,
                      .blocks_y = blocks_y < 65535 ? (uint32_t)blocks_y : 65535,
                      .threads = threads};
    NEAP_TRY(CUDA_LAUNCH(backend, vectors ? plan->sum_vector : plan->sum, dims, &params, diag));
    return CUDA_LAUNCH(backend, vectors ? plan->join_vector : plan->join, dims, &params, diag);
}

static neap_status run_backward(cuda_backend *backend, const void *plan, const run_args *args,
                                neap_diag *diag)
{
    const embedding_plan *planned = plan;
    embedding_layout layout = layout_of(planned->ids.count, planned->table.shape[1]);
    cuda_sorted_ids sorted;
    NEAP_TRY(zero_table(backend, planned, args->out[0], diag));
    NEAP_TRY(neap_cuda_id_sort_run(backend, &planned->sort, args->in[1], args->workspace, &sorted,
                                   diag));
    NEAP_TRY(sum_rows(backend, planned, &layout, args, &sorted, diag));
    return neap_cuda_check_indices(backend, planned->name, diag);
}

CUDA_OP(embedding, {.plan_bytes = sizeof(embedding_plan),
                    .plan = plan_forward,
                    .run = run_forward,
                    .check = check_sizes})
CUDA_OP(embedding_bw, {.plan_bytes = sizeof(embedding_plan),
                       .plan = plan_backward,
                       .run = run_backward,
                       .workspace = workspace_bytes,
                       .check = check_sizes})
