/*
 * The algorithms that cuBLASLt offers for a linear layer, with their workspaces and times. Needs a
 * GPU, the driver and cuBLASLt; found where the system finds them, or in /usr/local/cuda.
 *
 *     cublaslt_algos OP ROWS INPUTS FEATURES [bf16|f32|tf32] [bias]
 *
 * OP is forward, data or weight. With bias, forward adds one, and weight has cuBLASLt sum up its
 * gradient, too (BGRADB). One line for each candidate, in the order of the backend's variants: its
 * workspace in bytes, the limit of the search that found it, waves, algorithm, tile, stages,
 * splits, reduction scheme, swizzle, custom option; microseconds and TFLOP/s of the fastest of
 * several runs; whether a second run gave the same bits; and the largest difference from the first
 * candidate's result, as a share of its largest element.
 */
#include "run/backends/cuda/cublaslt_matmul.h"
#include "run/backends/cuda/libraries.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS  10
#define REPEATS 20 /* products of a round */

/* What is called of the driver here. */
typedef struct driver {
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(cu_context *, int);
    int (*cuCtxSetCurrent)(cu_context);
    int (*cuMemAlloc_v2)(cu_address *, size_t);
    int (*cuMemcpyHtoD_v2)(cu_address, const void *, size_t);
    int (*cuMemcpyDtoH_v2)(void *, cu_address, size_t);
    int (*cuMemsetD8_v2)(cu_address, unsigned char, size_t);
    int (*cuStreamCreate)(cu_stream *, unsigned);
    int (*cuStreamSynchronize)(cu_stream);
    int (*cuEventCreate)(cu_event *, unsigned);
    int (*cuEventRecord)(cu_event, cu_stream);
    int (*cuEventSynchronize)(cu_event);
    int (*cuEventElapsedTime)(float *, cu_event, cu_event);
} driver;

static driver cuda;

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s failed: error %d\n", what, result);
    exit(1);
}

#define CHECK(call) check(cuda.call, #call)

static void check_status(neap_status status, const neap_diag *diag)
{
    need(status == NEAP_OK, diag->message);
}

/* ---- Libraries ---- */

static void *open_library(const char *const *files)
{
    void *library = NULL;
    for (; !library && *files; files++)
        library = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    need(symbol != NULL, name);
    memcpy(function, &symbol, sizeof symbol);
}

static void load_driver(void)
{
    void *library = open_library((const char *const[]){"libcuda.so.1", "libcuda.so", NULL});
    need(library != NULL, "there is no driver");
#define FIND(name) find(library, #name, &cuda.name)
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuMemAlloc_v2);
    FIND(cuMemcpyHtoD_v2);
    FIND(cuMemcpyDtoH_v2);
    FIND(cuMemsetD8_v2);
    FIND(cuStreamCreate);
    FIND(cuStreamSynchronize);
    FIND(cuEventCreate);
    FIND(cuEventRecord);
    FIND(cuEventSynchronize);
    FIND(cuEventElapsedTime);
#undef FIND
}

