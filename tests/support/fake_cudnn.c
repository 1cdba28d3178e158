/* cuDNN in software. */
#include "fake_cudnn.h"

#include "fake_convolution.h"

#include "run/backends/cuda/cudnn_constants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define MOST_ATTRIBUTES 4 /* operands, operations or settings of a descriptor */

struct cudnn_handle {
    cu_stream stream;
};

/* A descriptor of any type; it uses the members of its type. */
typedef struct object {
    struct object *next;
    int type;
    bool finalized;
    fake_tensor tensor;
    int64_t alignment; /* of a tensor */
    bool is_virtual;
    /* a window */
    int precision, mode;
    int64_t dimensions, steps[2], dilations[2], pre[2], post[2];
    /* a convolution, or a pointwise operation: y = x + w, y = relu(x) */
    struct object *kind, *y, *x, *w;
    float alpha, beta;
    /* a graph; an engine, its configuration and its plan */
    cudnn_handle handle;
    struct object *operations[MOST_ATTRIBUTES], *graph, *engine, *config;
    int64_t n_operations, index;
    struct object *knobs[MOST_ATTRIBUTES];
    int64_t n_knobs;
    int knob_type;
    int64_t knob_value, workspace_bytes;
    fake_convolution *convolution;
    /* a pack */
    void *addresses[MOST_ATTRIBUTES], *workspace;
    int64_t uids[MOST_ATTRIBUTES], n_addresses, n_uids;
} object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects; /* all that have not been destroyed */
static atomic_int alive, plans, runs, calls_left;
static int failure;
static atomic_bool has_failed;

int fake_cudnn_alive(void)
{
    return alive;
}

int fake_cudnn_plans(void)
{
    return plans;
}

int fake_cudnn_runs(void)
{
    return runs;
}

void fake_cudnn_fail_at(int n, int status)
{
    failure = status;
    has_failed = false;
    calls_left = n;
}

bool fake_cudnn_has_failed(void)
{
    return has_failed;
}

/* Counts the call. */
static bool fails_now(void)
{
    if (calls_left <= 0 || atomic_fetch_sub(&calls_left, 1) != 1)
        return false;
    has_failed = true;
    return true;
}

/* ---- Engines ---- */

