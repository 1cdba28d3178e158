/* Running one algorithm: packs of addresses for its plan, part by part. */
#include "run/backends/cuda/cudnn_conv.h"

#include "base/fail.h"
#include "base/memory.h"
#include "run/backends/cuda/cudnn_graph.h"

#include <inttypes.h>
#include <string.h>

#define WORKSPACE_ALIGNMENT 256
#define MOST_OPERANDS       4 /* y, x, w, bias */

struct cudnn_conv_run {
    cuda_libraries *libraries;
    cudnn_descriptor plan, next_plan;
    int64_t parts;
    bool needs_workspace, bias;
    conv_operand at[3];                      /* y, x, w */
    int64_t part_bytes[3];                   /* from one part to the next */
    unsigned char *addresses[MOST_OPERANDS]; /* of the latest run, */
    void *workspace;
    cudnn_bag packs; /* and its packs, one for each part: they can be used again as they are */
};

int64_t neap_cudnn_conv_workspace(const cudnn_candidate *candidate)
{
    return candidate->workspace > 0 ? candidate->workspace + WORKSPACE_ALIGNMENT : 0;
}

static int64_t part_bytes(const run_array *image, int64_t parts)
{
    return parts == 1
               ? 0
               : image->shape[0] / parts * image->strides[0] * neap_dtype_bytes(image->dtype);
}

/* One plan of an algorithm: for sums, of the first part or, if it `adds`, of the others. */
static neap_status build_plan(cudnn_conv_list *list, const cudnn_candidate *candidate, bool adds,
                              cudnn_descriptor *plan, neap_diag *diag)
{
    cudnn_bag *bag = &list->bag;
    cudnn_graph_form form = {.parts = candidate->parts, .fused = candidate->fused, .adds = adds};
    cudnn_descriptor graph, config;
    int64_t workspace = 0;
    NEAP_TRY(neap_cudnn_graph(bag, &list->problem, form, &graph, diag));
    NEAP_TRY(neap_cudnn_configure(bag, graph, adds ? &candidate->engine : &candidate->first,
                                  &config, diag));
    NEAP_TRY(neap_cudnn_make_plan(bag, config, plan, &workspace, diag));
    return workspace <= candidate->workspace
               ? NEAP_OK
               : neap_fail(diag, NEAP_UNSUPPORTED,
                           "cuDNN needs %" PRId64
                           " bytes of workspace for an algorithm that needed "
                           "%" PRId64 " when it was listed; remove the folder of cached kernels",
                           workspace, candidate->workspace);
}

/* The plans of an algorithm whose list comes from a file. */
static neap_status build_plans(cudnn_conv_list *list, cudnn_candidate *candidate, neap_diag *diag)
{
    size_t before = list->bag.count;
    bool sums = candidate->parts > 1 && list->problem.target == CONV_W;
    cudnn_descriptor plan = NULL, next_plan = NULL;
    neap_status status = build_plan(list, candidate, false, &plan, diag);
    if (status == NEAP_OK && sums)
        status = build_plan(list, candidate, true, &next_plan, diag);
    if (status != NEAP_OK) {
        neap_cudnn_bag_cut(&list->bag, before);
        return status;
    }
    candidate->plan = plan;
    candidate->next_plan = sums ? next_plan : plan;
    return NEAP_OK;
}

neap_status neap_cudnn_conv_prepare(cudnn_conv_list *list, uint32_t k, cudnn_conv_run **run,
                                    neap_diag *diag)
{
    cudnn_candidate *candidate = &list->items[k];
    const conv_problem *problem = &list->problem;
    cuda_libraries *libraries = list->bag.libraries;
    cudnn_conv_run *made;
    if (!candidate->plan)
        NEAP_TRY(build_plans(list, candidate, diag));
    NEAP_TRY(NEAP_NEW(libraries->allocator, 1, &made, diag));
    made->libraries = libraries;
    made->plan = candidate->plan;
    made->next_plan = candidate->next_plan;
    made->parts = candidate->parts;
    made->needs_workspace = candidate->workspace > 0;
    made->bias = candidate->fused && problem->bias;
    made->at[0] = problem->y_at;
    made->at[1] = problem->x_at;
    made->at[2] = problem->w_at;
    made->part_bytes[0] = part_bytes(&problem->y, candidate->parts);
    made->part_bytes[1] = part_bytes(&problem->x, candidate->parts);
    neap_cudnn_bag_init(&made->packs, made->libraries);
    *run = made;
    return NEAP_OK;
}

