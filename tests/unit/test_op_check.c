/*
 * Ops whose operands or attributes do not belong together are refused with a line that says why;
 * whatever is not refused, the ref backend runs without leaving its operands' memory. Every op of
 * op_cases.h is broken in every way, one number at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_cases.h"
#include "run/backend.h"
#include "run/op_check.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };

/* An op that can be changed. */
typedef struct patient {
    neap_op op;
    neap_attr attrs[MOST];
    run_array arrays[2 * MOST]; /* inputs, then outputs from MOST on */
} patient;

static uint64_t refused, accepted;

static void set_up(patient *p, const neap_graph *graph, const neap_op *op)
{
    memset(p, 0, sizeof *p);
    p->op = *op;
    assert_true(op->n_inputs <= MOST && op->n_outputs <= MOST && op->n_attrs <= MOST);
    memcpy(p->attrs, op->attrs, op->n_attrs * sizeof *op->attrs);
    p->op.attrs = p->attrs;
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        bool input = i < op->n_inputs;
        const neap_value *value =
            neap_graph_value(graph, input ? op->inputs[i] : op->outputs[i - op->n_inputs]);
        run_array *array = &p->arrays[input ? i : MOST + i - op->n_inputs];
        bool half = value->dtype == NEAP_F16 || value->dtype == NEAP_BF16;
        array->dtype = half ? NEAP_F32 : value->dtype;
        array->rank = value->rank;
        memcpy(array->shape, value->shape, value->rank * sizeof *value->shape);
        neap_run_array_set_plain(array);
    }
}

/* Exactly the array's elements: zeros are in range for integers, too. */
static void *new_elements(const run_array *array)
{
    void *elements =
        calloc((size_t)neap_run_array_elements(array), (size_t)neap_dtype_bytes(array->dtype));
    assert_non_null(elements);
    return elements;
}

