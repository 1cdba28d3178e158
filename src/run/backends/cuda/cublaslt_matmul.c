/* Matrix products by cuBLASLt. */
#include "run/backends/cuda/cublaslt_matmul.h"

#include "base/fail.h"
#include "base/memory.h"
#include "run/backends/cuda/libraries.h"

#include <string.h>

#define ALIGNMENT           16  /* of operands, promised to the library */
#define WORKSPACE_ALIGNMENT 256 /* what the library recommends; ours are multiples of 64 */
#define ARENA_ALIGNMENT     64  /* of workspaces */
#define MOST_RESULTS        8   /* of one search */

/* Limits of workspace to search at; the usual one is what NVIDIA recommends for Hopper. */
static const int64_t limits[] = {0, INT64_C(4) << 20, INT64_C(32) << 20, INT64_C(256) << 20};
#define N_LIMITS    (sizeof limits / sizeof *limits)
#define USUAL_LIMIT 2

typedef struct cache_entry {
    cublaslt_problem problem;
    cublaslt_candidate *candidates; /* `count` */
    uint32_t count;
} cache_entry;

struct cublaslt_cache {
    cache_entry *entries;
    size_t count, capacity;
};

static const cuda_api *api_of(const cuda_backend *backend)
{
    return backend->libraries->api;
}

static neap_status fail(const cuda_backend *backend, int status, const char *function,
                        neap_diag *diag)
{
    const char *text = api_of(backend)->cublasLtGetStatusString(status);
    return neap_fail(diag, NEAP_UNSUPPORTED, "cuBLASLt: %s: %s (status %d)", function,
                     text ? text : "unknown", status);
}