void neap_cudnn_conv_delete(cudnn_conv_run *run)
{
    if (!run)
        return;
    neap_cudnn_bag_clear(&run->packs);
    NEAP_DELETE(run->libraries->allocator, 1, run);
}

/* Parts of an image may begin where the whole is aligned and they are not. */
bool neap_cudnn_conv_takes(const cudnn_conv_run *run, const run_args *args)
{
    for (int i = 0; i < 3; i++)
        if (!cuda_is_aligned(conv_address(args, run->at[i])) || run->part_bytes[i] % 16 != 0)
            return false;
    return !run->bias || cuda_is_aligned(args->in[2]);
}

static neap_status make_pack(cudnn_conv_run *run, int64_t part, neap_diag *diag)
{
    static const char what[] = "a pack of addresses";
    static const int64_t uids[MOST_OPERANDS] = {CUDNN_UID_Y, CUDNN_UID_X, CUDNN_UID_W,
                                                CUDNN_UID_BIAS};
    cudnn_bag *bag = &run->packs;
    int64_t count = run->bias ? 4 : 3;
    void *addresses[MOST_OPERANDS];
    cudnn_descriptor pack;
    for (int64_t i = 0; i < count; i++)
        addresses[i] = run->addresses[i] + (i < 3 ? part * run->part_bytes[i] : 0);
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack, diag));
    NEAP_TRY(neap_cudnn_set(bag, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                            count, addresses, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count,
                            uids, what, diag));
    NEAP_TRY(neap_cudnn_set(bag, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                            &run->workspace, what, diag));
    return neap_cudnn_finalize(bag, pack, what, diag);
}

static void *aligned_workspace(const cudnn_conv_run *run, const run_args *args)
{
    uintptr_t at = (uintptr_t)args->workspace;
    if (!run->needs_workspace)
        return NULL;
    return (unsigned char *)args->workspace +
           ((WORKSPACE_ALIGNMENT - at % WORKSPACE_ALIGNMENT) % WORKSPACE_ALIGNMENT);
}

/* Packs for the addresses of this run: those of the latest one if it had the same. */
static neap_status update_packs(cudnn_conv_run *run, const run_args *args, neap_diag *diag)
{
    unsigned char *addresses[MOST_OPERANDS] = {NULL};
    void *workspace = aligned_workspace(run, args);
    neap_status status = NEAP_OK;
    for (int i = 0; i < 3; i++)
        addresses[i] = conv_address(args, run->at[i]);
    if (run->bias)
        addresses[3] = args->in[2];
    if (run->packs.count == (size_t)run->parts && workspace == run->workspace &&
        memcmp(addresses, run->addresses, sizeof addresses) == 0)
        return NEAP_OK;
    neap_cudnn_bag_cut(&run->packs, 0);
    memcpy(run->addresses, addresses, sizeof addresses);
    run->workspace = workspace;
    for (int64_t part = 0; part < run->parts && status == NEAP_OK; part++)
        status = make_pack(run, part, diag);
    if (status != NEAP_OK)
        neap_cudnn_bag_cut(&run->packs, 0);
    return status;
}

neap_status neap_cudnn_conv_run(cudnn_conv_run *run, const run_args *args, neap_diag *diag)
{
    const cuda_api *api = run->libraries->api;
    NEAP_TRY(update_packs(run, args, diag));
    for (int64_t part = 0; part < run->parts; part++) {
        int status = api->cudnnBackendExecute(
            run->libraries->cudnn, part == 0 ? run->plan : run->next_plan, run->packs.items[part]);
        if (status != CUDNN_STATUS_SUCCESS)
            return neap_cudnn_fail(api, status, "a convolution", diag);
    }
    return NEAP_OK;
}
