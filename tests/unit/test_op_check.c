/*
 * Ops with inconsistent operands or attributes are rejected with a one-line reason; the ref backend
 * runs every op that is not rejected without accessing memory outside its operands. Every op of
 * op_cases.h is altered in every way, one number at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_cases.h"
#include "run/backend.h"

#include <math.h>
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
    void *in[MOST], *out[MOST], *all[2 * MOST];
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
            p.arrays[MOST + p.op.n_outputs - 1] = p.arrays[whole->op.n_outputs > 0 ? MOST : 0];
        if (whole->op.n_outputs > 0 || change > 0)
            try_patient(backend, &p);
    }
    if (whole->op.n_updates > 0) { /* what a kernel overwrites is what the op says */
        p = *whole;
        p.op.n_updates--;
        assert_false(try_patient(backend, &p));
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
    size_t n_op_cases = op_case_count();
    for (size_t i = 0; i < n_op_cases + n_update_cases; i++) {
        neap_graph *graph = i < n_op_cases ? op_case_graph(op_case_at(i))
                                           : update_case_graph(&update_cases[i - n_op_cases]);
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

/* ---- Messages: each names what is wrong ---- */

static void expect(const neap_op *op, const run_array *in, const run_array *out, const char *why)
{
    neap_diag diag = {0};
    run_spec spec = {.op = op, .in = in, .out = out};
    assert_int_equal(neap_run_check_op(&spec, &diag), why ? NEAP_UNSUPPORTED : NEAP_OK);
    assert_string_equal(diag.message, why ? why : "");
}

static void test_messages(void **state)
{
    (void)state;
    const neap_attr attrs[] = {{.name = "factor", .is_real = true, .real = 1},
                               {.name = "offset", .is_real = true, .real = 0},
                               {.name = "offset", .is_real = true, .real = HUGE_VAL}};
    const run_array three = {NEAP_F32, 1, {3}, {1}}, four = {NEAP_F32, 1, {4}, {1}};
    const run_array ids = {NEAP_I64, 1, {3}, {1}};
    neap_op op = {.name = "half", .type = "scale", .n_inputs = 1, .n_outputs = 1, .attrs = attrs};
    op.n_attrs = 1;
    expect(&op, &three, &three, "op \"half\" (scale): lacks the attribute \"offset\"");
    op.n_attrs = 2;
    expect(&op, &three, &three, NULL);
    expect(&op, &three, &four,
           "op \"half\" (scale): \"y\" is f32[4], which does not fit \"x[*S] -> y[*S]\"");
    expect(&op, &ids, &three,
           "op \"half\" (scale): \"x\" is i64[3]; it must be floating-point numbers");
    op.n_outputs = 0;
    expect(&op, &three, &three,
           "op \"half\" (scale): reads 1 and writes 0 values; it takes \"x[*S] -> y[*S]\"");
    op.n_outputs = 1;
    neap_attr infinite[2] = {attrs[0], attrs[2]};
    op.attrs = infinite;
    expect(&op, &three, &three, "op \"half\" (scale): \"offset\" is inf");
}

/* What follows from a rule: the output of a padding. */
static void test_messages_of_rules(void **state)
{
    (void)state;
    neap_attr attrs[] = {{.name = "top", .integer = 1},
                         {.name = "bottom", .integer = 0},
                         {.name = "left", .integer = 2},
                         {.name = "right", .integer = 0}};
    const run_array x = {.dtype = NEAP_F32, .rank = 4, .shape = {2, 3, 4, 5}};
    run_array y = {.dtype = NEAP_F32, .rank = 4, .shape = {2, 3, 5, 7}};
    neap_op op = {.name = "pad",
                  .type = "pad2d",
                  .n_inputs = 1,
                  .n_outputs = 1,
                  .n_attrs = 4,
                  .attrs = attrs};
    expect(&op, &x, &y, NULL);
    y.shape[3] = 6;
    expect(&op, &x, &y,
           "op \"pad\" (pad2d): the extent X in \"x:any[N,C,H,W] -> y:any[N,C,Y,X]\" is 6; "
           "it must be 7");
    attrs[2].integer = -1;
    expect(&op, &x, &y, "op \"pad\" (pad2d): \"left\" is -1");
    attrs[2] = (neap_attr){.name = "left", .is_real = true, .real = 1e300}; /* no integer */
    expect(&op, &x, &y, "op \"pad\" (pad2d): \"left\" is 4611686018427387904");
}

/* The tied choices of attention's backward op: what it reads, and what it says it wants. */
static void test_alternatives(void **state)
{
    (void)state;
    neap_attr attrs[] = {{.name = "heads", .integer = 2},      {.name = "causal", .integer = 0},
                         {.name = "dropout", .is_real = true}, {.name = "wants_dq", .integer = 0},
                         {.name = "wants_dk", .integer = 0},   {.name = "wants_dv", .integer = 1}};
    const run_array rows = {.dtype = NEAP_F32, .rank = 3, .shape = {1, 3, 4}};
    const run_array lse = {.dtype = NEAP_F32, .rank = 3, .shape = {1, 2, 3}};
    const run_array four[] = {rows, rows, rows, lse}, six[] = {rows, rows, rows, rows, rows, lse};
    neap_op op = {.name = "a", .type = "attention_bw", .n_inputs = 4, .n_outputs = 1, .n_attrs = 6};
    op.attrs = attrs;
    run_spec spec = {.op = &op, .in = four, .out = &rows};
    assert_int_equal(neap_run_check_op(&spec, NULL), NEAP_OK);
    attrs[4].integer = 1; /* dk needs v */
    attrs[5].integer = 0;
    assert_int_equal(neap_run_check_op(&spec, NULL), NEAP_UNSUPPORTED);
    op.n_inputs = 6;
    spec.in = six;
    assert_int_equal(neap_run_check_op(&spec, NULL), NEAP_OK);
    attrs[4].integer = 0; /* dv does not */
    attrs[5].integer = 1;
    assert_int_equal(neap_run_check_op(&spec, NULL), NEAP_UNSUPPORTED);
}

/* ---- Tables of kernels ---- */

static const run_op nothing;
static const run_op *const no_ops[] = {
#define X(type) &nothing,
#include "graph/ops.def"
#undef X
};

/* A backend without kernels says so for each op. */
static void test_missing_kernels(void **state)
{
    (void)state;
    const run_backend_type type = {.name = "bare", .ops = no_ops, .floats = NEAP_F32};
    neap_backend backend = {.type = &type};
    const run_array wide = {NEAP_F64, 1, {3}, {1}};
    neap_op op = {.name = "r", .type = "relu", .n_inputs = 1, .n_outputs = 1};
    run_spec spec = {.op = &op, .in = &wide, .out = &wide};
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count;
    run_kernel *kernel;
    neap_diag diag = {0};
    assert_false(neap_run_ops_support(&backend, &spec, &diag));
    assert_string_equal(diag.message, "op \"r\" (relu): the bare backend has no kernel for it");
    assert_int_equal(neap_run_ops_variants(&backend, &spec, workspaces, &count, &diag),
                     NEAP_UNSUPPORTED);
    assert_int_equal(neap_run_ops_prepare(&backend, &spec, &kernel, &diag), NEAP_UNSUPPORTED);
}

static neap_status prepare_nothing(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                                   neap_diag *diag)
{
    (void)backend;
    (void)spec;
    (void)kernel;
    (void)diag;
    return NEAP_OK;
}

static const run_op something = {.prepare = prepare_nothing};
static const run_op *const all_ops[] = {
#define X(type) &something,
#include "graph/ops.def"
#undef X
};

/* Kernels for f32 see no other floats, in whatever place, and move no integers. */
static void test_types_of_kernels(void **state)
{
    (void)state;
    const run_backend_type type = {.name = "single", .ops = all_ops, .floats = NEAP_F32};
    neap_backend backend = {.type = &type};
    const run_array row = {NEAP_F32, 1, {3}, {1}}, half = {NEAP_F16, 1, {3}, {1}};
    const run_array mask = {NEAP_U8, 1, {3}, {1}}, ids = {NEAP_I64, 1, {3}, {1}};
    const neap_attr axis = {.name = "axis", .integer = 0}, p = {.name = "p", .is_real = true};
    const struct {
        const char *type;
        run_array in[2], out[2];
        uint32_t n_in, n_out;
        const neap_attr *attr;
        bool supported;
    } cases[] = {
        {"mul", {row, row}, {row}, 2, 1, NULL, true},
        {"mul", {row, half}, {row}, 2, 1, NULL, false},
        {"relu", {row}, {half}, 1, 1, NULL, false},
        {"dropout", {row}, {row, mask}, 1, 2, &p, true},
        {"concat", {ids}, {ids}, 1, 1, &axis, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_diag diag = {0};
        neap_op op = {.name = "op",
                      .type = cases[i].type,
                      .n_inputs = cases[i].n_in,
                      .n_outputs = cases[i].n_out,
                      .n_attrs = cases[i].attr != NULL,
                      .attrs = cases[i].attr};
        run_spec spec = {.op = &op, .in = cases[i].in, .out = cases[i].out};
        assert_int_equal(neap_run_ops_support(&backend, &spec, &diag), cases[i].supported);
        if (!cases[i].supported)
            assert_non_null(strstr(diag.message, "the single backend computes in f32"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_ops),        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_messages_of_rules), cmocka_unit_test(test_alternatives),
        cmocka_unit_test(test_missing_kernels),   cmocka_unit_test(test_types_of_kernels),
    };
    return cmocka_run_group_tests_name("op_check", tests, NULL, NULL);
}
