/*
 * reduce: sums over leading dimensions. Rows are shared between blocks until there are enough of
 * them for a large device; their sums meet in a second launch.
 */
#include "run/backends/cuda/kernels/reduce.h"
#include "base/fail.h"
#include "run/backends/cuda/walk.h"

#define ENOUGH_BLOCKS 1024
#define LEAST_ROWS    8 /* of a thread */
#define MOST_PARTS    512

typedef struct reduce {
    const cuda_function *columns, *vectors, *join;
    bool has_vectors;
    reduce_params params;
    int64_t blocks, parts;
} reduce;

/* How the sum is divided: by shapes alone. */
typedef struct division {
    int64_t across; /* groups of columns in a block */
    int64_t blocks; /* for all columns */
    int64_t part_rows, parts;
} division;

static division divide(const run_spec *spec)
{
    int64_t width = 16 / neap_dtype_bytes(spec->in[0].dtype);
    int64_t columns = neap_run_array_elements(&spec->out[0]);
    int64_t rows = neap_run_array_elements(&spec->in[0]) / columns;
    int64_t groups = (columns + width - 1) / width, across = 1;
    while (across < groups && across < 32)
        across *= 2;
    int64_t blocks = (groups + across - 1) / across, down = REDUCE_THREADS / across;
    int64_t parts = (ENOUGH_BLOCKS + blocks - 1) / blocks, most = rows / (down * LEAST_ROWS);
    parts = parts < most ? parts : most;
    parts = parts < MOST_PARTS ? parts : MOST_PARTS;
    parts = parts > 1 ? parts : 1;
    int64_t part_rows = (rows + parts - 1) / parts;
    return (division){across, blocks, part_rows, (rows + part_rows - 1) / part_rows};
}

static int64_t workspace(const cuda_backend *backend, const run_spec *spec)
{
    (void)backend;
    int64_t parts = divide(spec).parts;
    int64_t bytes = neap_run_array_elements(&spec->out[0]) * (int64_t)sizeof(float);
    return parts > 1 ? parts * bytes : 0;
}

/* Whether groups of columns are vectors, if addresses allow it. */
static bool has_vectors(const reduce_params *p, int64_t width)
{
    walk groups = p->columns;
    bool multiples = p->columns.units % width == 0;
    for (int d = 0; d < p->rows.rank; d++)
        multiples = multiples && (p->rows.extent[d] == 1 || p->rows.stride[d][0] % width == 0);
    return multiples && neap_cuda_walk_widen(&groups, 2, width, 2);
}

static neap_status plan_reduce(cuda_backend *backend, const run_spec *spec, void *plan,
                               neap_diag *diag)
{
    reduce *r = plan;
    const run_array *dy = &spec->in[0], *dx = &spec->out[0];
    run_array columns = *dx, rows = *dy;
    uint32_t lead = dy->rank - dx->rank;
    for (uint32_t d = 0; d < dx->rank; d++)
        columns.strides[d] = dy->strides[lead + d];
    for (uint32_t d = lead; d < dy->rank; d++)
        rows.shape[d] = 1;
    neap_cuda_walk_plan(&r->params.columns, 2, (run_array[]){columns, *dx});
    neap_cuda_walk_plan(&r->params.rows, 1, &rows);
    division made = divide(spec);
    r->params.part_rows = made.part_rows;
    r->params.across = (i32)made.across;
    r->has_vectors = has_vectors(&r->params, 16 / neap_dtype_bytes(dy->dtype));
    r->blocks = made.blocks;
    r->parts = made.parts;
    neap_status status = neap_cuda_find(backend, "reduce_columns", dy->dtype, &r->columns, diag);
    if (status == NEAP_OK)
        status = neap_cuda_find(backend, "reduce_in_vectors", dy->dtype, &r->vectors, diag);
    return status == NEAP_OK ? neap_cuda_find(backend, "reduce_join", dy->dtype, &r->join, diag)
                             : status;
}

static neap_status run_reduce(cuda_backend *backend, const void *plan, const run_args *args,
                              neap_diag *diag)
{
    const reduce *r = plan;
    reduce_params p = r->params;
    p.x = args->in[0];
    p.y = args->out[0];
    p.partial = r->parts > 1 ? args->workspace : NULL;
    bool vectors = r->has_vectors && cuda_is_aligned(p.x);
    cuda_dims dims = {
        .blocks = (uint32_t)r->blocks, .blocks_y = (uint32_t)r->parts, .threads = REDUCE_THREADS};
    neap_status status = CUDA_LAUNCH(backend, vectors ? r->vectors : r->columns, dims, &p, diag);
    if (status != NEAP_OK || r->parts == 1)
        return status;
    reduce_join_params join = {p.partial, p.y, p.columns, (i32)r->parts};
    int64_t blocks = (p.columns.units + REDUCE_JOIN_COLUMNS - 1) / REDUCE_JOIN_COLUMNS;
    cuda_dims join_dims = {.blocks = (uint32_t)blocks, .threads = REDUCE_THREADS};
    return CUDA_LAUNCH(backend, r->join, join_dims, &join, diag);
}

static neap_status check_sum(const run_spec *spec, neap_diag *diag)
{
    neap_dtype type = spec->in[0].dtype;
    if (type == spec->out[0].dtype && (type == NEAP_F32 || type == NEAP_BF16))
        return NEAP_OK;
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "op \"%s\" (%s): the cuda backend sums f32 to f32 and bf16 to bf16; backend "
                     "ref may do",
                     spec->op->name, spec->op->type);
}

CUDA_OP(reduce, {.plan_bytes = sizeof(reduce),
                 .plan = plan_reduce,
                 .run = run_reduce,
                 .workspace = workspace,
                 .check = check_sum})