static const struct {
    uint32_t notes; /* bits */
    bool compiled;
    int64_t per_image; /* bytes of workspace */
} engines[FAKE_ENGINES] = {
    [FAKE_TILES] = {.per_image = 4096},
    [FAKE_LARGE] = {.per_image = INT64_C(2) << 20},
    [FAKE_RANDOM] = {.notes = 1 << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
    [FAKE_HALF] = {.notes = 1 << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
    [FAKE_SHORT] = {.notes = 1 << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
    [FAKE_WINOGRAD] = {.notes = 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD, .per_image = 100},
    [FAKE_SLOW] = {.compiled = true},
    [FAKE_COMPILED] = {.compiled = true, .per_image = 1000},
    [FAKE_FUSED] = {.per_image = 1000},
    [FAKE_TENSOR] = {.notes = 1 << CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
};

/* What a heuristic recommends, in order. The two FAKE_LARGE have different settings. */
static int64_t named(int mode, const object *graph, int64_t indices[8])
{
    static const int first[] = {FAKE_UNWILLING, FAKE_TILES, FAKE_LARGE,  FAKE_LARGE,
                                FAKE_RANDOM,    FAKE_HALF,  FAKE_TENSOR, FAKE_ADDS},
                     second[] = {FAKE_COMPILED, FAKE_TILES, FAKE_SHORT}, last[] = {FAKE_DIRECT},
                     fused[] = {FAKE_UNWILLING, FAKE_FUSED};
    const int *list = mode == CUDNN_HEUR_MODE_A ? first : mode == CUDNN_HEUR_MODE_B ? second : last;
    int64_t count = mode == CUDNN_HEUR_MODE_A ? 8 : mode == CUDNN_HEUR_MODE_B ? 3 : 1;
    if (graph->n_operations > 1) {
        list = fused;
        count = mode == CUDNN_HEUR_MODE_A ? 2 : 0;
    }
    for (int64_t i = 0; i < count; i++)
        indices[i] = list[i];
    return count;
}

/* Whether the engine can carry out the graph. */
static bool takes(int64_t index, const object *graph)
{
    bool adds = graph->operations[0]->beta > 0;
    if ((index == FAKE_FUSED) != (graph->n_operations > 1) || index == FAKE_UNWILLING)
        return false;
    return index != FAKE_ADDS || adds;
}

/* ---- Attributes ---- */

typedef struct attribute {
    int name, of, type;
    size_t at, bytes;   /* the member, and of one element */
    int64_t count;      /* of elements, at most if */
    size_t n_at;        /* there is a member that says how many; else 0 */
    bool is_descriptor; /* a pointer to another one */
} attribute;

#define ONE(of, name, type, member)                                                                \
    {                                                                                              \
        CUDNN_ATTR_##name, CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_TYPE_##type,                     \
            offsetof(object, member), sizeof(((object *)0)->member), 1, 0, false                   \
    }
#define SOME(of, name, type, member)                                                               \
    {                                                                                              \
        CUDNN_ATTR_##name, CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_TYPE_##type,                     \
            offsetof(object, member), sizeof(((object *)0)->member[0]),                            \
            sizeof(((object *)0)->member) / sizeof(((object *)0)->member[0]), 0, false             \
    }
#define LIST(of, name, type, member, n, is_descriptor)                                             \
    {                                                                                              \
        CUDNN_ATTR_##name, CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_TYPE_##type,                     \
            offsetof(object, member), sizeof(((object *)0)->member[0]), MOST_ATTRIBUTES,           \
            offsetof(object, n), is_descriptor                                                     \
    }
#define OTHER(of, name, member)                                                                    \
    {                                                                                              \
        CUDNN_ATTR_##name, CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR,         \
            offsetof(object, member), sizeof(object *), 1, 0, true                                 \
    }
#define CONVOLUTION(of, name, data_y, data_x, data_w)                                              \
    ONE(of, OPERATION_CONVOLUTION_##name##_ALPHA, FLOAT, alpha),                                   \
        ONE(of, OPERATION_CONVOLUTION_##name##_BETA, FLOAT, beta),                                 \
        OTHER(of, OPERATION_CONVOLUTION_##name##_CONV_DESC, kind),                                 \
        OTHER(of, OPERATION_CONVOLUTION_##name##_##data_y, y),                                     \
        OTHER(of, OPERATION_CONVOLUTION_##name##_##data_x, x),                                     \
        OTHER(of, OPERATION_CONVOLUTION_##name##_##data_w, w)

/* clang-format off */
static const attribute attributes[] = {
    ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, tensor.type),
    SOME(TENSOR, TENSOR_DIMENSIONS, INT64, tensor.dims),
    SOME(TENSOR, TENSOR_STRIDES, INT64, tensor.strides),
    ONE(TENSOR, TENSOR_UNIQUE_ID, INT64, tensor.uid),
    ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, alignment),
    ONE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, is_virtual),
    ONE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, precision),
    ONE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, mode),
    ONE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, dimensions),
    SOME(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, pre),
    SOME(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, post),
    SOME(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, steps),
    SOME(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, dilations),
    CONVOLUTION(OPERATION_CONVOLUTION_FORWARD, FORWARD, Y, X, W),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_DATA, BWD_DATA, DY, DX, W),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_FILTER, BWD_FILTER, DY, X, DW),
    ONE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, mode),
    ONE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, precision),
    OTHER(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, kind),
    OTHER(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, x),
    OTHER(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, w),
    OTHER(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, y),
    ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, handle),
    LIST(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, operations, n_operations, true),
    OTHER(ENGINE, ENGINE_OPERATION_GRAPH, graph),
    ONE(ENGINE, ENGINE_GLOBAL_INDEX, INT64, index),
    OTHER(ENGINECFG, ENGINECFG_ENGINE, engine),
    LIST(ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, knobs, n_knobs, true),
    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, knob_type),
    ONE(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64, knob_value),
    OTHER(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, graph),
    ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, mode),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, handle),
    OTHER(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, config),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, workspace_bytes),
    LIST(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, addresses, n_addresses, false),
    LIST(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, uids, n_uids, false),
    ONE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, workspace),
};
/* clang-format on */

static const attribute *find_attribute(int name)
{
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].name == name)
            return &attributes[i];
    fail_msg("the fake has no attribute %d", name);
    return NULL;
}

static object *living(const void *descriptor)
{
    pthread_mutex_lock(&lock);
    object *o = objects;
    while (o && o != descriptor)
        o = o->next;
    pthread_mutex_unlock(&lock);
    assert_non_null(o);
    return o;
}