/* Calls a function of the library that returns a status. */
#define TRY_LT(backend, function, ...)                                                             \
    do {                                                                                           \
        int status_ = api_of(backend)->function(__VA_ARGS__);                                      \
        if (status_ != LT_SUCCESS)                                                                 \
            return fail(backend, status_, #function, diag);                                        \
    } while (0)

/* ---- Problems ---- */

/* Whether the matrix is column-major with the given axis as its rows. */
static bool is_stored(const gemm_axis *rows, int64_t n_rows, const gemm_axis *columns,
                      int64_t n_columns, int64_t batch, cublaslt_shape *shape)
{
    if (!cuda_axis_is_even(rows) || !cuda_axis_is_even(columns) ||
        (n_rows > 1 && rows->strides[0] != 1) || (n_columns > 1 && columns->strides[0] < n_rows) ||
        n_rows > INT32_MAX || n_columns > INT32_MAX)
        return false;
    *shape = (cublaslt_shape){.rows = n_rows,
                              .columns = n_columns,
                              .ld = n_columns > 1 ? columns->strides[0] : n_rows,
                              .batch = batch};
    return true;
}

/* An operand that enters the product with the given rows and columns, or stored the other way. */
static bool pose_operand(const gemm_axis *rows, int64_t n_rows, const gemm_axis *columns,
                         int64_t n_columns, int64_t batch, cublaslt_shape *shape,
                         int32_t *transpose)
{
    *transpose = LT_OP_N;
    if (is_stored(rows, n_rows, columns, n_columns, batch, shape))
        return true;
    *transpose = LT_OP_T;
    return is_stored(columns, n_columns, rows, n_rows, batch, shape);
}

bool neap_cublaslt_pose(const cuda_product *p, int32_t epilogue, bool tf32,
                        cublaslt_problem *problem)
{
    *problem = (cublaslt_problem){.type = p->type == NEAP_BF16 ? LT_R_16BF : LT_R_32F,
                                  .compute = p->type == NEAP_F32 && tf32 ? LT_COMPUTE_32F_FAST_TF32
                                                                         : LT_COMPUTE_32F,
                                  .epilogue = epilogue,
                                  .batches = (int32_t)p->batches};
    return is_stored(&p->d.column, p->n, &p->d.row, p->m, p->d.batch, &problem->d) &&
           pose_operand(&p->b.column, p->n, &p->b.row, p->k, p->b.batch, &problem->a,
                        &problem->transpose_a) &&
           pose_operand(&p->a.column, p->k, &p->a.row, p->m, p->a.batch, &problem->b,
                        &problem->transpose_b);
}

/* ---- Descriptors ---- */

static neap_status new_layout(cuda_backend *backend, const cublaslt_problem *problem,
                              const cublaslt_shape *shape, cublaslt_layout *layout, neap_diag *diag)
{
    TRY_LT(backend, cublasLtMatrixLayoutCreate, layout, problem->type, (uint64_t)shape->rows,
           (uint64_t)shape->columns, shape->ld);
    if (problem->batches == 1)
        return NEAP_OK;
    TRY_LT(backend, cublasLtMatrixLayoutSetAttribute, *layout, LT_LAYOUT_BATCH_COUNT,
           &problem->batches, sizeof problem->batches);
    TRY_LT(backend, cublasLtMatrixLayoutSetAttribute, *layout, LT_LAYOUT_BATCH_STRIDE,
           &shape->batch, sizeof shape->batch);
    return NEAP_OK;
}

static neap_status set_vector(cuda_backend *backend, cublaslt_desc desc, const void *vector,
                              neap_diag *diag)
{
    TRY_LT(backend, cublasLtMatmulDescSetAttribute, desc, LT_DESC_BIAS_POINTER, &vector,
           sizeof vector);
    return NEAP_OK;
}

static neap_status new_desc(cuda_backend *backend, const cublaslt_problem *problem,
                            cublaslt_desc *desc, neap_diag *diag)
{
    TRY_LT(backend, cublasLtMatmulDescCreate, desc, problem->compute, LT_R_32F);
    TRY_LT(backend, cublasLtMatmulDescSetAttribute, *desc, LT_DESC_TRANSA, &problem->transpose_a,
           sizeof problem->transpose_a);
    TRY_LT(backend, cublasLtMatmulDescSetAttribute, *desc, LT_DESC_TRANSB, &problem->transpose_b,
           sizeof problem->transpose_b);
    TRY_LT(backend, cublasLtMatmulDescSetAttribute, *desc, LT_DESC_EPILOGUE, &problem->epilogue,
           sizeof problem->epilogue);
    if (problem->epilogue == LT_EPILOGUE_DEFAULT)
        return NEAP_OK;
    /* Searches want an address, and rely on its alignment alone; runs set the real one. */
    return set_vector(backend, *desc, (const void *)(uintptr_t)((1 << 20) + ALIGNMENT), diag);
}

neap_status neap_cublaslt_matmul_init(cuda_backend *backend, const cublaslt_problem *problem,
                                      const cublaslt_candidate *candidate, cublaslt_matmul *matmul,
                                      neap_diag *diag)
{
    if (candidate)
        matmul->candidate = *candidate;
    matmul->has_vector = problem->epilogue != LT_EPILOGUE_DEFAULT;
    NEAP_TRY(new_desc(backend, problem, &matmul->desc, diag));
    NEAP_TRY(new_layout(backend, problem, &problem->a, &matmul->a, diag));
    NEAP_TRY(new_layout(backend, problem, &problem->b, &matmul->b, diag));
    return new_layout(backend, problem, &problem->d, &matmul->d, diag);
}

void neap_cublaslt_matmul_clear(cuda_backend *backend, cublaslt_matmul *matmul)
{
    if (matmul->desc)
        api_of(backend)->cublasLtMatmulDescDestroy(matmul->desc);
    if (matmul->a)
        api_of(backend)->cublasLtMatrixLayoutDestroy(matmul->a);
    if (matmul->b)
        api_of(backend)->cublasLtMatrixLayoutDestroy(matmul->b);
    if (matmul->d)
        api_of(backend)->cublasLtMatrixLayoutDestroy(matmul->d);
    *matmul = (cublaslt_matmul){0};
}

/* ---- Searching ---- */

/* How parts of a product may be added up: not in bf16, and not in place, which depends on which
   block comes first. */
static uint32_t schemes_of(const cuda_backend *backend, const cublaslt_problem *problem)
{
    uint32_t any = LT_REDUCTION_COMPUTE_TYPE, f32 = LT_REDUCTION_OUTPUT_TYPE;
    if (backend->nondeterministic)
        f32 |= LT_REDUCTION_INPLACE;
    return problem->type == LT_R_32F ? any | f32 : any;
}

static neap_status new_preference(cuda_backend *backend, const cublaslt_problem *problem,
                                  cublaslt_preference *preference, neap_diag *diag)
{
    uint32_t alignment = ALIGNMENT, schemes = schemes_of(backend, problem);
    TRY_LT(backend, cublasLtMatmulPreferenceCreate, preference);
    TRY_LT(backend, cublasLtMatmulPreferenceSetAttribute, *preference, LT_PREF_REDUCTION_MASK,
           &schemes, sizeof schemes);
    for (int attribute = LT_PREF_MIN_ALIGNMENT_A; attribute <= LT_PREF_MIN_ALIGNMENT_D; attribute++)
        TRY_LT(backend, cublasLtMatmulPreferenceSetAttribute, *preference, attribute, &alignment,
               sizeof alignment);
    return NEAP_OK;
}

/* The preference is not all that is relied upon. */
static bool is_allowed(cuda_backend *backend, const cublaslt_problem *problem,
                       const cublaslt_algo *algo)
{
    uint32_t scheme = 0;
    size_t written;
    int status = api_of(backend)->cublasLtMatmulAlgoConfigGetAttribute(
        algo, LT_CONFIG_REDUCTION, &scheme, sizeof scheme, &written);
    return status == LT_SUCCESS && (scheme & ~schemes_of(backend, problem)) == 0;
}

static bool is_known(const cublaslt_candidate *candidates, uint32_t count,
                     const cublaslt_algo *algo)
{
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(&candidates[i].algo, algo, sizeof *algo) == 0)
            return true;
    return false;
}

