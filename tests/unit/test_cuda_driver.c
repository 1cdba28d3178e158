/* The device interface of backend cuda, on a stand-in for CUDA's driver. */
#include "fake_device.h"
#include "run/backends/cuda/code.h"
#include "run/backends/cuda/driver.h"
#include "run/backends/cuda/kernels/elementwise.h"
#include "run/backends/cuda/libraries.h"
#include "run/backends/cuda/walk.h"
#include "settings.h"

#include <neap/run.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    cuda_api *api;
    cuda_driver *driver;
} bench;

static void must(neap_status status, const neap_diag *diag)
{
    if (status != NEAP_OK)
        fail_msg("%s", diag->message);
}

#define MUST(call) must(call, &diag)

static bench begin(uint64_t seed)
{
    bench b;
    neap_diag diag;
    use_fake_device(seed);
    b.api = malloc(sizeof *b.api);
    assert_non_null(b.api);
    neap_cuda_api_load(b.api);
    MUST(neap_cuda_driver_open(NULL, b.api, 0, &b.driver, &diag));
    return b;
}

static void expect_nothing_left(void)
{
    fake_cuda_usage usage, none = {0};
    fake_device_usage(&usage);
    assert_memory_equal(&usage, &none, sizeof usage);
}

static void end(bench *b)
{
    neap_cuda_driver_close(b->driver);
    neap_cuda_api_unload(b->api);
    free(b->api);
    expect_nothing_left();
}

/* ---- The device ---- */

static void test_facts(void **state)
{
    (void)state;
    bench b = begin(1);
    const cuda_device *device = neap_cuda_device(b.driver);
    assert_string_equal(device->name, "Fake GPU");
    assert_int_equal(device->architecture, 90);
    assert_int_equal(device->multiprocessors, 2);
    assert_int_equal(device->memory, FAKE_CUDA_MEMORY);
    assert_ptr_equal(neap_cuda_driver_of(neap_cuda_platform(b.driver)), b.driver);
    end(&b);
    neap_cuda_machine machine;
    neap_gpu gpu;
    neap_cuda_describe(&machine);
    assert_int_equal(machine.gpus, 1);
    assert_string_equal(machine.problem, "");
    assert_string_equal(machine.libraries[0].version, "13.0");
    assert_int_equal(neap_cuda_describe_gpu(0, &gpu, NULL), NEAP_OK);
    assert_int_equal(gpu.major, 9);
    assert_int_equal(neap_cuda_describe_gpu(1, &gpu, NULL), NEAP_INVALID);
}

static void test_the_backend_opens(void **state)
{
    (void)state;
    neap_backend *backend;
    neap_diag diag;
    use_fake_device(1);
    MUST(neap_backend_open(NULL, "cuda", 1, &backend, &diag));
    char machine[200];
    snprintf(machine, sizeof machine,
             "Fake GPU, driver 13.0, NVRTC 13.99, cuDNN none, cuBLASLt none, kernels %04x.%d, f32",
             (unsigned)(neap_cuda_code_version() & 0xffff), CUDA_SEARCH_VERSION);
    assert_string_equal(neap_backend_machine(backend), machine);
    neap_backend_close(backend);
    neap_backend_options options;
    neap_backend_options_init(&options);
    options.device = 5;
    assert_int_equal(neap_backend_open_with(NULL, "cuda", &options, &backend, &diag), NEAP_INVALID);
    assert_non_null(strstr(diag.message, "there is no GPU 5: this machine has 1"));
    expect_nothing_left();
}

/* ---- NVML ---- */

static unsigned long long used_by_others; /* more each time it is asked */

static int start_nvml(void)
{
    return 0;
}

static int find_by_id(const char *id, nvml_device *device)
{
    *device = NULL;
    return strcmp(id, "0000:07:00.0") == 0 ? 0 : 2;
}

static int tell_memory(nvml_device device, nvml_memory *memory)
{
    (void)device;
    *memory = (nvml_memory){.total = 1 << 30, .used = used_by_others};
    used_by_others += 12345;
    return 0;
}

