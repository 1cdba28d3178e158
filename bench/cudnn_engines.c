/*
 * Prints every variant of one convolution on the cuda backend: cuDNN's engine with its settings and
 * notes, the workspace, seconds, and how far its result is from that of variant 0.
 *
 *     cudnn_engines [--list] TYPE N C H W K SIDE STRIDE PAD GROUPS f32|tf32|bf16 [WORD ...]
 *
 * TYPE is an op type, as in conv2d_bw_weight. Words: plain (row-major, else channels-last), bias,
 * relu, dilation=D, nondeterministic. With --list, cuDNN is asked what it would do on an H200:
 * nothing runs, and no GPU is needed. Kernels of our own are the last variants.
 */
#include "run/backends/cuda/cudnn_conv.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS 20

static neap_diag diag;

static void must(neap_status status)
{
    if (status != NEAP_OK) {
        fprintf(stderr, "%s\n", diag.message);
        exit(1);
    }
}

static void stop(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(1);
}

/* ---- The convolution ---- */

typedef struct call {
    const char *type;
    conv_target target;
    bool transposed, plain, bias, relu, tf32, nondeterministic;
    neap_dtype dtype;
    int64_t n, c, h, w, k, side, stride, pad, groups, dilation;
    neap_attr attrs[9];
    neap_op op;
    run_array in[3], out[2];
    run_spec spec;
} call;

static void read_word(call *c, const char *word)
{
    if (strcmp(word, "plain") == 0)
        c->plain = true;
    else if (strcmp(word, "bias") == 0)
        c->bias = true;
    else if (strcmp(word, "relu") == 0)
        c->relu = true;
    else if (strcmp(word, "nondeterministic") == 0)
        c->nondeterministic = true;
    else if (strncmp(word, "dilation=", 9) == 0)
        c->dilation = atoll(word + 9);
    else
        stop("words: plain, bias, relu, dilation=D, nondeterministic");
}

static void read_call(call *c, int count, char **words)
{
    if (count < 11)
        stop("cudnn_engines [--list] TYPE N C H W K SIDE STRIDE PAD GROUPS f32|tf32|bf16 [WORD "
             "...]");
    *c = (call){.type = words[0],
                .n = atoll(words[1]),
                .c = atoll(words[2]),
                .h = atoll(words[3]),
                .w = atoll(words[4]),
                .k = atoll(words[5]),
                .side = atoll(words[6]),
                .stride = atoll(words[7]),
                .pad = atoll(words[8]),
                .groups = atoll(words[9]),
                .dilation = 1};
    c->tf32 = strcmp(words[10], "tf32") == 0;
    c->dtype = strcmp(words[10], "bf16") == 0 ? NEAP_BF16 : NEAP_F32;
    c->transposed = strncmp(c->type, "conv_transpose", 14) == 0;
    bool of_data = strstr(c->type, "bw_data") != NULL, of_weight = strstr(c->type, "bw_weight");
    c->target = of_weight ? CONV_W : of_data != c->transposed ? CONV_X : CONV_Y;
    for (int i = 11; i < count; i++)
        read_word(c, words[i]);
}

static run_array new_array(const call *c, const int64_t shape[4])
{
    run_array array = {.dtype = c->dtype, .rank = 4};
    memcpy(array.shape, shape, 4 * sizeof *shape);
    if (c->plain)
        neap_run_array_set_plain(&array);
    else
        neap_run_array_set_channels_last(&array);
    return array;
}

static int64_t side_of(const call *c, int64_t extent)
{
    if (c->transposed)
        return (extent - 1) * c->stride - 2 * c->pad + c->side;
    return (extent + 2 * c->pad - c->dilation * (c->side - 1) - 1) / c->stride + 1;
}