/* Appends what a search within a limit finds. */
static neap_status search(cuda_backend *backend, const cublaslt_problem *problem,
                          const cublaslt_matmul *m, cublaslt_preference preference, int64_t limit,
                          cublaslt_candidate *candidates, uint32_t *count, neap_diag *diag)
{
    const cuda_api *api = api_of(backend);
    uint64_t bytes = (uint64_t)limit;
    cublaslt_result results[MOST_RESULTS];
    int found = 0;
    memset(results, 0, sizeof results);
    TRY_LT(backend, cublasLtMatmulPreferenceSetAttribute, preference, LT_PREF_MAX_WORKSPACE, &bytes,
           sizeof bytes);
    int status =
        api->cublasLtMatmulAlgoGetHeuristic(backend->libraries->cublaslt, m->desc, m->a, m->b, m->d,
                                            m->d, preference, MOST_RESULTS, results, &found);
    bool refused = status == LT_INVALID_VALUE && problem->epilogue == LT_EPILOGUE_BGRADB;
    if (status == LT_NOT_SUPPORTED || status == LT_ARCH_MISMATCH || refused)
        return NEAP_OK;
    if (status != LT_SUCCESS)
        return fail(backend, status, "cublasLtMatmulAlgoGetHeuristic", diag);
    for (int i = 0; i < found && i < MOST_RESULTS; i++) {
        const cublaslt_result *r = &results[i];
        if (r->state != LT_SUCCESS || r->workspace > bytes ||
            !is_allowed(backend, problem, &r->algo) || is_known(candidates, *count, &r->algo))
            continue;
        int64_t slack = r->workspace > 0 ? WORKSPACE_ALIGNMENT - ARENA_ALIGNMENT : 0;
        candidates[(*count)++] = (cublaslt_candidate){.algo = r->algo,
                                                      .workspace = (int64_t)r->workspace + slack,
                                                      .waves = r->waves,
                                                      .limit = limit};
    }
    return NEAP_OK;
}

/* The usual limit first, for variant 0. */
static neap_status search_all(cuda_backend *backend, const cublaslt_problem *problem,
                              const cublaslt_matmul *matmul, cublaslt_preference preference,
                              cublaslt_candidate *candidates, uint32_t *count, neap_diag *diag)
{
    uint32_t usual = 0;
    cublaslt_candidate first[MOST_RESULTS];
    NEAP_TRY(
        search(backend, problem, matmul, preference, limits[USUAL_LIMIT], first, &usual, diag));
    if (usual > 0)
        candidates[(*count)++] = first[0];
    for (size_t i = 0; i < N_LIMITS; i++)
        NEAP_TRY(search(backend, problem, matmul, preference, limits[i], candidates, count, diag));
    return NEAP_OK;
}