/* What is in use after opening and was not before is the context's. */
static void test_context_is_told_apart(void **state)
{
    (void)state;
    cuda_api api;
    cuda_driver *driver;
    cuda_memory memory;
    neap_diag diag;
    use_fake_device(1);
    neap_cuda_api_load(&api);
    for (int has_nvml = 0; has_nvml < 2; has_nvml++) {
        void *handle = api.handles[CUDA_LIBRARY_NVML];
        api.handles[CUDA_LIBRARY_NVML] = has_nvml ? &used_by_others : NULL;
        api.nvmlInit_v2 = api.nvmlShutdown = start_nvml;
        api.nvmlDeviceGetHandleByPciBusId_v2 = find_by_id;
        api.nvmlDeviceGetMemoryInfo = tell_memory;
        assert_int_equal(neap_cuda_driver_open(NULL, &api, 0, &driver, &diag), NEAP_OK);
        assert_int_equal(neap_cuda_measure_memory(driver, &memory, &diag), NEAP_OK);
        assert_int_equal(memory.context, has_nvml ? 12345 : -1);
        neap_cuda_driver_close(driver);
        api.handles[CUDA_LIBRARY_NVML] = handle;
    }
    neap_cuda_api_unload(&api);
    expect_nothing_left();
}

/* Whatever fails while it is opened, nothing is left behind. */
static void test_opening_fails(void **state)
{
    (void)state;
    static const char *const FUNCTIONS[] = {
        "cuInit",          "cuDeviceGetCount", "cuDeviceGet",     "cuDeviceGetAttribute",
        "cuMemGetInfo_v2", "cuStreamCreate",   "cuMemsetD8Async", "cuDevicePrimaryCtxRetain",
        "cuMemAlloc_v2"};
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++) {
        cuda_api api;
        cuda_driver *driver;
        neap_diag diag;
        use_fake_device(1);
        neap_cuda_api_load(&api);
        fake_device_fail(FUNCTIONS[i], 999);
        assert_int_not_equal(neap_cuda_driver_open(NULL, &api, 0, &driver, &diag), NEAP_OK);
        assert_non_null(strstr(diag.message, "CUDA_ERROR_FAKE (an error of the fake driver)"));
        neap_cuda_api_unload(&api);
        expect_nothing_left();
    }
}

/* ---- Memory and copies ---- */

static void test_memory(void **state)
{
    (void)state;
    bench b = begin(2);
    neap_diag diag;
    void *block, *host, *none;
    cuda_memory before, after;
    MUST(neap_cuda_measure_memory(b.driver, &before, &diag));
    MUST(neap_cuda_alloc(b.driver, 1 << 20, &block, &diag));
    assert_int_equal((uintptr_t)block % 256, 0);
    MUST(neap_cuda_measure_memory(b.driver, &after, &diag));
    assert_int_equal(after.used - before.used, 1 << 20);
    assert_int_equal(after.total, FAKE_CUDA_MEMORY);
    assert_int_equal(neap_cuda_alloc(b.driver, INT64_C(1) << 40, &none, &diag), NEAP_NO_MEMORY);
    assert_null(none);
    assert_non_null(strstr(diag.message, "has no room for 1.00 TiB (1099511627776 bytes): 255 MiB "
                                         "of its 256 MiB are free; plan within a smaller budget"));
    MUST(neap_cuda_alloc(b.driver, 0, &none, &diag));
    assert_null(none);
    MUST(neap_cuda_alloc_host(b.driver, 4096, &host, &diag));
    memset(host, 3, 4096);
    MUST(neap_cuda_fill(b.driver, block, 7, 1 << 20, CUDA_COMPUTE, &diag));
    MUST(neap_cuda_copy_in(b.driver, block, host, 4096, CUDA_COMPUTE, &diag));
    MUST(neap_cuda_copy_within(b.driver, (char *)block + 8192, block, 4096, CUDA_COMPUTE, &diag));
    unsigned char back[3 * 4096];
    MUST(neap_cuda_read(b.driver, back, block, sizeof back, &diag));
    assert_true(back[0] == 3 && back[4095] == 3 && back[4096] == 7 && back[8191] == 7 &&
                back[8192] == 3 && back[3 * 4096 - 1] == 3);
    unsigned char other[256];
    memset(other, 9, sizeof other);
    MUST(neap_cuda_pin(b.driver, other, sizeof other, &diag));
    MUST(neap_cuda_write(b.driver, block, other, sizeof other, &diag));
    MUST(neap_cuda_read(b.driver, back, block, sizeof other, &diag));
    assert_memory_equal(back, other, sizeof other);
    neap_cuda_unpin(b.driver, other);
    neap_cuda_free_host(b.driver, host);
    neap_cuda_free(b.driver, block);
    neap_cuda_free(b.driver, NULL);
    end(&b);
}