/* Arrays as the op has them: (x, w, b) -> y, (dy, w) -> dx, (dy, x) -> (dw, db). */
static void set_spec(call *c)
{
    int64_t first = c->transposed ? c->c : c->k, second = c->transposed ? c->k : c->c;
    run_array x = new_array(c, (int64_t[]){c->n, c->c, c->h, c->w}),
              y = new_array(c, (int64_t[]){c->n, c->k, side_of(c, c->h), side_of(c, c->w)}),
              w = new_array(c, (int64_t[]){first, second / c->groups, c->side, c->side});
    run_array b = {.dtype = c->dtype, .rank = 1, .shape = {c->k}, .strides = {1}};
    bool of_weight = c->target == CONV_W, of_data = strstr(c->type, "bw_data") != NULL;
    c->in[0] = of_weight || of_data ? y : x;
    c->in[1] = of_weight ? x : w;
    c->in[2] = b;
    c->out[0] = of_weight ? w : of_data ? x : y;
    c->out[1] = b;
    const neap_attr attrs[] = {
        {.name = "stride_h", .integer = c->stride},   {.name = "stride_w", .integer = c->stride},
        {.name = "pad_h", .integer = c->pad},         {.name = "pad_w", .integer = c->pad},
        {.name = "dilation", .integer = c->dilation}, {.name = "groups", .integer = c->groups},
        {.name = "output_pad", .integer = 0},         {.name = "bias", .integer = c->bias},
        {.name = "relu", .integer = c->relu}};
    memcpy(c->attrs, attrs, sizeof attrs);
    c->op = (neap_op){.name = "conv",
                      .type = c->type,
                      .n_inputs = c->bias && !of_weight && !of_data ? 3 : 2,
                      .n_outputs = c->bias && of_weight ? 2 : 1,
                      .n_attrs = sizeof attrs / sizeof *attrs,
                      .attrs = c->attrs};
    c->spec = (run_spec){.op = &c->op, .in = c->in, .out = c->out};
}

/* ---- Printing ---- */

static void print_notes(uint32_t bits)
{
    static const char *const names[] = {
        "tensor-core", "down-convert", "reduced-precision", "fft",         "random-order",
        "winograd",    "winograd-4",   "winograd-6",        "winograd-13", "strict-nan"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bits >> i & 1)
            printf(" %s", names[i]);
}

