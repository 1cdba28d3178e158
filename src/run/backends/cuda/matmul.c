/* Matrix products and their variants. */
#include "run/backends/cuda/matmul.h"

#include "base/fail.h"
#include "run/backends/cuda/libraries.h"

typedef struct matmul_choices {
    cublaslt_problem plain, summing;
    const cublaslt_candidate *of_plain, *of_summing;
    uint32_t n_plain, n_summing;
} matmul_choices;

static uint32_t at_most(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What the library offers; room is left for our own. */
static neap_status find_choices(cuda_backend *backend, const cuda_matmul_form *form,
                                matmul_choices *choices, neap_diag *diag)
{
    const cuda_product *p = &form->product;
    choices->n_plain = choices->n_summing = 0;
    if (!backend->libraries || !backend->libraries->cublaslt)
        return NEAP_OK;
    if ((!p->bias || p->bias_stride == 1) &&
        neap_cublaslt_pose(p, p->bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_DEFAULT, backend->tf32,
                           &choices->plain))
        NEAP_TRY(neap_cublaslt_candidates(backend, &choices->plain, &choices->of_plain,
                                          &choices->n_plain, diag));
    if (form->sums && form->sum_stride == 1 &&
        neap_cublaslt_pose(p, LT_EPILOGUE_BGRADB, backend->tf32, &choices->summing))
        NEAP_TRY(neap_cublaslt_candidates(backend, &choices->summing, &choices->of_summing,
                                          &choices->n_summing, diag));
    choices->n_plain = at_most(choices->n_plain, RUN_MOST_VARIANTS - 1);
    choices->n_summing = at_most(choices->n_summing, RUN_MOST_VARIANTS - 1 - choices->n_plain);
    return NEAP_OK;
}

static int64_t sums_workspace(const cuda_matmul_form *form, int64_t most)
{
    const cuda_product *p = &form->product;
    return form->sums ? neap_cuda_column_sums_workspace(p->type, p->k, p->m, most) : 0;
}

/* Launches follow each other and may share their workspace. */
static int64_t own_workspace(const cuda_matmul_form *form)
{
    return larger(neap_cuda_gemm_workspace(&form->product, INT64_MAX),
                  sums_workspace(form, INT64_MAX));
}

static int64_t workspace_of(const cuda_matmul_form *form, const matmul_choices *choices,
                            uint32_t variant)
{
    if (variant < choices->n_plain)
        return larger(choices->of_plain[variant].workspace, sums_workspace(form, INT64_MAX));
    if (variant < choices->n_plain + choices->n_summing)
        return choices->of_summing[variant - choices->n_plain].workspace;
    return own_workspace(form);
}

neap_status neap_cuda_matmul_variants(cuda_backend *backend, const cuda_matmul_form *form,
                                      int64_t *workspaces, uint32_t *count, neap_diag *diag)
{
    matmul_choices choices;
    NEAP_TRY(find_choices(backend, form, &choices, diag));
    *count = choices.n_plain + choices.n_summing + 1;
    for (uint32_t i = 0; i < *count; i++)
        workspaces[i] = workspace_of(form, &choices, i);
    return NEAP_OK;
}

/* Our own kernels, within the workspace of the variant. */
static neap_status plan_own(cuda_backend *backend, const cuda_matmul_form *form, int64_t workspace,
                            cuda_matmul *matmul, neap_diag *diag)
{
    const cuda_product *p = &form->product;
    cuda_matrix columns = neap_cuda_transposed(p->a);
    NEAP_TRY(neap_cuda_gemm_plan(backend, p, workspace, &matmul->own, diag));
    if (!form->sums)
        return NEAP_OK;
    return neap_cuda_column_sums_plan(backend, p->type, p->k, p->m, &columns, form->sum_stride,
                                      workspace, &matmul->own_sums, diag);
}

neap_status neap_cuda_matmul_plan(cuda_backend *backend, const cuda_matmul_form *form,
                                  uint32_t variant, cuda_matmul *matmul, neap_diag *diag)
{
    matmul_choices choices;
    NEAP_TRY(find_choices(backend, form, &choices, diag));
    uint32_t n_library = choices.n_plain + choices.n_summing;
    if (variant > n_library)
        return neap_fail(diag, NEAP_INVALID,
                         "a matrix product has %u variants on this machine: there is no variant %u",
                         n_library + 1, variant);
    bool summing = variant >= choices.n_plain;
    matmul->sums = form->sums;
    matmul->bias = form->product.bias;
    matmul->library = variant < n_library;
    matmul->vector = matmul->library && (summing || form->product.bias);
    NEAP_TRY(plan_own(backend, form, workspace_of(form, &choices, variant), matmul, diag));
    if (!matmul->library)
        return NEAP_OK;
    return neap_cublaslt_matmul_init(backend, summing ? &choices.summing : &choices.plain,
                                     summing ? &choices.of_summing[variant - choices.n_plain]
                                             : &choices.of_plain[variant],
                                     &matmul->by_library, diag);
}

void neap_cuda_matmul_clear(cuda_backend *backend, cuda_matmul *matmul)
{
    if (matmul->library)
        neap_cublaslt_matmul_clear(backend, &matmul->by_library);
}

neap_status neap_cuda_matmul_run(cuda_backend *backend, const cuda_matmul *matmul,
                                 const cuda_addresses *at, void *sums, void *workspace,
                                 neap_diag *diag)
{
    bool aligned = cuda_is_aligned(at->a) && cuda_is_aligned(at->b) && cuda_is_aligned(at->d);
    /* The bias to add or where its gradient goes: the library takes one or the other. */
    void *vector = matmul->sums ? sums : (void *)(uintptr_t)at->bias;
    bool by_library = matmul->library && aligned && (!matmul->vector || cuda_is_aligned(vector));
    if (matmul->sums && !(by_library && matmul->vector))
        NEAP_TRY(
            neap_cuda_column_sums_run(backend, &matmul->own_sums, at->a, sums, workspace, diag));
    if (by_library)
        return neap_cublaslt_matmul_run(backend, &matmul->by_library, at, vector, workspace, diag);
    return neap_cuda_gemm_run(backend, &matmul->own, at, workspace, diag);
}

/* ---- Batches ---- */

static cuda_matrix batched(const cuda_batched_matrix *matrix)
{
    cuda_matrix made = {.row = {.dims = 1, .strides = {matrix->ld}},
                        .column = {.dims = 1, .strides = {1}},
                        .batch = matrix->stride};
    return matrix->transposed ? neap_cuda_transposed(made) : made;
}

cuda_matmul_form neap_cuda_batched_matmul(neap_dtype type, int64_t batches, int64_t m, int64_t n,
                                          int64_t k, cuda_batched_matrix a, cuda_batched_matrix b,
                                          cuda_batched_matrix d)
{
    return (cuda_matmul_form){.product = {.type = type,
                                          .m = m,
                                          .n = n,
                                          .k = k,
                                          .batches = batches,
                                          .a = batched(&a),
                                          .b = batched(&b),
                                          .d = batched(&d)}};
}
