/* The interpreter of reference_ops.h. */
#include "reference_ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values ---- */

static ref_tensor new_tensor(const neap_value *value)
{
    ref_tensor x = {.dtype = value->dtype, .rank = value->rank};
    assert_in_range(value->rank, 1, NEAP_MAX_RANK);
    memcpy(x.shape, value->shape, value->rank * sizeof *x.shape);
    x.n = neap_ref_extent(&x, 0, x.rank);
    x.at = calloc((size_t)x.n, sizeof *x.at);
    assert_non_null(x.at);
    return x;
}

ref_tensor ref_copy(const ref_tensor *x)
{
    ref_tensor copy = *x;
    copy.at = malloc((size_t)x->n * sizeof *x->at);
    assert_non_null(copy.at);
    memcpy(copy.at, x->at, (size_t)x->n * sizeof *x->at);
    return copy;
}

void ref_clear(ref_tensor *x)
{
    free(x->at);
    x->at = NULL;
}

static bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16 || dtype == NEAP_F64;
}

static double uniform(random_source *random, double low, double high)
{
    return low + (high - low) * (random_below(random, 1u << 30) / (double)(1u << 30));
}

/* What an operand is to the kernels: floats are doubles. */
static run_array array_of(const ref_tensor *x)
{
    run_array array = {.dtype = is_float(x->dtype) ? NEAP_F64 : x->dtype, .rank = x->rank};
    memcpy(array.shape, x->shape, sizeof array.shape);
    neap_run_array_set_plain(&array);
    return array;
}

/* An op with its operands' arrays, for the length of one call. */
typedef struct op_arrays {
    run_spec spec;
    run_array *in, *out;
} op_arrays;

static op_arrays arrays_of(const ref_run *run, uint32_t id)
{
    const neap_op *op = neap_graph_op(run->graph, id);
    op_arrays a = {.in = calloc(op->n_inputs, sizeof *a.in),
                   .out = calloc(op->n_outputs, sizeof *a.out)};
    assert_non_null(a.in);
    assert_non_null(a.out);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        a.in[i] = array_of(&run->values[op->inputs[i]]);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        a.out[i] = array_of(&run->values[op->outputs[i]]);
    a.spec = (run_spec){.op = op, .in = a.in, .out = a.out};
    return a;
}

static void clear_arrays(op_arrays *a)
{
    free(a->in);
    free(a->out);
}

/* Numbers below this are plausible for the integers that an op reads as input i. */
static int64_t integer_limit(const ref_run *run, uint32_t id, uint32_t i)
{
    op_arrays a = arrays_of(run, id);
    int64_t limit = neap_run_integer_limit(&a.spec, i);
    clear_arrays(&a);
    return limit;
}

static void fill_input(const ref_run *run, uint32_t value, ref_tensor *x, random_source *random)
{
    const neap_graph *graph = run->graph;
    uint32_t n_readers;
    const uint32_t *readers = neap_graph_readers(graph, value, &n_readers);
    const neap_op *reader = n_readers ? neap_graph_op(graph, readers[0]) : NULL;
    for (uint32_t i = 0; reader && !is_float(x->dtype) && i < reader->n_inputs; i++)
        if (reader->inputs[i] == value) {
            int64_t limit = integer_limit(run, readers[0], i);
            for (int64_t k = 0; k < x->n; k++)
                x->at[k] = random_below(random, (uint32_t)limit);
        }
    for (int64_t k = 0; is_float(x->dtype) && k < x->n; k++)
        x->at[k] = uniform(random, -1.5, 1.5);
}

static bool is_loss_gradient(const neap_graph *graph, const char *name)
{
    uint32_t count;
    const uint32_t *outputs = neap_graph_outputs(graph, &count);
    const char *loss = neap_graph_value(graph, outputs[0])->name;
    return strncmp(name, loss, strlen(loss)) == 0 && strcmp(name + strlen(loss), ".grad") == 0;
}