/* ---- Kernels ---- */

static void queue_relu(bench *b, const float *x, float *y, int64_t n)
{
    cuda_platform *platform = neap_cuda_platform(b->driver);
    const cuda_function *function;
    neap_diag diag;
    elementwise_params params = {.a = x, .y = y};
    params.walk.units = params.walk.extent[0] = n;
    params.walk.rank = 1;
    params.walk.by[0] = neap_cuda_divisor(n);
    for (int i = 0; i < WALK_OPERANDS; i++)
        params.walk.stride[0][i] = 1;
    cuda_dims dims = {.blocks = (uint32_t)(n / 256 + 1), .threads = 64};
    MUST(platform->type->find(platform, "relu_forward", NEAP_F32, &function, &diag));
    MUST(platform->type->launch(platform, function, &dims, &params, sizeof params, &diag));
}

static void test_kernels(void **state)
{
    (void)state;
    bench b = begin(3);
    cuda_platform *platform = neap_cuda_platform(b.driver);
    const cuda_function *one, *two;
    neap_diag diag;
    void *memory;
    float numbers[500];
    for (int i = 0; i < 500; i++)
        numbers[i] = (float)(i - 250);
    MUST(neap_cuda_alloc(b.driver, sizeof numbers, &memory, &diag));
    MUST(neap_cuda_write(b.driver, memory, numbers, sizeof numbers, &diag));
    queue_relu(&b, memory, memory, 500);
    MUST(neap_cuda_read(b.driver, numbers, memory, sizeof numbers, &diag));
    for (int i = 0; i < 500; i++)
        assert_true(numbers[i] == (float)(i < 250 ? 0 : i - 250));
    MUST(platform->type->find(platform, "relu_forward", NEAP_F32, &one, &diag));
    MUST(platform->type->find(platform, "relu_forward", NEAP_F32, &two, &diag));
    assert_ptr_equal(one, two);
    MUST(platform->type->find(platform, "relu_forward", NEAP_BF16, &two, &diag));
    assert_ptr_not_equal(one, two);
    assert_int_equal(platform->type->find(platform, "abacus", NEAP_F32, &two, &diag),
                     NEAP_INTERNAL);
    bool found = true;
    MUST(neap_cuda_take_trouble(b.driver, &found, &diag));
    assert_false(found);
    int32_t trouble = 1;
    MUST(neap_cuda_write(b.driver, platform->trouble, &trouble, sizeof trouble, &diag));
    MUST(neap_cuda_take_trouble(b.driver, &found, &diag));
    assert_true(found);
    MUST(neap_cuda_take_trouble(b.driver, &found, &diag));
    assert_false(found);
    MUST(neap_cuda_delay(b.driver, 1000, CUDA_OUT, &diag));
    MUST(neap_cuda_synchronize_all(b.driver, &diag));
    neap_cuda_free(b.driver, memory);
    end(&b);
}

static void test_compiling_all(void **state)
{
    (void)state;
    bench b = begin(3);
    fake_cuda_usage first, second;
    neap_diag diag;
    const cuda_function *function;
    cuda_platform *platform = neap_cuda_platform(b.driver);
    MUST(neap_cuda_compile_all(b.driver, NEAP_BF16, 2, &diag));
    fake_device_usage(&first);
    assert_true(first.modules >= 2);
    MUST(platform->type->find(platform, "relu_forward", NEAP_BF16, &function, &diag));
    fake_device_usage(&second);
    assert_int_equal(second.modules, first.modules);
    end(&b);
}

static void test_errors_have_names(void **state)
{
    (void)state;
    bench b = begin(3);
    cuda_platform *platform = neap_cuda_platform(b.driver);
    const cuda_function *function;
    neap_diag diag;
    elementwise_params params = {.walk = {.units = 0}};
    cuda_dims dims = {.blocks = 1, .threads = 2048};
    MUST(platform->type->find(platform, "relu_forward", NEAP_F32, &function, &diag));
    assert_int_equal(
        platform->type->launch(platform, function, &dims, &params, sizeof params, &diag),
        NEAP_INTERNAL);
    assert_non_null(strstr(diag.message, "kernel relu_forward cannot be launched"));
    assert_non_null(strstr(diag.message, "2048 threads"));
    dims.threads = 32;
    MUST(platform->type->launch(platform, function, &dims, &params, sizeof params, &diag));
    fake_device_fail("cuStreamSynchronize", 700);
    assert_int_equal(neap_cuda_synchronize(b.driver, CUDA_COMPUTE, &diag), NEAP_INTERNAL);
    assert_non_null(strstr(diag.message, "after kernel relu_forward"));
    fake_device_fail("cuModuleLoadData", 222);
    assert_int_equal(platform->type->find(platform, "relu_forward", NEAP_BF16, &function, &diag),
                     NEAP_INTERNAL);
    assert_non_null(strstr(diag.message, "elementwise.cu cannot be loaded"));
    MUST(platform->type->find(platform, "relu_forward", NEAP_BF16, &function, &diag));
    end(&b);
}