static void print_candidate(const cudnn_candidate *candidate)
{
    const cudnn_engine *engine = &candidate->engine;
    printf("  engine %3lld %c parts %2lld%s build %6.1f ms", (long long)engine->index,
           candidate->origin, (long long)candidate->parts, candidate->fused ? " fused" : "",
           candidate->build_seconds * 1e3);
    print_notes(engine->notes);
    if (engine->behaviour & UINT32_C(1) << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
        printf(" compiled");
    for (int64_t i = 0; i < engine->n_knobs; i++)
        printf(" %d=%lld", engine->knob_types[i], (long long)engine->knob_values[i]);
}

/* ---- Without a GPU ---- */

enum {
    CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR = 38,
    CUDNN_TYPE_CHAR = 24,
    CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION = 2702,
    CUDNN_ATTR_ENGINEHEUR_DEVICEPROP = 204,
    CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP = 407,
    CUDNN_ATTR_ENGINE_DEVICEPROP = 1307
};

static const char h200[] =
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
    "\"regsPerBlock\": 65536, \"multiProcessorCount\": 132, \"smClockRateKHz\": 1980000, "
    "\"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560, \"warpSize\": 32, "
    "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448, "
    "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, "
    "\"pciDeviceId\": 9013, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, "
    "\"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, "
    "\"deviceVer\": 900, \"driverVer\": 13000, \"cudaDeviceId\": 0, "
    "\"totalGlobalMem\": 150000000000, \"deviceName\": \"NVIDIA H200\"}";

static cuda_api offline;
static cudnn_descriptor properties;
static int (*set_attribute)(cudnn_descriptor, int, int, int64_t, const void *);

/* cuDNN takes a description of a device where it else takes a handle. */
static int set_without_handle(cudnn_descriptor descriptor, int name, int type, int64_t count,
                              const void *elements)
{
    int other = name == CUDNN_ATTR_ENGINEHEUR_MODE       ? CUDNN_ATTR_ENGINEHEUR_DEVICEPROP
                : name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX ? CUDNN_ATTR_ENGINE_DEVICEPROP
                                                         : 0;
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
        return 0;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        return set_attribute(descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
    int status = set_attribute(descriptor, name, type, count, elements);
    if (status == 0 && other)
        status = set_attribute(descriptor, other, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
    return status;
}

static void load_offline(void)
{
    void *library = dlopen("libcudnn.so.9", RTLD_NOW);
    if (!library)
        library = dlopen("/usr/local/cuda/lib64/libcudnn.so.9", RTLD_NOW);
    if (!library)
        stop("there is no libcudnn.so.9");
#define X(library_of, result, name, parameters)                                                    \
    if (CUDA_LIBRARY_##library_of == CUDA_LIBRARY_CUDNN) {                                         \
        void *found = dlsym(library, #name);                                                       \
        memcpy(&offline.name, &found, sizeof found);                                               \
    }
#include "run/backends/cuda/api.def"
#undef X
    offline.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties);
    offline.cudnnBackendSetAttribute(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, (int64_t)strlen(h200), h200);
    int status = offline.cudnnBackendFinalize(properties);
    if (status != 0)
        must(neap_cudnn_fail(&offline, status, "a device's properties", &diag));
    set_attribute = offline.cudnnBackendSetAttribute;
    offline.cudnnBackendSetAttribute = set_without_handle;
}

/* The list from its file, if files are kept: every algorithm must get its plans. */
static void build_again(cuda_backend *backend, call *c, const conv_problem *problem)
{
    cudnn_conv_list *list;
    size_t built = 0, read = 0;
    must(neap_cudnn_conv_list(backend, &c->spec, problem, &list, &diag));
    for (size_t i = 0; i < list->count; i++) {
        cudnn_conv_run *run = NULL;
        read += !list->items[i].plan;
        if (neap_cudnn_conv_prepare(list, (uint32_t)i, &run, &diag) == NEAP_OK)
            built++;
        else
            printf("%2zu does not build again: %s\n", i, diag.message);
        neap_cudnn_conv_delete(run);
    }
    printf("%zu of %zu build again, %zu of them from a file\n", built, list->count, read);
    neap_cudnn_conv_clear(backend->libraries);
}

static void list_offline(call *c)
{
    cuda_libraries libraries = {.api = &offline, .allocator = neap_allocator_system()};
    cuda_backend backend = {
        .libraries = &libraries, .tf32 = c->tf32, .nondeterministic = c->nondeterministic};
    snprintf(backend.base.machine, sizeof backend.base.machine, "H200 without a GPU, %d%d", c->tf32,
             c->nondeterministic);
    conv_problem problem = neap_conv_problem(&c->spec, c->target, c->transposed);
    cudnn_conv_list *list;
    load_offline();
    memset(&libraries.cudnn, 1, sizeof libraries.cudnn); /* never looked at */
    must(neap_cudnn_conv_list(&backend, &c->spec, &problem, &list, &diag));
    printf("%s\n%zu variants; the first that does not work: %s\n", list->sign, list->count,
           list->trouble);
    for (size_t i = 0; i < list->count; i++) {
        printf("%2zu %10.3f MB", i, (double)list->items[i].workspace / 1e6);
        print_candidate(&list->items[i]);
        printf("\n");
    }
    neap_cudnn_conv_clear(&libraries);
    build_again(&backend, c, &problem);
}

/* ---- On a GPU ---- */

typedef struct gpu {
    int (*alloc)(cu_address *, size_t);
    int (*to_device)(cu_address, const void *, size_t);
    int (*to_host)(void *, cu_address, size_t);
    int (*synchronize)(cu_stream);
    int (*new_event)(cu_event *, unsigned);
    int (*record)(cu_event, cu_stream);
    int (*elapsed)(float *, cu_event, cu_event);
    cu_event begin, end;
    cu_stream stream;
} gpu;

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (!found)
        stop("the driver lacks a function");
    memcpy(function, &found, sizeof found);
}

static void check(int status)
{
    if (status != 0) {
        fprintf(stderr, "the driver fails with %d\n", status);
        exit(1);
    }
}

static void open_gpu(gpu *g, cu_stream stream)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        stop("there is no libcuda.so.1");
    find(library, "cuMemAlloc_v2", &g->alloc);
    find(library, "cuMemcpyHtoD_v2", &g->to_device);
    find(library, "cuMemcpyDtoH_v2", &g->to_host);
    find(library, "cuStreamSynchronize", &g->synchronize);
    find(library, "cuEventCreate", &g->new_event);
    find(library, "cuEventRecord", &g->record);
    find(library, "cuEventElapsedTime", &g->elapsed);
    check(g->new_event(&g->begin, 0));
    check(g->new_event(&g->end, 0));
    g->stream = stream;
}

static void *new_block(gpu *g, size_t bytes)
{
    cu_address address = 0;
    check(g->alloc(&address, bytes ? bytes : 1));
    void *block;
    memcpy(&block, &address, sizeof block);
    return block;
}

static cu_address address_of(const void *block)
{
    cu_address address;
    memcpy(&address, &block, sizeof address);
    return address;
}

static size_t bytes_of(const run_array *array)
{
    return (size_t)(neap_run_array_elements(array) * neap_dtype_bytes(array->dtype));
}

static void *new_numbers(gpu *g, const run_array *array)
{
    size_t bytes = bytes_of(array), count = (size_t)neap_run_array_elements(array);
    unsigned char *host = malloc(bytes);
    uint64_t state = 1;
    if (!host)
        stop("out of memory");
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        float number = (float)(state >> 40) * 0x1p-23f - 1;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        uint16_t half = (uint16_t)(bits >> 16);
        if (array->dtype == NEAP_BF16)
            memcpy(host + 2 * i, &half, 2);
        else
            memcpy(host + 4 * i, &number, 4);
    }
    void *block = new_block(g, bytes);
    check(g->to_device(address_of(block), host, bytes));
    free(host);
    return block;
}