static neap_status find_candidates(cuda_backend *backend, const cublaslt_problem *problem,
                                   cublaslt_candidate *candidates, uint32_t *count, neap_diag *diag)
{
    cublaslt_matmul matmul = {0};
    cublaslt_preference preference = NULL;
    *count = 0;
    neap_status status = neap_cublaslt_matmul_init(backend, problem, NULL, &matmul, diag);
    if (status == NEAP_OK)
        status = new_preference(backend, problem, &preference, diag);
    if (status == NEAP_OK)
        status = search_all(backend, problem, &matmul, preference, candidates, count, diag);
    if (preference)
        api_of(backend)->cublasLtMatmulPreferenceDestroy(preference);
    neap_cublaslt_matmul_clear(backend, &matmul);
    return status;
}

/* ---- The cache ---- */

void neap_cublaslt_cache_delete(neap_allocator *allocator, cublaslt_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < cache->count; i++)
        NEAP_DELETE(allocator, cache->entries[i].count, cache->entries[i].candidates);
    NEAP_DELETE(allocator, cache->capacity, cache->entries);
    NEAP_DELETE(allocator, 1, cache);
}

static neap_status add_entry(cuda_backend *backend, const cublaslt_problem *problem,
                             neap_diag *diag)
{
    neap_allocator *allocator = backend->base.allocator;
    cublaslt_cache *cache = backend->matmuls;
    cublaslt_candidate found[(N_LIMITS + 1) * MOST_RESULTS];
    cache_entry entry = {.problem = *problem};
    NEAP_TRY(NEAP_RESERVE(allocator, cache->count + 1, &cache->entries, &cache->capacity, diag));
    NEAP_TRY(find_candidates(backend, problem, found, &entry.count, diag));
    NEAP_TRY(NEAP_NEW(allocator, entry.count, &entry.candidates, diag));
    for (uint32_t i = 0; i < entry.count; i++)
        entry.candidates[i] = found[i];
    cache->entries[cache->count++] = entry;
    return NEAP_OK;
}

neap_status neap_cublaslt_candidates(cuda_backend *backend, const cublaslt_problem *problem,
                                     const cublaslt_candidate **candidates, uint32_t *count,
                                     neap_diag *diag)
{
    if (!backend->matmuls)
        NEAP_TRY(NEAP_NEW(backend->base.allocator, 1, &backend->matmuls, diag));
    cublaslt_cache *cache = backend->matmuls;
    size_t i = 0;
    while (i < cache->count && memcmp(&cache->entries[i].problem, problem, sizeof *problem) != 0)
        i++;
    if (i == cache->count)
        NEAP_TRY(add_entry(backend, problem, diag));
    *candidates = cache->entries[i].candidates;
    *count = cache->entries[i].count;
    return NEAP_OK;
}

/* ---- Running ---- */

static void *align_workspace(void *workspace)
{
    uintptr_t address = (uintptr_t)workspace;
    return (char *)workspace +
           (WORKSPACE_ALIGNMENT - address % WORKSPACE_ALIGNMENT) % WORKSPACE_ALIGNMENT;
}

neap_status neap_cublaslt_matmul_run(cuda_backend *backend, const cublaslt_matmul *m,
                                     const cuda_addresses *at, void *vector, void *workspace,
                                     neap_diag *diag)
{
    const float one = 1.0f, zero = 0.0f;
    const cuda_libraries *libraries = backend->libraries;
    size_t bytes = (size_t)m->candidate.workspace;
    if (bytes > 0) {
        workspace = align_workspace(workspace);
        bytes -= WORKSPACE_ALIGNMENT - ARENA_ALIGNMENT;
    } else {
        workspace = NULL;
    }
    if (m->has_vector)
        NEAP_TRY(set_vector(backend, m->desc, vector, diag));
    TRY_LT(backend, cublasLtMatmul, libraries->cublaslt, m->desc, &one, at->b, m->a, at->a, m->b,
           &zero, at->d, m->d, at->d, m->d, &m->candidate.algo, workspace, bytes,
           libraries->stream);
    return NEAP_OK;
}