/* ---- Streams ---- */

enum { N = 1000, BYTES = N * (int)sizeof(float) };

typedef struct pipeline {
    float *host_in, *host_out; /* pinned */
    float *x, *y;              /* on the device */
    cu_event copied, computed, returned;
} pipeline;

static pipeline new_pipeline(bench *b)
{
    pipeline p;
    neap_diag diag;
    void *memory[4];
    MUST(neap_cuda_alloc_host(b->driver, BYTES, &memory[0], &diag));
    MUST(neap_cuda_alloc_host(b->driver, BYTES, &memory[1], &diag));
    MUST(neap_cuda_alloc(b->driver, BYTES, &memory[2], &diag));
    MUST(neap_cuda_alloc(b->driver, BYTES, &memory[3], &diag));
    MUST(neap_cuda_event_create(b->driver, true, &p.copied, &diag));
    MUST(neap_cuda_event_create(b->driver, false, &p.computed, &diag));
    MUST(neap_cuda_event_create(b->driver, true, &p.returned, &diag));
    p.host_in = memory[0];
    p.host_out = memory[1];
    p.x = memory[2];
    p.y = memory[3];
    return p;
}

static void clear_pipeline(bench *b, pipeline *p)
{
    neap_cuda_event_destroy(b->driver, p->copied);
    neap_cuda_event_destroy(b->driver, p->computed);
    neap_cuda_event_destroy(b->driver, p->returned);
    neap_cuda_free_host(b->driver, p->host_in);
    neap_cuda_free_host(b->driver, p->host_out);
    neap_cuda_free(b->driver, p->x);
    neap_cuda_free(b->driver, p->y);
}

/* In on one stream, computed on another, out on the third. */
static void queue_pipeline(bench *b, pipeline *p, bool waits)
{
    neap_diag diag;
    MUST(neap_cuda_copy_in(b->driver, p->x, p->host_in, BYTES, CUDA_IN, &diag));
    MUST(neap_cuda_record(b->driver, p->copied, CUDA_IN, &diag));
    if (waits)
        MUST(neap_cuda_wait(b->driver, CUDA_COMPUTE, p->copied, &diag));
    queue_relu(b, p->x, p->y, N);
    MUST(neap_cuda_record(b->driver, p->computed, CUDA_COMPUTE, &diag));
    if (waits)
        MUST(neap_cuda_wait(b->driver, CUDA_OUT, p->computed, &diag));
    MUST(neap_cuda_copy_out(b->driver, p->host_out, p->y, BYTES, CUDA_OUT, &diag));
    MUST(neap_cuda_record(b->driver, p->returned, CUDA_OUT, &diag));
}

static bool came_through(bench *b, bool waits)
{
    pipeline p = new_pipeline(b);
    neap_diag diag;
    bool done = true, right = true;
    double seconds = -1;
    for (int i = 0; i < N; i++)
        p.host_in[i] = (float)(i + 1);
    memset(p.host_out, 0, BYTES);
    queue_pipeline(b, &p, waits);
    MUST(neap_cuda_event_done(b->driver, p.returned, &done, &diag));
    assert_false(done);
    MUST(neap_cuda_event_synchronize(b->driver, p.returned, &diag));
    for (int i = 0; i < N; i++)
        right = right && p.host_out[i] == (float)(i + 1);
    MUST(neap_cuda_synchronize_all(b->driver, &diag));
    MUST(neap_cuda_event_done(b->driver, p.returned, &done, &diag));
    assert_true(done);
    if (waits) {
        MUST(neap_cuda_elapsed(b->driver, p.copied, p.returned, &seconds, &diag));
        assert_true(seconds > 0);
    }
    assert_int_equal(neap_cuda_elapsed(b->driver, p.computed, p.returned, &seconds, &diag),
                     NEAP_INTERNAL);
    clear_pipeline(b, &p);
    return right;
}