static void run(neap_backend *backend, const patient *p, const run_spec *spec)
{
    const void *in[MOST];
    void *out[MOST], *all[2 * MOST];
    run_kernel *kernel;
    neap_diag diag = {0};
    for (uint32_t i = 0; i < p->op.n_inputs; i++)
        in[i] = all[i] = new_elements(&spec->in[i]);
    for (uint32_t i = 0; i < p->op.n_outputs; i++)
        out[i] = all[MOST + i] = new_elements(&spec->out[i]);
    if (neap_run_backend_ref.prepare(backend, spec, &kernel, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    if (kernel->run(kernel, &(run_args){.in = in, .out = out}, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    kernel->destroy(kernel);
    for (uint32_t i = 0; i < p->op.n_inputs; i++)
        free(all[i]);
    for (uint32_t i = 0; i < p->op.n_outputs; i++)
        free(all[MOST + i]);
}

static bool try_patient(neap_backend *backend, patient *p)
{
    neap_diag diag = {0};
    for (uint32_t i = 0; i < 2 * MOST; i++)
        neap_run_array_set_plain(&p->arrays[i]);
    run_spec spec = {.op = &p->op, .in = p->arrays, .out = p->arrays + MOST};
    bool supported = neap_run_backend_ref.supports_op(backend, &spec, &diag);
    if (supported) {
        accepted++;
        run(backend, p, &spec);
    } else {
        refused++;
        assert_int_equal(diag.status, NEAP_UNSUPPORTED);
        assert_non_null(strstr(diag.message, p->op.name));
    }
    return supported;
}

/* ---- Ways to break an op ---- */

static void break_array(neap_backend *backend, const patient *whole, uint32_t i)
{
    static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_I64, NEAP_I32, NEAP_U8};
    patient p = *whole;
    for (uint32_t d = 0; d < whole->arrays[i].rank; d++)
        for (int64_t change = -1; change <= 3; change++) {
            p = *whole;
            p.arrays[i].shape[d] += change;
            if (p.arrays[i].shape[d] > 0)
                try_patient(backend, &p);
        }
    for (int change = -1; change <= 1; change += 2) {
        p = *whole;
        p.arrays[i].rank += (uint32_t)change;
        if (change > 0 && p.arrays[i].rank <= NEAP_MAX_RANK)
            p.arrays[i].shape[p.arrays[i].rank - 1] = 2;
        if (p.arrays[i].rank >= 1 && p.arrays[i].rank <= NEAP_MAX_RANK)
            try_patient(backend, &p);
    }
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        p = *whole;
        p.arrays[i].dtype = types[k];
        try_patient(backend, &p);
    }
}

static void break_attr(neap_backend *backend, const patient *whole, uint32_t i)
{
    static const int64_t numbers[] = {0, 1, 2, 3, 5, -1, 100, INT32_MAX, INT64_MAX, INT64_MIN};
    patient p = *whole;
    p.attrs[i].name = "other";
    try_patient(backend, &p);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        p = *whole;
        p.attrs[i].integer = numbers[k];
        p.attrs[i].real = (double)numbers[k];
        try_patient(backend, &p);
    }
}

static void break_op(neap_backend *backend, const patient *whole)
{
    patient p = *whole;
    for (uint32_t i = 0; i < whole->op.n_inputs; i++)
        break_array(backend, whole, i);
    for (uint32_t i = 0; i < whole->op.n_outputs; i++)
        break_array(backend, whole, MOST + i);
    for (uint32_t i = 0; i < whole->op.n_attrs; i++)
        break_attr(backend, whole, i);
    for (int change = -1; change <= 1; change += 2) {
        p = *whole;
        p.op.n_inputs += (uint32_t)change;
        if (change > 0)
            p.arrays[p.op.n_inputs - 1] = p.arrays[0];
        try_patient(backend, &p);
        p = *whole;
        p.op.n_outputs += (uint32_t)change;
        if (change > 0)
            p.arrays[MOST + p.op.n_outputs - 1] = p.arrays[MOST];
        try_patient(backend, &p);
    }
    p = *whole;
    p.op.type = "unheard-of";
    assert_false(try_patient(backend, &p));
}

static void test_broken_ops(void **state)
{
    neap_backend *backend;
    patient whole;
    (void)state;
    assert_int_equal(neap_backend_open(NULL, "ref", 1, &backend, NULL), NEAP_OK);
    for (size_t i = 0; i < n_op_cases; i++) {
        neap_graph *graph = op_case_graph(&op_cases[i]);
        for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
            set_up(&whole, graph, neap_graph_op(graph, o));
            assert_true(try_patient(backend, &whole));
            break_op(backend, &whole);
        }
        neap_graph_destroy(graph);
    }
    neap_backend_close(backend);
    print_message("%llu refused, %llu run\n", (unsigned long long)refused,
                  (unsigned long long)accepted);
    assert_true(refused > accepted);
}

/* A broken shape or number is named, not only refused. */
static void test_messages(void **state)
{
    static const neap_attr attrs[] = {{.name = "factor", .is_real = true, .real = 1}};
    const run_array arrays[2] = {{NEAP_F32, 1, {3}, {1}}, {NEAP_F32, 1, {4}, {1}}};
    neap_op op = {.name = "half", .type = "scale", .n_inputs = 1, .n_outputs = 1, .n_attrs = 1};
    neap_diag diag = {0};
    (void)state;
    op.attrs = attrs;
    run_spec spec = {.op = &op, .in = arrays, .out = arrays + 1};
    assert_int_equal(neap_run_check_op(&spec, &diag), NEAP_UNSUPPORTED);
    assert_string_equal(diag.message,
                        "op \"half\" (scale): operands that must have one shape differ");
    spec.out = arrays;
    assert_int_equal(neap_run_check_op(&spec, &diag), NEAP_UNSUPPORTED);
    assert_string_equal(diag.message, "op \"half\" (scale): lacks the attribute \"offset\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_ops),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests_name("op_check", tests, NULL, NULL);
}
