/* Matrix products and sums of columns by kernels of our own. */
#include "run/backends/cuda/gemm.h"

#include "base/fail.h"

#define BLOCKS_WANTED   256 /* that keep a device busy; a constant, since it decides about sums */
#define LEAST_CHUNK     256 /* of k, for one of several splits */
#define LEAST_SUM_CHUNK 64  /* rows */
#define MOST_GRID_Y     65535

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t parts(int64_t whole, int64_t part)
{
    return (whole + part - 1) / part;
}

static int elements_of_vector(neap_dtype type)
{
    return 16 / (int)neap_dtype_bytes(type);
}

/* ---- Matrices ---- */

static gemm_axis some_dims(const run_array *array, uint32_t first, uint32_t end)
{
    gemm_axis axis = {.dims = 0};
    for (uint32_t d = first; d < end; d++) {
        if (array->shape[d] == 1)
            continue;
        if (axis.dims > 0 && axis.strides[axis.dims - 1] == array->shape[d] * array->strides[d]) {
            axis.shape[axis.dims - 1] *= array->shape[d];
            axis.strides[axis.dims - 1] = array->strides[d];
            continue;
        }
        axis.shape[axis.dims] = array->shape[d];
        axis.strides[axis.dims] = array->strides[d];
        axis.dims++;
    }
    if (axis.dims == 0)
        axis = (gemm_axis){.dims = 1, .shape = {1}};
    return axis;
}

gemm_axis neap_cuda_rows(const run_array *array)
{
    return some_dims(array, 0, array->rank - 1);
}

gemm_axis neap_cuda_columns(const run_array *array)
{
    return some_dims(array, array->rank - 1, array->rank);
}

cuda_matrix neap_cuda_matrix(const run_array *array)
{
    return (cuda_matrix){.row = neap_cuda_rows(array), .column = neap_cuda_columns(array)};
}

cuda_matrix neap_cuda_transposed(cuda_matrix matrix)
{
    return (cuda_matrix){.row = matrix.column, .column = matrix.row, .batch = matrix.batch};
}

/* Whether vectors along `along` are whole and aligned wherever they begin, if the matrix is. */
static bool suits_vectors(const gemm_axis *along, int64_t extent, const gemm_axis *other,
                          int64_t batch, int width)
{
    if (!cuda_axis_is_even(along) || along->strides[0] != 1 || extent % width != 0 ||
        batch % width != 0)
        return false;
    for (int d = 0; d < other->dims; d++)
        if (other->strides[d] % width != 0)
            return false;
    return true;
}

static neap_status check_axis(const gemm_axis *axis, int64_t extent, neap_diag *diag)
{
    if (axis->dims == 1 || extent <= (int64_t)UINT32_MAX)
        return NEAP_OK;
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "a matrix of %lld rows at no fixed stride is too large for the kernels of the "
                     "cuda backend",
                     (long long)extent);
}

/* ---- Products ---- */

static int tile_of(const cuda_product *product)
{
    int64_t large = parts(product->m, 128) * parts(product->n, 128) * product->batches;
    return large >= BLOCKS_WANTED ? 128 : 64;
}

static int64_t tiles_of(const cuda_product *product, int tile)
{
    return parts(product->m, tile) * parts(product->n, tile);
}

/* Into how many parts k is split: 1 unless there are too few tiles. */
static int64_t splits_of(const cuda_product *product, int64_t most_bytes)
{
    int64_t blocks = tiles_of(product, tile_of(product)) * product->batches;
    if (product->batches > 1 || blocks >= BLOCKS_WANTED / 2)
        return 1;
    int64_t area = product->m * product->n * (int64_t)sizeof(float);
    int64_t splits = at_most(BLOCKS_WANTED / blocks, product->k / LEAST_CHUNK);
    splits = at_most(splits, most_bytes / area);
    return at_least(splits, 1);
}

int64_t neap_cuda_gemm_workspace(const cuda_product *product, int64_t most)
{
    int64_t splits = splits_of(product, most);
    return splits > 1 ? splits * product->m * product->n * (int64_t)sizeof(float) : 0;
}