static void test_streams_wait_for_events(void **state)
{
    (void)state;
    int wrong = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        bench b = begin(seed);
        assert_true(came_through(&b, true));
        wrong += !came_through(&b, false);
        end(&b);
    }
    assert_true(wrong > 0); /* the stand-in shows what lacks an event */
}

/* ---- Recording ---- */

static void queue_forks(bench *b, pipeline *p, bool joins)
{
    neap_diag diag;
    MUST(neap_cuda_record(b->driver, p->computed, CUDA_COMPUTE, &diag));
    MUST(neap_cuda_wait(b->driver, CUDA_IN, p->computed, &diag));
    MUST(neap_cuda_copy_in(b->driver, p->x, p->host_in, BYTES, CUDA_IN, &diag));
    MUST(neap_cuda_record(b->driver, p->copied, CUDA_IN, &diag));
    MUST(neap_cuda_wait(b->driver, CUDA_COMPUTE, p->copied, &diag));
    queue_relu(b, p->x, p->y, N);
    MUST(neap_cuda_record(b->driver, p->computed, CUDA_COMPUTE, &diag));
    MUST(neap_cuda_wait(b->driver, CUDA_OUT, p->computed, &diag));
    MUST(neap_cuda_copy_out(b->driver, p->host_out, p->y, BYTES, CUDA_OUT, &diag));
    MUST(neap_cuda_record(b->driver, p->returned, CUDA_OUT, &diag));
    if (joins)
        MUST(neap_cuda_wait(b->driver, CUDA_COMPUTE, p->returned, &diag));
}

static void test_recorded_work_is_repeated(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        bench b = begin(seed);
        pipeline p = new_pipeline(&b);
        cu_graph_exec graph;
        neap_diag diag;
        memset(p.host_out, 0, BYTES);
        MUST(neap_cuda_capture_begin(b.driver, &diag));
        queue_forks(&b, &p, true);
        assert_int_equal(neap_cuda_synchronize(b.driver, CUDA_COMPUTE, &diag), NEAP_INTERNAL);
        MUST(neap_cuda_capture_end(b.driver, &graph, &diag));
        MUST(neap_cuda_synchronize_all(b.driver, &diag));
        assert_true(p.host_out[5] == 0);
        for (int step = 1; step <= 3; step++) {
            for (int i = 0; i < N; i++)
                p.host_in[i] = (float)(step * i - 7);
            MUST(neap_cuda_graph_launch(b.driver, graph, &diag));
            MUST(neap_cuda_synchronize(b.driver, CUDA_COMPUTE, &diag));
            for (int i = 0; i < N; i++)
                assert_true(p.host_out[i] == (float)(step * i > 7 ? step * i - 7 : 0));
        }
        neap_cuda_graph_destroy(b.driver, graph);
        clear_pipeline(&b, &p);
        end(&b);
    }
}

static void test_recording_fails(void **state)
{
    (void)state;
    bench b = begin(1);
    pipeline p = new_pipeline(&b);
    cu_graph_exec graph;
    neap_diag diag;
    MUST(neap_cuda_capture_begin(b.driver, &diag));
    queue_forks(&b, &p, false);
    assert_int_equal(neap_cuda_capture_end(b.driver, &graph, &diag), NEAP_INTERNAL);
    assert_null(graph);
    MUST(neap_cuda_capture_begin(b.driver, &diag));
    queue_forks(&b, &p, true);
    neap_cuda_capture_abandon(b.driver);
    MUST(neap_cuda_capture_begin(b.driver, &diag));
    queue_forks(&b, &p, true);
    fake_device_fail("cuGraphInstantiateWithFlags", 1);
    assert_int_equal(neap_cuda_capture_end(b.driver, &graph, &diag), NEAP_INTERNAL);
    assert_null(graph);
    queue_pipeline(&b, &p, true);
    MUST(neap_cuda_synchronize_all(b.driver, &diag));
    clear_pipeline(&b, &p);
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_the_backend_opens),
        cmocka_unit_test(test_context_is_told_apart),
        cmocka_unit_test(test_opening_fails),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_compiling_all),
        cmocka_unit_test(test_errors_have_names),
        cmocka_unit_test(test_streams_wait_for_events),
        cmocka_unit_test(test_recorded_work_is_repeated),
        cmocka_unit_test(test_recording_fails),
    };
    return cmocka_run_group_tests_name("cuda driver", tests, NULL, NULL);
}
