/*
 * The backward pass is right, and reads no more than it needs. Graphs of op_cases.h run on the
 * kernels of reference_ops.h, which see only what the graph lists:
 *
 * - gradients equal finite differences of the forward pass, so the lists suffice;
 * - other contents for any one listed input change some result of its op, so none can be left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/network_internal.h"
#include "op_cases.h"
#include "reference_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEED 20240607

/* ---- Gradients ---- */

static double loss_with(ref_run *run, double *number, double contents)
{
    uint32_t count;
    double old = *number;
    *number = contents;
    ref_run_pass(run, NEAP_FORWARD);
    *number = old;
    return run->values[neap_graph_outputs(run->graph, &count)[0]].at[0];
}

/* One parameter against central differences. */
static void check_gradient(const ref_run *computed, ref_run *scratch, uint32_t parameter,
                           uint32_t gradient, const char *name)
{
    const double step = 1e-5;
    const neap_value *p = neap_graph_value(computed->graph, parameter);
    const ref_tensor *found = &computed->values[gradient];
    double largest = 0;
    assert_int_equal(found->n, computed->values[parameter].n);
    for (int64_t i = 0; i < found->n; i++) {
        double *number = &scratch->values[parameter].at[i];
        double slope = 1.25 *
                       (loss_with(scratch, number, *number + step) -
                        loss_with(scratch, number, *number - step)) /
                       (2 * step);
        if (!(fabs(found->at[i] - slope) <= 1e-7 * (1 + fabs(slope))))
            fail_msg("%s: d loss / d %s[%d] is %.12g, the graph says %.12g", name, p->name, (int)i,
                     slope, found->at[i]);
        largest = fmax(largest, fabs(slope));
    }
    if (largest < 1e-3)
        fail_msg("%s: the gradient of %s is all zeros, it shows nothing", name, p->name);
}

/* The outputs are the loss and one gradient a parameter, in the order of the parameters. */
static void check_gradients(const ref_run *run, const char *name)
{
    const neap_graph *graph = run->graph;
    uint32_t n_outputs, next = 1;
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    ref_run scratch;
    ref_run_init(&scratch, graph, SEED);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (strcmp(value->kind, NEAP_KIND_PARAMETER) != 0)
            continue;
        assert_true(next < n_outputs);
        const neap_value *gradient = neap_graph_value(graph, outputs[next]);
        assert_int_equal(gradient->dtype, value->dtype);
        assert_int_equal(gradient->rank, value->rank);
        assert_memory_equal(gradient->shape, value->shape, value->rank * sizeof *value->shape);
        check_gradient(run, &scratch, v, outputs[next++], name);
    }
    assert_int_equal(next, n_outputs);
    ref_run_clear(&scratch);
}

/* ---- Reads ---- */

typedef struct operands {
    ref_tensor *in, *out;
    uint32_t n_in, n_out;
} operands;

/* Copies of what an op reads; its results come later. */
static operands inputs_of(const ref_run *run, const neap_op *op)
{
    operands o = {.n_in = op->n_inputs, .n_out = op->n_outputs};
    o.in = calloc(o.n_in, sizeof *o.in);
    o.out = calloc(o.n_out, sizeof *o.out);
    assert_non_null(o.in);
    assert_non_null(o.out);
    for (uint32_t i = 0; i < o.n_in; i++)
        o.in[i] = ref_copy(&run->values[op->inputs[i]]);
    return o;
}

static void clear_operands(operands *o)
{
    for (uint32_t i = 0; i < o->n_in; i++)
        ref_clear(&o->in[i]);
    for (uint32_t i = 0; i < o->n_out; i++)
        ref_clear(&o->out[i]);
    free(o->in);
    free(o->out);
}

static bool same_results(const ref_run *run, const neap_op *op, const operands *o)
{
    for (uint32_t i = 0; i < o->n_out; i++)
        if (memcmp(o->out[i].at, run->values[op->outputs[i]].at,
                   (size_t)o->out[i].n * sizeof(double)) != 0)
            return false;
    return true;
}