static double number_at(const unsigned char *block, neap_dtype type, size_t i)
{
    float number;
    uint32_t bits;
    uint16_t half;
    memcpy(&half, block + 2 * i, 2);
    bits = (uint32_t)half << 16;
    if (type == NEAP_BF16)
        memcpy(&number, &bits, sizeof number);
    else
        memcpy(&number, block + 4 * i, sizeof number);
    return (double)number;
}

/* The root of the mean square of the difference, as a share of that of the numbers. */
static double difference(const unsigned char *a, const unsigned char *b, const run_array *array)
{
    double apart = 0, size = 0;
    for (size_t i = 0; i < (size_t)neap_run_array_elements(array); i++) {
        double x = number_at(a, array->dtype, i), y = number_at(b, array->dtype, i);
        apart += (x - y) * (x - y);
        size += x * x;
    }
    return size > 0 ? sqrt(apart / size) : sqrt(apart);
}

static double time_kernel(gpu *g, const run_kernel *kernel, const run_args *args)
{
    float milliseconds = 0;
    for (int i = 0; i < 3; i++)
        must(kernel->run(kernel, args, &diag));
    check(g->record(g->begin, g->stream));
    for (int i = 0; i < RUNS; i++)
        must(kernel->run(kernel, args, &diag));
    check(g->record(g->end, g->stream));
    check(g->synchronize(g->stream));
    check(g->elapsed(&milliseconds, g->begin, g->end));
    return (double)milliseconds / 1e3 / RUNS;
}

static void measure(call *c, neap_backend *backend, gpu *g)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    conv_problem problem = neap_conv_problem(&c->spec, c->target, c->transposed);
    int64_t workspaces[RUN_MOST_VARIANTS], most = 0;
    uint32_t count = 0;
    cudnn_conv_list *list;
    void *in[3] = {NULL}, *out[2] = {NULL};
    size_t bytes = bytes_of(&c->out[0]);
    unsigned char *first = malloc(bytes), *result = malloc(bytes);
    if (!first || !result)
        stop("out of memory");
    must(backend->type->variants(backend, &c->spec, workspaces, &count, &diag));
    must(neap_cudnn_conv_list(cuda, &c->spec, &problem, &list, &diag));
    printf("%s\n%u variants; the first of cuDNN that does not work: %s\n", list->sign, count,
           list->trouble);
    for (uint32_t i = 0; i < count; i++)
        most = workspaces[i] > most ? workspaces[i] : most;
    for (uint32_t i = 0; i < c->op.n_inputs; i++)
        in[i] = new_numbers(g, &c->in[i]);
    for (uint32_t i = 0; i < c->op.n_outputs; i++)
        out[i] = new_numbers(g, &c->out[i]);
    run_args args = {.in = in, .out = out, .workspace = new_block(g, (size_t)most)};
    for (c->spec.variant = 0; c->spec.variant < count; c->spec.variant++) {
        uint32_t v = c->spec.variant;
        run_kernel *kernel;
        must(backend->type->prepare(backend, &c->spec, &kernel, &diag));
        double seconds = time_kernel(g, kernel, &args);
        check(g->to_host(v == 0 ? first : result, address_of(out[0]), bytes));
        printf("%2u %9.1f us %10.3f MB  difference %.1e", v, seconds * 1e6,
               (double)workspaces[v] / 1e6, v == 0 ? 0 : difference(first, result, &c->out[0]));
        if (v < list->count)
            print_candidate(&list->items[v]);
        else
            printf("  our own");
        printf("\n");
        fflush(stdout);
        kernel->destroy(kernel);
    }
    free(first);
    free(result);
}

int main(int argc, char **argv)
{
    call c;
    bool listing = argc > 1 && strcmp(argv[1], "--list") == 0;
    read_call(&c, argc - 1 - listing, argv + 1 + listing);
    set_spec(&c);
    if (listing) {
        list_offline(&c);
        return 0;
    }
    neap_backend *backend;
    neap_backend_options options;
    gpu g;
    neap_backend_options_init(&options);
    options.tf32 = c.tf32;
    options.nondeterministic = c.nondeterministic;
    must(neap_backend_open_with(NULL, "cuda", &options, &backend, &diag));
    open_gpu(&g, ((cuda_backend *)backend)->libraries->stream);
    measure(&c, backend, &g);
    neap_backend_close(backend);
    return 0;
}