static gemm_mode mode_of(const gemm_axis *outer, int64_t outers, const gemm_axis *inner,
                         int64_t inners, int64_t batch, int width)
{
    if (suits_vectors(inner, inners, outer, batch, width))
        return GEMM_INNER_VECTORS;
    if (suits_vectors(outer, outers, inner, batch, width))
        return GEMM_OUTER_VECTORS;
    return outer->strides[outer->dims - 1] == 1 ? GEMM_OUTER : GEMM_INNER;
}

/* The same order of elements for addresses that vectors do not suit. */
static int32_t mode_at(int32_t mode, const void *address)
{
    if (cuda_is_aligned(address))
        return mode;
    return mode == GEMM_INNER_VECTORS ? GEMM_INNER : mode == GEMM_OUTER_VECTORS ? GEMM_OUTER : mode;
}

static void set_params(const cuda_product *p, int64_t splits, int tile, gemm_params *params)
{
    int width = elements_of_vector(p->type);
    int64_t depth = GEMM_THREADS * width / tile;
    *params = (gemm_params){
        .a = {.batch = p->a.batch,
              .outer = p->a.row,
              .inner = p->a.column,
              .mode = mode_of(&p->a.row, p->m, &p->a.column, p->k, p->a.batch, width)},
        .b = {.batch = p->b.batch,
              .outer = p->b.column,
              .inner = p->b.row,
              .mode = mode_of(&p->b.column, p->n, &p->b.row, p->k, p->b.batch, width)},
        .dm = p->d.row,
        .dn = p->d.column,
        .d_batch = p->d.batch,
        .bias_stride = p->bias_stride,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .chunk = parts(parts(p->k, splits), depth) * depth,
        .tiles_m = parts(p->m, tile),
        .tiles_n = parts(p->n, tile),
        .vectors = suits_vectors(&p->d.column, p->n, &p->d.row, p->d.batch, 4)};
}

neap_status neap_cuda_gemm_plan(cuda_backend *backend, const cuda_product *product, int64_t most,
                                cuda_gemm *gemm, neap_diag *diag)
{
    int tile = tile_of(product);
    int64_t wanted = splits_of(product, most);
    set_params(product, wanted, tile, &gemm->params);
    gemm->splits = parts(product->k, gemm->params.chunk); /* maybe fewer, none of them empty */
    gemm->dims = (cuda_dims){.blocks = (uint32_t)at_most(tiles_of(product, tile), INT32_MAX),
                             .blocks_y = (uint32_t)gemm->splits,
                             .blocks_z = (uint32_t)product->batches,
                             .threads = GEMM_THREADS};
    NEAP_TRY(check_axis(&product->a.row, product->m, diag));
    NEAP_TRY(check_axis(&product->a.column, product->k, diag));
    NEAP_TRY(check_axis(&product->b.row, product->k, diag));
    NEAP_TRY(check_axis(&product->b.column, product->n, diag));
    NEAP_TRY(check_axis(&product->d.row, product->m, diag));
    NEAP_TRY(check_axis(&product->d.column, product->n, diag));
    NEAP_TRY(neap_cuda_find(backend, "gemm_finish", product->type, &gemm->finish, diag));
    return neap_cuda_find(backend, tile == 128 ? "gemm_tiles_128" : "gemm_tiles_64", product->type,
                          &gemm->tiles, diag);
}

static neap_status finish(cuda_backend *backend, const cuda_function *function,
                          const gemm_finish_params *params, neap_diag *diag)
{
    cuda_dims dims = neap_cuda_dims(backend, params->n, GEMM_THREADS, 0);
    dims.blocks_y = (uint32_t)at_most(params->m, MOST_GRID_Y);
    return CUDA_LAUNCH(backend, function, dims, params, diag);
}

