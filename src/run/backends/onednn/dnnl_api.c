/*
 * oneDNN 2 and 3. The releases differ in two ways: memory descriptors are structs in 2 and objects
 * in 3, and what to compute is a descriptor of its own in 2 that an iterator is made from.
 */
#include "run/backends/onednn/dnnl_api.h"

#include "base/fail.h"
#include "base/memory.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

struct dnnl_api {
    neap_allocator *allocator;
    int threads;
    char version[24];
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

struct dnnl_api_primitive {
    dnnl_api *api;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t compiled;
    dnnl_query_t queries[DNNL_OPERANDS]; /* dnnl_query_undef: there is no such operand */
    int arguments[DNNL_OPERANDS];
    dnnl_memory_t memories[DNNL_OPERANDS];
};

/* The library's number of threads is the calling thread's setting in OpenMP: ours for the time of a
   call. */
static int use_threads(int threads)
{
    int before = omp_get_max_threads();
    if (before != threads)
        omp_set_num_threads(threads);
    return before;
}

static neap_status status_of(dnnl_status_t status, const char *what, neap_diag *diag)
{
    switch (status) {
    case dnnl_success:
        return NEAP_OK;
    case dnnl_out_of_memory:
        return neap_fail_no_memory(diag);
    case dnnl_unimplemented:
        return neap_fail(diag, NEAP_UNSUPPORTED, "oneDNN has no kernel for \"%s\"", what);
    default:
        return neap_fail(diag, NEAP_INTERNAL, "oneDNN failed at \"%s\" (its status %d)", what,
                         (int)status);
    }
}

/* ---- The library ---- */

void neap_dnnl_version(char *buffer, size_t capacity)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(buffer, capacity, "%d.%d.%d", version->major, version->minor, version->patch);
}

neap_status neap_dnnl_api_open(neap_allocator *allocator, int threads, dnnl_api **api,
                               neap_diag *diag)
{
    dnnl_api *opened;
    neap_status status = NEAP_NEW(allocator, 1, &opened, diag);
    if (status != NEAP_OK)
        return status;
    opened->allocator = allocator;
    opened->threads = threads;
    neap_dnnl_version(opened->version, sizeof opened->version);
    /* With its cache of primitives (2.6 and 3.2), the implementation that is compiled may not be
       the one that was described: it may write past the scratch that was asked for. The backend
       keeps its kernels itself. */
    dnnl_set_primitive_cache_capacity(0);
    status = status_of(dnnl_engine_create(&opened->engine, dnnl_cpu, 0), "its engine", diag);
    if (status == NEAP_OK)
        status = status_of(
            dnnl_stream_create(&opened->stream, opened->engine, dnnl_stream_default_flags),
            "its stream", diag);
    if (status == NEAP_OK)
        *api = opened;
    else
        neap_dnnl_api_close(opened);
    return status;
}

void neap_dnnl_api_close(dnnl_api *api)
{
    if (!api)
        return;
    if (api->stream)
        dnnl_stream_destroy(api->stream);
    if (api->engine)
        dnnl_engine_destroy(api->engine);
    NEAP_DELETE(api->allocator, 1, api);
}

const char *neap_dnnl_api_version(const dnnl_api *api)
{
    return api->version;
}

const char *neap_dnnl_api_isa(void)
{
    int isa = (int)dnnl_get_effective_cpu_isa();
    if ((isa & (int)dnnl_cpu_isa_avx512_core) == (int)dnnl_cpu_isa_avx512_core)
        return "avx512";
    return (isa & (int)dnnl_cpu_isa_avx2) == (int)dnnl_cpu_isa_avx2 ? "avx2" : "sse4.1";
}

/* ---- Memory descriptors ---- */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t owned_desc;
typedef const_dnnl_memory_desc_t desc_ref;

static dnnl_status_t make_desc(const dnnl_layout *layout, owned_desc *desc)
{
    if (layout->free)
        return dnnl_memory_desc_create_with_tag(desc, layout->rank, layout->shape, dnnl_f32,
                                                dnnl_format_tag_any);
    return dnnl_memory_desc_create_with_strides(desc, layout->rank, layout->shape, dnnl_f32,
                                                layout->strides);
}