static void check_reads(const ref_run *run, const char *name)
{
    random_source random = {SEED + 1};
    for (uint32_t id = 0; id < neap_graph_op_count(run->graph); id++) {
        const neap_op *op = neap_graph_op(run->graph, id);
        for (uint32_t i = 0; i < op->n_inputs; i++) {
            operands o = inputs_of(run, op);
            ref_scramble(run, id, i, &o.in[i], &random);
            ref_run_op(run, id, o.in, o.out);
            if (same_results(run, op, &o))
                fail_msg("%s: op \"%s\" (%s) reads \"%s\" for nothing", name, op->name, op->type,
                         neap_graph_value(run->graph, op->inputs[i])->name);
            clear_operands(&o);
        }
    }
}

/* ---- Marks ---- */

/*
 * In place: the type allows it, an op makes the input, and the output has the same elements and
 * fills the input's storage. Whether kernels are right then is for test_backends.
 */
static void check_in_place(const ref_run *run, const char *name)
{
    for (uint32_t id = 0; id < neap_graph_op_count(run->graph); id++) {
        const neap_op *op = neap_graph_op(run->graph, id);
        const op_def *def = neap_op_def_find(op->type);
        if (op->in_place_input == NEAP_NONE)
            continue;
        uint32_t i = 0;
        while (op->inputs[i] != op->in_place_input)
            i++;
        if (!(def->in_place >> i & 1))
            fail_msg("%s: op \"%s\" (%s) cannot write over its input %u", name, op->name, op->type,
                     i);
        assert_int_equal(op->in_place_output, op->outputs[def->in_place_output]);
        const neap_value *input = neap_graph_value(run->graph, op->in_place_input);
        const neap_value *output = neap_graph_value(run->graph, op->in_place_output);
        assert_int_not_equal(input->producer, NEAP_NONE);
        assert_int_equal(input->dtype, output->dtype);
        assert_int_equal(output->storage, op->in_place_output);
        assert_int_equal(neap_graph_value(run->graph, input->storage)->bytes, output->bytes);
    }
}

/* A view's elements are all found in its storage. */
static void check_views(const ref_run *run, const char *name)
{
    for (uint32_t v = 0; v < neap_graph_value_count(run->graph); v++) {
        const neap_value *value = neap_graph_value(run->graph, v);
        if (value->view_of == NEAP_NONE)
            continue;
        const ref_tensor *view = &run->values[v], *whole = &run->values[value->storage];
        assert_int_equal(view->dtype, whole->dtype);
        for (int64_t i = 0, k = 0; i < view->n; i++, k++) {
            while (k < whole->n && whole->at[k] != view->at[i]) /* views keep the order */
                k++;
            if (k >= whole->n)
                fail_msg("%s: \"%s\" is no view", name, value->name);
        }
    }
}

/* ---- Every case is a test ---- */

static void test_case(void **state)
{
    const op_case *c = *state;
    neap_graph *graph = op_case_graph(c);
    ref_run run;
    ref_run_init(&run, graph, SEED);
    ref_run_pass(&run, NEAP_FORWARD);
    ref_run_pass(&run, NEAP_BACKWARD);
    check_gradients(&run, c->name);
    check_reads(&run, c->name);
    check_in_place(&run, c->name);
    check_views(&run, c->name);
    ref_run_clear(&run);
    neap_graph_destroy(graph);
}

int main(void)
{
    size_t n_op_cases = op_case_count(), count = n_op_cases + n_network_cases;
    op_case *cases = calloc(count, sizeof *cases);
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    int failed = 1;
    if (cases && tests) {
        for (size_t i = 0; i < n_op_cases; i++)
            cases[i] = *op_case_at(i);
        memcpy(cases + n_op_cases, network_cases, n_network_cases * sizeof *cases);
        for (size_t i = 0; i < count; i++)
            tests[i] = (struct CMUnitTest){
                .name = cases[i].name, .test_func = test_case, .initial_state = &cases[i]};
        failed = _cmocka_run_group_tests("gradients", tests, count, NULL, NULL);
    }
    free(tests);
    free(cases);
    return failed;
}