static void prepare_kernels(ref_run *run)
{
    neap_diag diag = {0};
    uint32_t count = neap_graph_op_count(run->graph);
    run->kernels = calloc(count, sizeof *run->kernels);
    assert_non_null(run->kernels);
    if (neap_backend_open(NULL, "ref", 1, &run->backend, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    for (uint32_t id = 0; id < count; id++) {
        op_arrays a = arrays_of(run, id);
        if (neap_run_backend_ref.prepare(run->backend, &a.spec, &run->kernels[id], &diag) !=
            NEAP_OK)
            fail_msg("%s", diag.message);
        clear_arrays(&a);
    }
}

void ref_run_init(ref_run *run, const neap_graph *graph, uint64_t seed)
{
    random_source random = {seed};
    uint32_t count = neap_graph_value_count(graph);
    run->graph = graph;
    run->seed = seed;
    run->values = calloc(count, sizeof *run->values);
    assert_non_null(run->values);
    for (uint32_t v = 0; v < count; v++)
        run->values[v] = new_tensor(neap_graph_value(graph, v));
    for (uint32_t v = 0; v < count; v++) {
        const neap_value *value = neap_graph_value(graph, v);
        ref_tensor *x = &run->values[v];
        if (value->producer != NEAP_NONE)
            for (int64_t k = 0; k < x->n; k++)
                x->at[k] = nan("");
        else if (is_loss_gradient(graph, value->name))
            x->at[0] = 1.25;
        else
            fill_input(run, v, x, &random);
    }
    prepare_kernels(run);
}

void ref_run_clear(ref_run *run)
{
    for (uint32_t id = 0; id < neap_graph_op_count(run->graph); id++)
        run->kernels[id]->destroy(run->kernels[id]);
    neap_backend_close(run->backend);
    free(run->kernels);
    for (uint32_t v = 0; v < neap_graph_value_count(run->graph); v++)
        ref_clear(&run->values[v]);
    free(run->values);
}

/* ---- Ops ---- */

/* A backward op replays the random state of its forward op, which its name begins with. */
static uint64_t salt_of(const neap_op *op)
{
    size_t length = strlen(op->name);
    if (length > 3 && strcmp(op->name + length - 3, ".bw") == 0)
        length -= 3;
    uint64_t hash = UINT64_C(0xCBF29CE484222325); /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)op->name[i]) * UINT64_C(0x100000001B3);
    return hash;
}

/* The elements as the kernels take them: doubles as they are, integers as integers. */
static void *packed(const ref_tensor *x)
{
    if (is_float(x->dtype))
        return x->at;
    void *all = calloc((size_t)x->n, (size_t)neap_dtype_bytes(x->dtype));
    assert_non_null(all);
    for (int64_t k = 0; k < x->n; k++)
        if (x->dtype == NEAP_I64)
            ((int64_t *)all)[k] = (int64_t)x->at[k];
        else if (x->dtype == NEAP_I32)
            ((int32_t *)all)[k] = (int32_t)x->at[k];
        else
            ((uint8_t *)all)[k] = (uint8_t)x->at[k];
    return all;
}

/* Takes elements back from there. */
static void unpack(ref_tensor *x, void *all)
{
    if (is_float(x->dtype))
        return;
    for (int64_t k = 0; k < x->n; k++)
        if (x->dtype == NEAP_I64)
            x->at[k] = (double)((int64_t *)all)[k];
        else
            x->at[k] = x->dtype == NEAP_I32 ? ((int32_t *)all)[k] : ((uint8_t *)all)[k];
    free(all);
}

void ref_run_op(const ref_run *run, uint32_t id, const ref_tensor *in, ref_tensor *out)
{
    const neap_op *op = neap_graph_op(run->graph, id);
    neap_diag diag = {0};
    void **from = calloc(op->n_inputs, sizeof *from);
    void **to = calloc(op->n_outputs, sizeof *to);
    assert_non_null(from);
    assert_non_null(to);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        from[i] = packed(&in[i]);
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        out[i] = new_tensor(neap_graph_value(run->graph, op->outputs[i]));
        to[i] = packed(&out[i]);
    }
    run_args args = {
        .in = from, .out = to, .seed = op->random ? run_random(run->seed, salt_of(op)) : 0};
    if (run->kernels[id]->run(run->kernels[id], &args, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (from[i] != in[i].at)
            free(from[i]);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        unpack(&out[i], to[i]);
    free(from);
    free(to);
}

static void run_in_graph(ref_run *run, uint32_t id)
{
    const neap_op *op = neap_graph_op(run->graph, id);
    ref_tensor *in = calloc(op->n_inputs, sizeof *in), *out = calloc(op->n_outputs, sizeof *out);
    assert_non_null(in);
    assert_non_null(out);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        in[i] = run->values[op->inputs[i]];
    ref_run_op(run, id, in, out);
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        ref_clear(&run->values[op->outputs[i]]);
        run->values[op->outputs[i]] = out[i];
    }
    free(in);
    free(out);
}

void ref_run_pass(ref_run *run, neap_pass pass)
{
    for (uint32_t id = 0; id < neap_graph_op_count(run->graph); id++)
        if (neap_graph_op(run->graph, id)->pass == pass)
            run_in_graph(run, id);
}

void ref_scramble(const ref_run *run, uint32_t id, uint32_t i, ref_tensor *x, random_source *random)
{
    int64_t limit = is_float(x->dtype) ? 0 : integer_limit(run, id, i);
    bool differs = false;
    assert_int_not_equal(limit, 1);
    while (!differs)
        for (int64_t k = 0; k < x->n; k++) {
            double old = x->at[k];
            x->at[k] = limit ? random_below(random, (uint32_t)limit) : uniform(random, -1.5, 1.5);
            differs = differs || x->at[k] != old;
        }
}
