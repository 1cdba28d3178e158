/*
 * Convolutions of the onednn backend on images larger than those of the random networks: all
 * variants give the same result up to rounding, including Winograd's algorithm and a batch
 * processed in parts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "settings.h"

#include "base/random.h"
#include "run/specs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_ONEDNN

/* Data through a 1 x 1 convolution (so that the next has a data gradient) and a 3 x 3 one, then
   through a 1 x 1 convolution with strides. */
static neap_graph *build(int64_t images, int64_t channels, int64_t size)
{
    neap_diag diag;
    neap_network *net;
    neap_graph *graph;
    assert_int_equal(neap_network_create(NULL, "convs", NEAP_F32, &net, &diag), NEAP_OK);
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, 4, (int64_t[]){images, 16, size, size});
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, &images);
    neap_conv2d first = {.channels = channels, .kernel_h = 1, .kernel_w = 1},
                second = {.channels = channels,
                          .kernel_h = 3,
                          .kernel_w = 3,
                          .pad_h = 1,
                          .pad_w = 1,
                          .bias = true,
                          .relu = true},
                third = {.channels = 2 * channels,
                         .kernel_h = 1,
                         .kernel_w = 1,
                         .stride_h = 2,
                         .stride_w = 2};
    x = neap_net_conv2d(net, "second", neap_net_conv2d(net, "first", x, &first), &second);
    x = neap_net_conv2d(net, "third", x, &third);
    x = neap_net_flatten(net, "flat", neap_net_adaptive_avg_pool2d(net, "pool", x, 1, 1), 1);
    neap_tensor loss = neap_net_cross_entropy(net, "loss", x, labels);
    assert_int_equal(neap_network_finish(net, loss, NULL, &graph, &diag), NEAP_OK);
    neap_network_destroy(net);
    return graph;
}

static void *block_of(const run_array *array)
{
    void *block = NULL;
    size_t bytes = (size_t)(neap_run_array_elements(array) * neap_dtype_bytes(array->dtype));
    assert_int_equal(posix_memalign(&block, 64, bytes), 0);
    memset(block, 0xff, bytes); /* not numbers */
    return block;
}

#define GUARD ((size_t)1 << 16)

/* A workspace with known bytes after it, where a kernel must not write. */
static unsigned char *guarded(int64_t workspace)
{
    void *block = NULL;
    assert_int_equal(posix_memalign(&block, 64, (size_t)workspace + GUARD), 0);
    memset((unsigned char *)block + workspace, 0xa5, GUARD);
    return block;
}

static void expect_guard(const unsigned char *block, int64_t workspace, const run_spec *spec)
{
    for (size_t i = GUARD; i-- > 0;)
        if (block[(size_t)workspace + i] != 0xa5)
            fail_msg("%s, variant %u: writes %zu bytes past its workspace of %lld", spec->op->type,
                     spec->variant, i + 1, (long long)workspace);
}

/* Runs one variant on the operands; results into fresh blocks. */
static void run_variant(neap_backend *backend, run_spec spec, int64_t workspace, void *const *in,
                        void **out)
{
    neap_diag diag;
    run_kernel *kernel;
    unsigned char *scratch = guarded(workspace);
    for (uint32_t i = 0; i < spec.op->n_outputs; i++)
        out[i] = block_of(&spec.out[i]);
    assert_int_equal(backend->type->prepare(backend, &spec, &kernel, &diag), NEAP_OK);
    run_args args = {.in = in, .out = out, .workspace = scratch};
    assert_int_equal(kernel->run(kernel, &args, &diag), NEAP_OK);
    kernel->destroy(kernel);
    expect_guard(scratch, workspace, &spec);
    free(scratch);
}

/* The root of the mean square of the difference, as a share of that of the numbers. */
static double difference(const float *a, const float *b, int64_t count)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += pow((double)a[i] - (double)b[i], 2);
        size += pow((double)a[i], 2);
    }
    return size > 0 ? sqrt(apart / size) : apart;
}

/* Returns the number of variants. */
static uint32_t compare_variants(neap_backend *backend, run_specs *specs, uint32_t op)
{
    neap_diag diag;
    run_spec spec = neap_run_specs_at(specs, op, 0);
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count;
    void *in[3], *out[RUN_MOST_VARIANTS][2];
    uint64_t random = 7;
    for (uint32_t i = 0; i < spec.op->n_inputs; i++) {
        in[i] = block_of(&spec.in[i]);
        for (int64_t j = 0; j < neap_run_array_elements(&spec.in[i]); j++)
            ((float *)in[i])[j] = (float)neap_random_real(&random) - 0.5f;
    }
    assert_int_equal(backend->type->variants(backend, &spec, workspaces, &count, &diag), NEAP_OK);
    for (uint32_t v = 0; v < count; v++) {
        spec.variant = v;
        run_variant(backend, spec, workspaces[v], in, out[v]);
        for (uint32_t i = 0; i < spec.op->n_outputs; i++) {
            double apart = difference(out[0][i], out[v][i], neap_run_array_elements(&spec.out[i]));
            if (!(apart < 3e-5))
                print_message("%s, result %u: variant %u is %g from variant 0\n", spec.op->type, i,
                              v, apart);
            assert_true(apart < 3e-5);
        }
    }
    for (uint32_t v = 0; v < count; v++)
        for (uint32_t i = 0; i < spec.op->n_outputs; i++)
            free(out[v][i]);
    for (uint32_t i = 0; i < spec.op->n_inputs; i++)
        free(in[i]);
    return count;
}

static void compare_all(int64_t images, int64_t channels, int64_t size, int threads)
{
    neap_diag diag;
    neap_backend *backend;
    run_specs specs;
    neap_graph *graph = build(images, channels, size);
    assert_int_equal(neap_backend_open(NULL, "onednn", threads, &backend, &diag), NEAP_OK);
    assert_int_equal(neap_run_specs_init(backend->allocator, graph, backend, &specs, &diag),
                     NEAP_OK);
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (strncmp(neap_graph_op(graph, o)->type, "conv2d", 6) == 0)
            assert_true(compare_variants(backend, &specs, o) >= 1);
    neap_run_specs_clear(&specs);
    neap_backend_close(backend);
    neap_graph_destroy(graph);
}

static void test_variants_agree(void **state)
{
    (void)state;
    compare_all(3, 32, 30, 2);
    compare_all(2, 64, 17, 1);
}

static void test_parts_agree(void **state)
{
    (void)state;
    compare_all(4, 32, 224, 2); /* two images of 12.8 MB at a time */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants_agree),
                                       cmocka_unit_test(test_parts_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void test_nothing(void **state)
{
    (void)state;
    skip_because("this build has no oneDNN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