static void load_cublaslt(cuda_api *api)
{
    void *library = open_library(
        (const char *const[]){"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                              "/usr/local/cuda/lib64/libcublasLt.so", NULL});
    need(library != NULL, "there is no cuBLASLt");
#define X(from, result, name, parameters)                                                          \
    if (strcmp(#from, "CUBLASLT") == 0)                                                            \
        find(library, #name, &api->name);
#include "run/backends/cuda/api.def"
#undef X
}

/* ---- The problem ---- */

typedef struct linear_problem {
    cuda_product product;
    int32_t epilogue;
    bool tf32;
    int64_t elements[4]; /* of a, b, d, the vector */
} linear_problem;

static cuda_matrix plain(int64_t columns)
{
    return (cuda_matrix){.row = {.dims = 1, .strides = {columns}},
                         .column = {.dims = 1, .strides = {1}}};
}

static linear_problem read_problem(int argc, char **argv)
{
    linear_problem p = {.epilogue = LT_EPILOGUE_DEFAULT};
    need(argc >= 5 && argc <= 7, "takes OP ROWS INPUTS FEATURES [bf16|f32|tf32] [bias]");
    int64_t rows = atoll(argv[2]), inputs = atoll(argv[3]), features = atoll(argv[4]);
    const char *type = argc > 5 ? argv[5] : "f32";
    bool bias = argc > 6;
    need(rows > 0 && inputs > 0 && features > 0, "sizes must be positive");
    p.tf32 = strcmp(type, "tf32") == 0;
    cuda_product product = {.type = strcmp(type, "bf16") == 0 ? NEAP_BF16 : NEAP_F32, .batches = 1};
    cuda_matrix x = plain(inputs), w = plain(inputs), y = plain(features);
    if (strcmp(argv[1], "forward") == 0) {
        product.m = rows, product.n = features, product.k = inputs;
        product.a = x, product.b = neap_cuda_transposed(w), product.d = y;
        p.epilogue = bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_DEFAULT;
    } else if (strcmp(argv[1], "data") == 0) {
        product.m = rows, product.n = inputs, product.k = features;
        product.a = y, product.b = w, product.d = x;
    } else {
        need(strcmp(argv[1], "weight") == 0, "OP is forward, data or weight");
        product.m = features, product.n = inputs, product.k = rows;
        product.a = neap_cuda_transposed(y), product.b = x, product.d = w;
        p.epilogue = bias ? LT_EPILOGUE_BGRADB : LT_EPILOGUE_DEFAULT;
    }
    p.product = product;
    p.elements[0] = product.m * product.k;
    p.elements[1] = product.k * product.n;
    p.elements[2] = product.m * product.n;
    p.elements[3] = features;
    return p;
}

static float number_at(const void *at, neap_dtype type, int64_t i)
{
    if (type == NEAP_F32)
        return ((const float *)at)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static cu_address new_operand(neap_dtype type, int64_t elements)
{
    size_t bytes = (size_t)(elements * neap_dtype_bytes(type));
    void *host = malloc(bytes);
    cu_address address;
    need(host != NULL, "out of memory");
    for (int64_t i = 0; i < elements; i++) {
        float number = (float)(run_random(1, (uint64_t)i) >> 56) / 128.0f - 1.0f;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        if (type == NEAP_F32)
            ((float *)host)[i] = number;
        else
            ((uint16_t *)host)[i] = (uint16_t)(bits >> 16);
    }
    CHECK(cuMemAlloc_v2(&address, bytes));
    CHECK(cuMemcpyHtoD_v2(address, host, bytes));
    free(host);
    return address;
}

static void *on_device(cu_address address)
{
    return (void *)(uintptr_t)address;
}

/* ---- Candidates ---- */

typedef struct bench {
    cuda_backend backend;
    cuda_api api;
    cuda_libraries libraries;
    linear_problem problem;
    cu_address operands[4], workspace;
    size_t workspace_bytes, result_bytes;
    void *first, *result, *again; /* on the host */
    cu_event begin, end;
} bench;

static void run(bench *b, const cublaslt_matmul *matmul)
{
    neap_diag diag = {0};
    cuda_addresses at = {.a = on_device(b->operands[0]),
                         .b = on_device(b->operands[1]),
                         .d = on_device(b->operands[2])};
    check_status(neap_cublaslt_matmul_run(&b->backend, matmul, &at, on_device(b->operands[3]),
                                          on_device(b->workspace), &diag),
                 &diag);
}

/* After other bytes in the workspace and where the result goes. */
static void get_result(bench *b, const cublaslt_matmul *matmul, unsigned char garbage, void *result)
{
    if (b->workspace_bytes > 0)
        CHECK(cuMemsetD8_v2(b->workspace, garbage, b->workspace_bytes));
    CHECK(cuMemsetD8_v2(b->operands[2], garbage, b->result_bytes));
    run(b, matmul);
    CHECK(cuStreamSynchronize(b->libraries.stream));
    CHECK(cuMemcpyDtoH_v2(result, b->operands[2], b->result_bytes));
}

static double fastest(bench *b, const cublaslt_matmul *matmul)
{
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        float milliseconds;
        CHECK(cuEventRecord(b->begin, b->libraries.stream));
        for (int i = 0; i < REPEATS; i++)
            run(b, matmul);
        CHECK(cuEventRecord(b->end, b->libraries.stream));
        CHECK(cuEventSynchronize(b->end));
        CHECK(cuEventElapsedTime(&milliseconds, b->begin, b->end));
        best = fmin(best, (double)milliseconds * 1e-3 / REPEATS);
    }
    return best;
}

static double difference(const bench *b)
{
    double most = 0, largest = 0;
    for (int64_t i = 0; i < b->problem.elements[2]; i++) {
        double is = (double)number_at(b->result, b->problem.product.type, i),
               first = (double)number_at(b->first, b->problem.product.type, i);
        most = fmax(most, fabs(is - first));
        largest = fmax(largest, fabs(first));
    }
    return largest > 0 ? most / largest : most;
}

static uint32_t config(const bench *b, const cublaslt_algo *algo, int attribute, size_t bytes)
{
    uint32_t value = 0;
    size_t written;
    int status =
        b->api.cublasLtMatmulAlgoConfigGetAttribute(algo, attribute, &value, bytes, &written);
    return status == LT_SUCCESS ? value : UINT32_MAX;
}

static void print_candidate(bench *b, const cublaslt_problem *problem, uint32_t index,
                            const cublaslt_candidate *candidate)
{
    static const int attributes[] = {LT_CONFIG_ID,     LT_CONFIG_TILE,      LT_CONFIG_STAGES,
                                     LT_CONFIG_SPLITS, LT_CONFIG_REDUCTION, LT_CONFIG_SWIZZLE,
                                     LT_CONFIG_CUSTOM};
    const cuda_product *p = &b->problem.product;
    cublaslt_matmul matmul = {0};
    neap_diag diag = {0};
    check_status(neap_cublaslt_matmul_init(&b->backend, problem, candidate, &matmul, &diag), &diag);
    get_result(b, &matmul, 0xff, b->result);
    get_result(b, &matmul, 0x11, b->again);
    if (index == 0)
        memcpy(b->first, b->result, b->result_bytes);
    bool same = memcmp(b->result, b->again, b->result_bytes) == 0;
    double seconds = fastest(b, &matmul);
    printf("%2" PRIu32 " %10" PRId64 " %10" PRId64 " %6.2f ", index, candidate->workspace,
           candidate->limit, (double)candidate->waves);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        printf(" %4" PRId32, (int32_t)config(b, &candidate->algo, attributes[i], 4));
    printf("  %10.2f %8.2f  %s  %.2g\n", seconds * 1e6,
           2e-12 * (double)p->m * (double)p->n * (double)p->k / seconds, same ? "same" : "DIFFERS",
           difference(b));
    neap_cublaslt_matmul_clear(&b->backend, &matmul);
}

static void prepare(bench *b)
{
    cu_context context;
    load_driver();
    load_cublaslt(&b->api);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    b->libraries.api = &b->api;
    CHECK(cuStreamCreate(&b->libraries.stream, 1));
    CHECK(cuEventCreate(&b->begin, 0));
    CHECK(cuEventCreate(&b->end, 0));
    check(b->api.cublasLtCreate(&b->libraries.cublaslt), "cublasLtCreate");
    b->backend.base.allocator = neap_allocator_system();
    b->backend.libraries = &b->libraries;
    b->backend.tf32 = b->problem.tf32;
    for (int i = 0; i < 4; i++)
        b->operands[i] = new_operand(b->problem.product.type, b->problem.elements[i]);
    b->result_bytes = (size_t)(b->problem.elements[2] * neap_dtype_bytes(b->problem.product.type));
    b->first = malloc(b->result_bytes);
    b->result = malloc(b->result_bytes);
    b->again = malloc(b->result_bytes);
    need(b->first && b->result && b->again, "out of memory");
}

int main(int argc, char **argv)
{
    static bench b;
    cublaslt_problem problem;
    const cublaslt_candidate *candidates;
    uint32_t count;
    neap_diag diag = {0};
    b.problem = read_problem(argc, argv);
    prepare(&b);
    need(neap_cublaslt_pose(&b.problem.product, b.problem.epilogue, b.problem.tf32, &problem),
         "cuBLASLt cannot take these matrices");
    check_status(neap_cublaslt_candidates(&b.backend, &problem, &candidates, &count, &diag), &diag);
    for (uint32_t i = 0; i < count; i++)
        if ((size_t)candidates[i].workspace > b.workspace_bytes)
            b.workspace_bytes = (size_t)candidates[i].workspace;
    if (b.workspace_bytes > 0)
        CHECK(cuMemAlloc_v2(&b.workspace, b.workspace_bytes));
    printf("cuBLASLt %zu: %" PRIu32 " candidates\n", b.api.cublasLtGetVersion(), count);
    printf(" #  workspace      limit  waves  algo tile stgs splt redu swiz cust          us   "
           "TFLOP/s  bits  differs\n");
    for (uint32_t i = 0; i < count; i++)
        print_candidate(&b, &problem, i, &candidates[i]);
    neap_cublaslt_cache_delete(b.backend.base.allocator, b.backend.matmuls);
    b.api.cublasLtDestroy(b.libraries.cublaslt);
    return 0;
}