neap_status neap_cuda_gemm_run(cuda_backend *backend, const cuda_gemm *gemm,
                               const cuda_addresses *at, void *workspace, neap_diag *diag)
{
    gemm_params params = gemm->params;
    params.a.at = at->a;
    params.a.mode = mode_at(params.a.mode, at->a);
    params.b.at = at->b;
    params.b.mode = mode_at(params.b.mode, at->b);
    params.d = at->d;
    params.vectors = params.vectors && cuda_is_aligned(at->d);
    params.bias = at->bias;
    if (gemm->splits == 1)
        return CUDA_LAUNCH(backend, gemm->tiles, gemm->dims, &params, diag);
    params.partial = workspace;
    NEAP_TRY(CUDA_LAUNCH(backend, gemm->tiles, gemm->dims, &params, diag));
    gemm_finish_params last = {.partial = workspace,
                               .d = at->d,
                               .dm = params.dm,
                               .dn = params.dn,
                               .bias = at->bias,
                               .bias_stride = params.bias_stride,
                               .m = params.m,
                               .n = params.n,
                               .splits = gemm->splits};
    return finish(backend, gemm->finish, &last, diag);
}

/* ---- Sums of columns ---- */

static int64_t chunks_of(neap_dtype type, int64_t rows, int64_t columns, int64_t most_bytes)
{
    int64_t blocks = parts(columns, GEMM_SUM_LANES * elements_of_vector(type));
    int64_t chunks = at_most(parts(2 * BLOCKS_WANTED, blocks), parts(rows, LEAST_SUM_CHUNK));
    chunks = at_most(chunks, most_bytes / (columns * (int64_t)sizeof(float)));
    chunks = at_most(chunks, MOST_GRID_Y);
    return at_least(chunks, 1);
}

int64_t neap_cuda_column_sums_workspace(neap_dtype type, int64_t rows, int64_t columns,
                                        int64_t most)
{
    int64_t chunks = chunks_of(type, rows, columns, most);
    return chunks > 1 ? chunks * columns * (int64_t)sizeof(float) : 0;
}

neap_status neap_cuda_column_sums_plan(cuda_backend *backend, neap_dtype type, int64_t rows,
                                       int64_t columns, const cuda_matrix *x, int64_t sum_stride,
                                       int64_t most, cuda_column_sums *sums, neap_diag *diag)
{
    int64_t chunk = parts(rows, chunks_of(type, rows, columns, most));
    sums->chunks = parts(rows, chunk);
    sums->can_use_vectors =
        suits_vectors(&x->column, columns, &x->row, 0, elements_of_vector(type));
    sums->params = (gemm_sums_params){.row = x->row,
                                      .column = x->column,
                                      .rows = rows,
                                      .columns = columns,
                                      .chunk = chunk,
                                      .vectors = elements_of_vector(type),
                                      .sum_stride = sum_stride};
    NEAP_TRY(check_axis(&x->row, rows, diag));
    NEAP_TRY(check_axis(&x->column, columns, diag));
    NEAP_TRY(neap_cuda_find(backend, "gemm_finish", type, &sums->finish, diag));
    return neap_cuda_find(backend, "gemm_column_sums", type, &sums->sum, diag);
}

neap_status neap_cuda_column_sums_run(cuda_backend *backend, const cuda_column_sums *sums,
                                      const void *x, void *to, void *workspace, neap_diag *diag)
{
    gemm_sums_params params = sums->params;
    int64_t width = sums->params.vectors;
    if (!sums->can_use_vectors || !cuda_is_aligned(x))
        width = params.vectors = 0;
    params.x = x;
    params.sums = to;
    params.partial = sums->chunks > 1 ? workspace : NULL;
    cuda_dims dims = {.blocks = (uint32_t)at_most(
                          parts(params.columns, GEMM_SUM_LANES * at_least(width, 1)), INT32_MAX),
                      .blocks_y = (uint32_t)sums->chunks,
                      .threads = GEMM_SUM_LANES * GEMM_SUM_STRANDS};
    NEAP_TRY(CUDA_LAUNCH(backend, sums->sum, dims, &params, diag));
    if (sums->chunks == 1)
        return NEAP_OK;
    gemm_finish_params last = {.partial = workspace,
                               .d = to,
                               .dm = {.dims = 1},
                               .dn = {.dims = 1, .strides = {params.sum_stride}},
                               .m = 1,
                               .n = params.columns,
                               .splits = sums->chunks};
    return finish(backend, sums->finish, &last, diag);
}