static object *finished(const void *descriptor, int type)
{
    object *o = living(descriptor);
    assert_int_equal(o->type, type);
    assert_true(o->finalized);
    return o;
}

static int create(int type, cudnn_descriptor *descriptor)
{
    if (fails_now())
        return failure;
    object *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->type = type;
    pthread_mutex_lock(&lock);
    o->next = objects;
    objects = o;
    pthread_mutex_unlock(&lock);
    alive++;
    *descriptor = o;
    return CUDNN_STATUS_SUCCESS;
}

static int destroy(cudnn_descriptor descriptor)
{
    object *o = living(descriptor), **at = &objects;
    pthread_mutex_lock(&lock);
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    pthread_mutex_unlock(&lock);
    free(o->convolution);
    free(o);
    alive--;
    return CUDNN_STATUS_SUCCESS;
}

static int set(cudnn_descriptor descriptor, int name, int type, int64_t count, const void *elements)
{
    const attribute *a = find_attribute(name);
    object *o = living(descriptor);
    if (fails_now())
        return failure;
    assert_int_equal(a->of, o->type);
    assert_int_equal(a->type, type);
    assert_false(o->finalized);
    assert_true(count > 0 && (a->n_at ? count <= a->count : count == a->count));
    assert_non_null(elements);
    for (int64_t i = 0; i < count && a->is_descriptor; i++)
        assert_true(living(((object *const *)elements)[i])->finalized);
    memcpy((char *)o + a->at, elements, (size_t)count * a->bytes);
    if (a->n_at)
        memcpy((char *)o + a->n_at, &count, sizeof count);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Finalizing ---- */

static bool is_float(int type)
{
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16;
}

static int finalize_tensor(const object *o)
{
    assert_true(is_float(o->tensor.type));
    assert_true(o->tensor.uid > 0 && o->alignment == 16);
    for (int d = 0; d < 4; d++)
        assert_true(o->tensor.dims[d] > 0 && o->tensor.strides[d] > 0);
    return CUDNN_STATUS_SUCCESS;
}

static int finalize_window(const object *o)
{
    assert_int_equal(o->precision, CUDNN_DATA_FLOAT);
    assert_int_equal(o->mode, CUDNN_CROSS_CORRELATION);
    assert_int_equal(o->dimensions, 2);
    for (int d = 0; d < 2; d++) {
        assert_true(o->steps[d] > 0 && o->dilations[d] > 0);
        assert_true(o->pre[d] >= 0 && o->pre[d] == o->post[d]);
    }
    return CUDNN_STATUS_SUCCESS;
}

static const int64_t *dims_of(const object *tensor)
{
    return finished(tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)->tensor.dims;
}

static int finalize_convolution(const object *o)
{
    const object *window = finished(o->kind, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const int64_t *y = dims_of(o->y), *x = dims_of(o->x), *w = dims_of(o->w);
    assert_true(o->alpha == 1.0f && (o->beta == 0.0f || o->beta == 1.0f));
    assert_int_equal(x[0], y[0]);
    assert_int_equal(y[1], w[0]);
    assert_int_equal(x[1] % w[1], 0);
    for (int d = 0; d < 2; d++) {
        int64_t span = window->dilations[d] * (w[2 + d] - 1) + 1;
        assert_int_equal(y[2 + d], (x[2 + d] + 2 * window->pre[d] - span) / window->steps[d] + 1);
    }
    return CUDNN_STATUS_SUCCESS;
}

static int finalize_pointwise(const object *o)
{
    const object *kind = finished(o->kind, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const int64_t *y = dims_of(o->y), vector[4] = {1, y[1], 1, 1};
    assert_int_equal(kind->precision, CUDNN_DATA_FLOAT);
    assert_true(o->x->is_virtual);
    assert_memory_equal(dims_of(o->x), y, sizeof vector);
    if (kind->mode == CUDNN_POINTWISE_ADD) {
        assert_memory_equal(dims_of(o->w), vector, sizeof vector);
    } else {
        assert_int_equal(kind->mode, CUDNN_POINTWISE_RELU_FWD);
        assert_null(o->w);
    }
    return CUDNN_STATUS_SUCCESS;
}

static int finalize_config(object *o)
{
    const object *engine = finished(o->engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    o->graph = engine->graph;
    o->index = engine->index;
    return takes(o->index, finished(o->graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR))
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_NOT_SUPPORTED;
}

/* A graph's convolution; the results of further operations are followed to the one in memory. */
static fake_convolution *understand(const object *graph)
{
    const object *first = living(graph->operations[0]), *window = living(first->kind);
    const object *tensors[3] = {living(first->y), living(first->x), living(first->w)};
    fake_convolution *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->target = first->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? FAKE_Y
                : first->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                    ? FAKE_X
                    : FAKE_W;
    c->adds = first->beta > 0;
    memcpy(c->steps, window->steps, sizeof c->steps);
    memcpy(c->dilations, window->dilations, sizeof c->dilations);
    memcpy(c->pads, window->pre, sizeof c->pads);
    for (int64_t i = 1; i < graph->n_operations; i++) {
        const object *operation = living(graph->operations[i]);
        assert_int_equal(operation->type, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        assert_ptr_equal(operation->x, tensors[c->target]);
        tensors[c->target] = living(operation->y);
        assert_false(c->has_relu);
        if (living(operation->kind)->mode == CUDNN_POINTWISE_RELU_FWD) {
            c->has_relu = true;
            continue;
        }
        assert_false(c->has_bias);
        c->has_bias = true;
        c->bias_uid = living(operation->w)->tensor.uid;
    }
    for (int i = 0; i < 3; i++) {
        assert_false(tensors[i]->is_virtual);
        c->tensors[i] = tensors[i]->tensor;
    }
    return c;
}

static int finalize_plan(object *o)
{
    const object *config = finished(o->config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    const object *graph = finished(config->graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    assert_non_null(o->handle);
    assert_ptr_equal(o->handle, graph->handle);
    if (!takes(config->index, graph))
        return CUDNN_STATUS_NOT_SUPPORTED;
    assert_int_not_equal(config->index, FAKE_SLOW);
    o->convolution = understand(graph);
    o->workspace_bytes = engines[config->index].per_image * o->convolution->tensors[FAKE_X].dims[0];
    plans++;
    return CUDNN_STATUS_SUCCESS;
}

static int finalize(cudnn_descriptor descriptor)
{
    object *o = living(descriptor);
    int status = CUDNN_STATUS_SUCCESS;
    assert_false(o->finalized);
    if (fails_now())
        return failure;
    switch (o->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        status = finalize_tensor(o);
        break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        status = finalize_window(o);
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        status = finalize_convolution(o);
        break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        status = finalize_pointwise(o);
        break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        assert_true(o->handle && o->n_operations > 0);
        break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        status = o->index < FAKE_ENGINES ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
        break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        status = finalize_config(o);
        break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        status = finalize_plan(o);
        break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        assert_true(o->n_addresses == o->n_uids && o->n_uids >= 3);
        break;
    }
    o->finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- Asking ---- */

/* Configurations that exist already are filled in. */
static void get_named(const object *heuristic, int64_t requested, int64_t *count,
                      object *const *configs)
{
    int64_t indices[8];
    *count = named(heuristic->mode, living(heuristic->graph), indices);
    for (int64_t i = 0; i < requested && i < *count; i++) {
        object *config = living(configs[i]);
        assert_int_equal(config->type, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        config->graph = heuristic->graph;
        config->index = indices[i];
        config->n_knobs = indices[i] == FAKE_LARGE ? 2 : 0;
        config->knob_value = i; /* of the first setting */
        config->finalized = true;
    }
}

static void get_engine(const object *config, int64_t requested, object *const *engine)
{
    assert_int_equal(requested, 1);
    object *o = living(*engine);
    assert_int_equal(o->type, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    o->graph = config->graph;
    o->index = config->index;
    o->finalized = true;
}

/* Settings of a configuration that a heuristic named, or that was made. */
static void get_knobs(const object *config, int64_t requested, int64_t *count,
                      object *const *choices)
{
    assert_true(requested >= config->n_knobs);
    *count = config->n_knobs;
    for (int64_t i = 0; i < config->n_knobs; i++) {
        object *choice = living(choices[i]);
        assert_int_equal(choice->type, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        const object *known = config->engine ? living(config->knobs[i]) : NULL;
        choice->knob_type = known ? known->knob_type : 10 + (int)i;
        choice->knob_value = known ? known->knob_value : (1 - i) * config->knob_value;
        choice->finalized = true;
    }
}

/* The numbers of the bits. */
static void get_bits(uint32_t bits, int64_t requested, int64_t *count, int *notes)
{
    *count = 0;
    for (int bit = 0; bit < 32; bit++)
        if (bits >> bit & 1) {
            assert_true(*count < requested);
            notes[(*count)++] = bit;
        }
}

static int get(cudnn_descriptor descriptor, int name, int type, int64_t requested, int64_t *count,
               void *elements)
{
    const object *o = living(descriptor);
    if (fails_now())
        return failure;
    assert_true(o->finalized);
    *count = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        assert_int_equal(type, CUDNN_TYPE_BACKEND_DESCRIPTOR);
        get_named(o, requested, count, elements);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        get_engine(o, requested, elements);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        get_knobs(o, requested, count, elements);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        assert_int_equal(type, CUDNN_TYPE_NUMERICAL_NOTE);
        get_bits(engines[o->index].notes, requested, count, elements);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        assert_int_equal(type, CUDNN_TYPE_BEHAVIOR_NOTE);
        get_bits(engines[o->index].compiled << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, requested,
                 count, elements);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
        *(int64_t *)elements = FAKE_ENGINES + 2; /* two that do not exist any more */
        return CUDNN_STATUS_SUCCESS;
    }
    const attribute *a = find_attribute(name);
    assert_int_equal(a->of, o->type);
    assert_int_equal(a->type, type);
    assert_int_equal(requested, 1);
    memcpy(elements, (const char *)o + a->at, a->bytes);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Running ---- */

static void *address_of(const object *pack, int64_t uid)
{
    for (int64_t i = 0; i < pack->n_uids; i++)
        if (pack->uids[i] == uid) {
            assert_int_equal((uintptr_t)pack->addresses[i] % 16, 0);
            return pack->addresses[i];
        }
    fail_msg("the pack has no tensor %lld", (long long)uid);
    return NULL;
}

static int execute(cudnn_handle handle, cudnn_descriptor plan_at, cudnn_descriptor pack_at)
{
    const object *plan = finished(plan_at, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const object *pack = finished(pack_at, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const fake_convolution *c = plan->convolution;
    if (fails_now())
        return failure;
    assert_ptr_equal(handle, plan->handle);
    if (plan->workspace_bytes > 0) {
        assert_non_null(pack->workspace);
        assert_int_equal((uintptr_t)pack->workspace % 256, 0);
        memset(pack->workspace, 0xee, (size_t)plan->workspace_bytes);
    }
    void *at[3];
    for (int i = 0; i < 3; i++)
        at[i] = address_of(pack, c->tensors[i].uid);
    fake_convolution_run(c, at, c->has_bias ? address_of(pack, c->bias_uid) : NULL);
    runs++;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Handles and messages ---- */

static int new_handle(cudnn_handle *handle)
{
    if (fails_now())
        return failure;
    *handle = calloc(1, sizeof **handle);
    assert_non_null(*handle);
    alive++;
    return CUDNN_STATUS_SUCCESS;
}

static int delete_handle(cudnn_handle handle)
{
    assert_non_null(handle);
    free(handle);
    alive--;
    return CUDNN_STATUS_SUCCESS;
}

static int set_stream(cudnn_handle handle, cu_stream stream)
{
    if (fails_now())
        return failure;
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

static const char *get_error_string(int status)
{
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "not supported" : "a made-up failure";
}

static void get_last_error_string(char *message, size_t length)
{
    snprintf(message, length, "%s", "in the fake");
}

void fake_cudnn_init(cuda_api *api, cuda_libraries *libraries)
{
    api->cudnnGetErrorString = get_error_string;
    api->cudnnGetLastErrorString = get_last_error_string;
    api->cudnnCreate = new_handle;
    api->cudnnDestroy = delete_handle;
    api->cudnnSetStream = set_stream;
    api->cudnnBackendCreateDescriptor = create;
    api->cudnnBackendDestroyDescriptor = destroy;
    api->cudnnBackendFinalize = finalize;
    api->cudnnBackendSetAttribute = set;
    api->cudnnBackendGetAttribute = get;
    api->cudnnBackendExecute = execute;
    libraries->api = api;
    fake_cudnn_fail_at(0, 0);
    plans = runs = 0;
    assert_int_equal(new_handle(&libraries->cudnn), CUDNN_STATUS_SUCCESS);
}

void fake_cudnn_clear(cuda_libraries *libraries)
{
    assert_int_equal(delete_handle(libraries->cudnn), CUDNN_STATUS_SUCCESS);
    libraries->cudnn = NULL;
}
