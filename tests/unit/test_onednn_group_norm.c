/* Group normalization of the onednn backend gives the same bits for every number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "settings.h"

#include "run/specs.h"

#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_ONEDNN

enum { MOST_OPERANDS = 8 };

static neap_graph *build(uint32_t rank, const int64_t *shape)
{
    neap_network *net;
    neap_graph *graph;
    neap_diag diag = {0};
    assert_int_equal(neap_network_create(NULL, "groups", NEAP_F32, &net, &diag), NEAP_OK);
    neap_tensor x = neap_net_scale(net, "x", neap_net_parameter(net, "p", rank, shape), 2, 1);
    x = neap_net_group_norm(net, "op", x, 6, 1e-5);
    if (rank == 4) /* or the result would be row-major to be flattened */
        x = neap_net_adaptive_avg_pool2d(net, "pool", x, 1, 1);
    x = neap_net_flatten(net, "flat", x, 1);
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, shape);
    neap_tensor loss = neap_net_cross_entropy(net, "loss", x, labels);
    if (neap_network_finish(net, loss, NULL, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    neap_network_destroy(net);
    return graph;
}

static float *new_numbers(const run_array *array, uint64_t seed)
{
    int64_t n = neap_run_array_elements(array);
    float *numbers = malloc((size_t)n * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = run_random_real(seed, (uint64_t)i) + 0.25f;
    return numbers;
}

/* The results of an op, one after the other. */
static unsigned char *results_of(int threads, const neap_graph *graph, uint32_t op, size_t *bytes)
{
    neap_backend *backend;
    run_specs specs;
    run_kernel *kernel;
    neap_diag diag = {0};
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count;
    void *in[MOST_OPERANDS], *out[MOST_OPERANDS], *scratch = NULL;
    assert_int_equal(neap_backend_open(NULL, "onednn", threads, &backend, &diag), NEAP_OK);
    assert_int_equal(neap_run_specs_init(backend->allocator, graph, backend, &specs, &diag),
                     NEAP_OK);
    run_spec spec = neap_run_specs_at(&specs, op, 0);
    assert_int_equal(backend->type->variants(backend, &spec, workspaces, &count, &diag), NEAP_OK);
    assert_int_equal(posix_memalign(&scratch, 64, (size_t)workspaces[0] + 64), 0);
    assert_int_equal(backend->type->prepare(backend, &spec, &kernel, &diag), NEAP_OK);
    for (uint32_t i = 0; i < spec.op->n_inputs; i++)
        in[i] = new_numbers(&spec.in[i], i);
    for (uint32_t i = 0; i < spec.op->n_outputs; i++)
        out[i] = new_numbers(&spec.out[i], 100 + i);
    run_args args = {.in = in, .out = out, .workspace = scratch};
    assert_int_equal(kernel->run(kernel, &args, &diag), NEAP_OK);
    kernel->destroy(kernel);
    unsigned char *all = NULL;
    *bytes = 0;
    for (uint32_t i = 0; i < spec.op->n_outputs; i++) {
        size_t size = (size_t)neap_run_array_elements(&spec.out[i]) * sizeof(float);
        all = realloc(all, *bytes + size);
        assert_non_null(all);
        memcpy(all + *bytes, out[i], size);
        *bytes += size;
        free(out[i]);
    }
    for (uint32_t i = 0; i < spec.op->n_inputs; i++)
        free(in[i]);
    free(scratch);
    neap_run_specs_clear(&specs);
    neap_backend_close(backend);
    return all;
}

static void check(uint32_t rank, const int64_t *shape)
{
    neap_graph *graph = build(rank, shape);
    int found = 0;
    for (uint32_t op = 0; op < neap_graph_op_count(graph); op++) {
        if (strncmp(neap_graph_op(graph, op)->type, "group_norm", 10) != 0)
            continue;
        size_t bytes, again;
        unsigned char *alone = results_of(1, graph, op, &bytes);
        for (int threads = 2; threads <= 5; threads++) {
            unsigned char *shared = results_of(threads, graph, op, &again);
            assert_int_equal(bytes, again);
            assert_memory_equal(alone, shared, bytes);
            free(shared);
        }
        free(alone);
        found++;
    }
    assert_int_equal(found, 2);
    neap_graph_destroy(graph);
}

/* Larger than what one thread does alone. Images lie channels-last, sequences row by row. */
static void test_threads_do_not_change_results(void **state)
{
    (void)state;
    check(4, (int64_t[]){3, 24, 31, 17});
    check(3, (int64_t[]){5, 18, 401});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_do_not_change_results)};
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