static void clear_desc(owned_desc *desc)
{
    if (*desc)
        dnnl_memory_desc_destroy(*desc);
}

static desc_ref ref(const owned_desc *desc)
{
    return *desc;
}

#else

typedef dnnl_memory_desc_t owned_desc;
typedef const dnnl_memory_desc_t *desc_ref;

static dnnl_status_t make_desc(const dnnl_layout *layout, owned_desc *desc)
{
    if (layout->free)
        return dnnl_memory_desc_init_by_tag(desc, layout->rank, layout->shape, dnnl_f32,
                                            dnnl_format_tag_any);
    return dnnl_memory_desc_init_by_strides(desc, layout->rank, layout->shape, dnnl_f32,
                                            layout->strides);
}

static void clear_desc(owned_desc *desc)
{
    (void)desc;
}

static desc_ref ref(const owned_desc *desc)
{
    return desc;
}

#endif

/* ---- Primitive descriptors ---- */

/* A problem in the library's terms. */
typedef struct question {
    const dnnl_problem *problem;
    owned_desc descs[DNNL_OPERAND_SCRATCH];
    dnnl_dims_t strides, dilates, pads_begin, pads_end;
    dnnl_alg_kind_t algorithm;
    dnnl_primitive_attr_t attributes;
} question;

static desc_ref operand(const question *q, dnnl_operand operand)
{
    return q->problem->operands[operand].rank ? ref(&q->descs[operand]) : NULL;
}

/* What is done to a result besides. */
typedef enum post_work { POST_NOTHING, POST_RELU, POST_ADD } post_work;

static dnnl_status_t append(dnnl_post_ops_t ops, post_work post)
{
#if DNNL_VERSION_MAJOR >= 3
    return post == POST_RELU ? dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0)
                             : dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
#else
    return post == POST_RELU ? dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0)
                             : dnnl_post_ops_append_sum(ops, 1);
#endif
}

static dnnl_status_t set_attributes(post_work post, dnnl_primitive_attr_t *attributes)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || post == POST_NOTHING)
        return status;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success)
        status = append(ops, post);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attributes, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t pose(const dnnl_problem *problem, question *q)
{
    *q = (question){.problem = problem,
                    .algorithm =
                        problem->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct};
    for (int d = 0; d < 2; d++) {
        q->strides[d] = problem->strides[d];
        q->dilates[d] = problem->dilations[d] - 1;
        q->pads_begin[d] = problem->pads_begin[d];
        q->pads_end[d] = problem->pads_end[d];
    }
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < DNNL_OPERAND_SCRATCH && status == dnnl_success; i++)
        if (problem->operands[i].rank)
            status = make_desc(&problem->operands[i], &q->descs[i]);
    return status == dnnl_success
               ? set_attributes(problem->relu ? POST_RELU : POST_NOTHING, &q->attributes)
               : status;
}

static void withdraw(question *q)
{
    for (int i = 0; i < DNNL_OPERAND_SCRATCH; i++)
        if (q->problem->operands[i].rank)
            clear_desc(&q->descs[i]);
    if (q->attributes)
        dnnl_primitive_attr_destroy(q->attributes);
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t first_of(const dnnl_api *api, const question *q, dnnl_problem_kind kind,
                              dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *found)
{
    desc_ref src = operand(q, DNNL_OPERAND_SRC), weights = operand(q, DNNL_OPERAND_WEIGHTS),
             bias = operand(q, DNNL_OPERAND_BIAS), dst = operand(q, DNNL_OPERAND_DST);
    switch (kind) {
    case DNNL_CONV:
        return dnnl_convolution_forward_primitive_desc_create(
            found, api->engine, dnnl_forward_training, q->algorithm, src, weights, bias, dst,
            q->strides, q->dilates, q->pads_begin, q->pads_end, q->attributes);
    case DNNL_CONV_BW_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            found, api->engine, q->algorithm, src, weights, dst, q->strides, q->dilates,
            q->pads_begin, q->pads_end, hint, q->attributes);
    case DNNL_CONV_BW_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            found, api->engine, q->algorithm, src, weights, bias, dst, q->strides, q->dilates,
            q->pads_begin, q->pads_end, hint, q->attributes);
    case DNNL_MATMUL:
        return dnnl_matmul_primitive_desc_create(found, api->engine, src, weights, bias, dst,
                                                 q->attributes);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t find(const dnnl_api *api, const question *q, dnnl_primitive_desc_t hint,
                          int index, dnnl_primitive_desc_t *found)
{
    dnnl_status_t status = first_of(api, q, q->problem->kind, hint, found);
    for (int i = 0; i < index && status == dnnl_success; i++)
        status = dnnl_primitive_desc_next_impl(*found);
    return status;
}

static dnnl_status_t find_hint(const dnnl_api *api, const question *q, dnnl_primitive_desc_t *hint)
{
    return first_of(api, q, DNNL_CONV, NULL, hint);
}

#else

typedef union any_desc {
    dnnl_convolution_desc_t convolution;
    dnnl_matmul_desc_t matmul;
} any_desc;

static dnnl_status_t describe_op(const question *q, dnnl_problem_kind kind, any_desc *desc)
{
    desc_ref src = operand(q, DNNL_OPERAND_SRC), weights = operand(q, DNNL_OPERAND_WEIGHTS),
             bias = operand(q, DNNL_OPERAND_BIAS), dst = operand(q, DNNL_OPERAND_DST);
    switch (kind) {
    case DNNL_CONV:
        return dnnl_dilated_convolution_forward_desc_init(
            &desc->convolution, dnnl_forward_training, q->algorithm, src, weights, bias, dst,
            q->strides, q->dilates, q->pads_begin, q->pads_end);
    case DNNL_CONV_BW_DATA:
        return dnnl_dilated_convolution_backward_data_desc_init(
            &desc->convolution, q->algorithm, src, weights, dst, q->strides, q->dilates,
            q->pads_begin, q->pads_end);
    case DNNL_CONV_BW_WEIGHTS:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            &desc->convolution, q->algorithm, src, weights, bias, dst, q->strides, q->dilates,
            q->pads_begin, q->pads_end);
    case DNNL_MATMUL:
        return dnnl_matmul_desc_init(&desc->matmul, src, weights, bias, dst);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t find(const dnnl_api *api, const question *q, dnnl_primitive_desc_t hint,
                          int index, dnnl_primitive_desc_t *found)
{
    any_desc desc;
    dnnl_primitive_desc_iterator_t iterator = NULL;
    dnnl_status_t status = describe_op(q, q->problem->kind, &desc);
    if (status == dnnl_success)
        status =
            dnnl_primitive_desc_iterator_create(&iterator, &desc, q->attributes, api->engine, hint);
    for (int i = 0; i < index && status == dnnl_success; i++)
        status = dnnl_primitive_desc_iterator_next(iterator);
    if (status == dnnl_success) {
        *found = dnnl_primitive_desc_iterator_fetch(iterator);
        status = *found ? dnnl_success : dnnl_out_of_memory;
    }
    if (iterator)
        dnnl_primitive_desc_iterator_destroy(iterator);
    return status;
}

static dnnl_status_t find_hint(const dnnl_api *api, const question *q, dnnl_primitive_desc_t *hint)
{
    any_desc desc;
    dnnl_status_t status = describe_op(q, DNNL_CONV, &desc);
    return status == dnnl_success
               ? dnnl_primitive_desc_create(hint, &desc, q->attributes, api->engine, NULL)
               : status;
}

#endif

static bool is_backward(dnnl_problem_kind kind)
{
    return kind == DNNL_CONV_BW_DATA || kind == DNNL_CONV_BW_WEIGHTS;
}

/* The last one was asked for already, or there is none. */
static bool is_end(dnnl_status_t status)
{
#if DNNL_VERSION_MAJOR >= 3
    const dnnl_status_t end = dnnl_last_impl_reached;
#else
    const dnnl_status_t end = dnnl_iterator_ends;
#endif
    return status == end || status == dnnl_unimplemented;
}

static void name_operands(const dnnl_problem *problem, dnnl_api_primitive *primitive)
{
    const dnnl_problem_kind kind = problem->kind;
    primitive->queries[DNNL_OPERAND_SRC] =
        kind == DNNL_CONV_BW_DATA ? dnnl_query_diff_src_md : dnnl_query_src_md;
    primitive->arguments[DNNL_OPERAND_SRC] =
        kind == DNNL_CONV_BW_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    primitive->queries[DNNL_OPERAND_WEIGHTS] =
        kind == DNNL_CONV_BW_WEIGHTS ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    primitive->arguments[DNNL_OPERAND_WEIGHTS] =
        kind == DNNL_CONV_BW_WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    if (problem->operands[DNNL_OPERAND_BIAS].rank) {
        primitive->queries[DNNL_OPERAND_BIAS] = primitive->queries[DNNL_OPERAND_WEIGHTS];
        primitive->arguments[DNNL_OPERAND_BIAS] =
            kind == DNNL_CONV_BW_WEIGHTS ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS;
    }
    primitive->queries[DNNL_OPERAND_DST] =
        is_backward(kind) ? dnnl_query_diff_dst_md : dnnl_query_dst_md;
    primitive->arguments[DNNL_OPERAND_DST] = is_backward(kind) ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
}

static desc_ref desc_of(const dnnl_api_primitive *primitive, dnnl_operand operand)
{
    return dnnl_primitive_desc_query_md(primitive->description, primitive->queries[operand],
                                        operand == DNNL_OPERAND_BIAS);
}

static neap_status new_primitive(dnnl_api *api, dnnl_api_primitive **primitive, neap_diag *diag)
{
    neap_status status = NEAP_NEW(api->allocator, 1, primitive, diag);
    if (status == NEAP_OK) {
        (*primitive)->api = api;
        (*primitive)->queries[DNNL_OPERAND_SCRATCH] = dnnl_query_scratchpad_md;
        (*primitive)->arguments[DNNL_OPERAND_SCRATCH] = DNNL_ARG_SCRATCHPAD;
    }
    return status;
}

neap_status neap_dnnl_api_describe(dnnl_api *api, const dnnl_problem *problem, int index,
                                   dnnl_api_primitive **primitive, neap_diag *diag)
{
    question q;
    dnnl_api_primitive *made = NULL;
    dnnl_primitive_desc_t hint = NULL;
    *primitive = NULL;
    int before = use_threads(api->threads);
    dnnl_status_t result = pose(problem, &q);
    neap_status status = NEAP_OK;
    if (result == dnnl_success)
        status = new_primitive(api, &made, diag);
    if (status != NEAP_OK)
        goto done;
    if (result == dnnl_success && is_backward(problem->kind)) {
        question direct = q;
        direct.algorithm = dnnl_convolution_direct;
        result = find_hint(api, &direct, &hint);
    }
    if (result == dnnl_success)
        result = find(api, &q, hint, index, &made->description);
    if (result == dnnl_success) {
        name_operands(problem, made);
        *primitive = made;
        made = NULL;
    } else if (!is_end(result)) {
        status = status_of(result, problem->name, diag);
    }
done:
    neap_dnnl_api_destroy(made);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    withdraw(&q);
    use_threads(before);
    return status;
}

neap_status neap_dnnl_api_describe_reorder(const dnnl_api_primitive *of, dnnl_operand operand,
                                           const dnnl_layout *ours, dnnl_copy_way way,
                                           dnnl_api_primitive **primitive, neap_diag *diag)
{
    dnnl_api *api = of->api;
    owned_desc desc;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_api_primitive *made = NULL;
    *primitive = NULL;
    dnnl_status_t result = make_desc(ours, &desc);
    if (result != dnnl_success)
        return status_of(result, "a layout", diag);
    int before = use_threads(api->threads);
    neap_status status = new_primitive(api, &made, diag);
    if (status == NEAP_OK)
        status =
            status_of(set_attributes(way == DNNL_COPY_ADD ? POST_ADD : POST_NOTHING, &attributes),
                      "attributes", diag);
    if (status != NEAP_OK)
        goto done;
    bool into = way == DNNL_COPY_IN;
    desc_ref theirs = desc_of(of, operand);
    result = dnnl_reorder_primitive_desc_create(&made->description, into ? ref(&desc) : theirs,
                                                api->engine, into ? theirs : ref(&desc),
                                                api->engine, attributes);
    status = status_of(result, "reordering", diag);
    if (status == NEAP_OK) {
        made->queries[DNNL_OPERAND_SRC] = dnnl_query_src_md;
        made->arguments[DNNL_OPERAND_SRC] = DNNL_ARG_FROM;
        made->queries[DNNL_OPERAND_DST] = dnnl_query_dst_md;
        made->arguments[DNNL_OPERAND_DST] = DNNL_ARG_TO;
        *primitive = made;
        made = NULL;
    }
done:
    neap_dnnl_api_destroy(made);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    clear_desc(&desc);
    use_threads(before);
    return status;
}

void neap_dnnl_api_destroy(dnnl_api_primitive *primitive)
{
    if (!primitive)
        return;
    for (int i = 0; i < DNNL_OPERANDS; i++)
        if (primitive->memories[i])
            dnnl_memory_destroy(primitive->memories[i]);
    if (primitive->compiled)
        dnnl_primitive_destroy(primitive->compiled);
    if (primitive->description)
        dnnl_primitive_desc_destroy(primitive->description);
    NEAP_DELETE(primitive->api->allocator, 1, primitive);
}

/* ---- Asking ---- */

const char *neap_dnnl_api_implementation(const dnnl_api_primitive *primitive)
{
    const char *name = NULL;
    dnnl_primitive_desc_query(primitive->description, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "";
}

int64_t neap_dnnl_api_bytes(const dnnl_api_primitive *primitive, dnnl_operand operand)
{
    if (primitive->queries[operand] == dnnl_query_undef)
        return 0;
    desc_ref desc = desc_of(primitive, operand);
    return desc ? (int64_t)dnnl_memory_desc_get_size(desc) : 0;
}

bool neap_dnnl_api_lies(const dnnl_api_primitive *primitive, dnnl_operand operand,
                        const dnnl_layout *ours)
{
    owned_desc desc;
    if (make_desc(ours, &desc) != dnnl_success)
        return false;
    bool same = dnnl_memory_desc_equal(desc_of(primitive, operand), ref(&desc));
    clear_desc(&desc);
    return same;
}

/* ---- Running ---- */

neap_status neap_dnnl_api_compile(dnnl_api_primitive *primitive, neap_diag *diag)
{
    int before = use_threads(primitive->api->threads);
    dnnl_status_t result = dnnl_primitive_create(&primitive->compiled, primitive->description);
    use_threads(before);
    for (int i = 0; i < DNNL_OPERANDS && result == dnnl_success; i++)
        if (neap_dnnl_api_bytes(primitive, (dnnl_operand)i) > 0)
            result =
                dnnl_memory_create(&primitive->memories[i], desc_of(primitive, (dnnl_operand)i),
                                   primitive->api->engine, DNNL_MEMORY_NONE);
    return status_of(result, neap_dnnl_api_implementation(primitive), diag);
}

neap_status neap_dnnl_api_run(const dnnl_api_primitive *primitive,
                              void *const addresses[DNNL_OPERANDS], neap_diag *diag)
{
    dnnl_exec_arg_t arguments[DNNL_OPERANDS];
    int count = 0;
    dnnl_status_t result = dnnl_success;
    int before = use_threads(primitive->api->threads);
    for (int i = 0; i < DNNL_OPERANDS && result == dnnl_success; i++) {
        if (!primitive->memories[i])
            continue;
        arguments[count++] = (dnnl_exec_arg_t){primitive->arguments[i], primitive->memories[i]};
        result = dnnl_memory_set_data_handle(primitive->memories[i], addresses[i]);
    }
    if (result == dnnl_success)
        result =
            dnnl_primitive_execute(primitive->compiled, primitive->api->stream, count, arguments);
    if (result == dnnl_success)
        result = dnnl_stream_wait(primitive->api->stream);
    use_threads(before);
    return status_of(result, neap_dnnl_api_implementation(primitive), diag);
}
