/*
 * Normalisation and losses of the cuda backend in arrays large enough for their fast kernels, in
 * f32 and bf16: against the reference in double precision. test_backends.c has small arrays of any
 * strides.
 *
 * Results must not depend on whether addresses are multiples of 16 or a result is written over an
 * operand, to the bit. Workspaces have exactly the size that was asked for, and contain garbage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"
#include "run/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OPERANDS 5

/* ---- Arrays ---- */

typedef struct operand {
    run_array array;
    unsigned char *block, *first; /* all of it; element 0, 0, ... */
    size_t bytes;
} operand;

static operand new_operand(neap_dtype dtype, uint32_t rank, const int64_t *shape,
                           bool channels_last, size_t offset)
{
    operand o = {.array = {.dtype = dtype, .rank = rank}};
    memcpy(o.array.shape, shape, rank * sizeof *shape);
    if (channels_last)
        neap_run_array_set_channels_last(&o.array);
    else
        neap_run_array_set_plain(&o.array);
    size_t item = (size_t)neap_dtype_bytes(dtype);
    o.bytes = ((size_t)neap_run_array_elements(&o.array) + offset) * item;
    o.block = aligned_alloc(64, (o.bytes + 63) / 64 * 64);
    assert_non_null(o.block);
    memset(o.block, 0xFF, o.bytes);
    o.first = o.block + offset * item;
    return o;
}

static int64_t place_of(const run_array *array, int64_t i)
{
    int64_t at = 0;
    for (uint32_t d = array->rank; d-- > 0; i /= array->shape[d])
        at += i % array->shape[d] * array->strides[d];
    return at;
}

static double get(const operand *o, int64_t i)
{
    int64_t at = place_of(&o->array, i);
    switch (o->array.dtype) {
    case NEAP_F32:
        return (double)((const float *)(void *)o->first)[at];
    case NEAP_F64:
        return ((const double *)(void *)o->first)[at];
    case NEAP_BF16:
        return (double)neap_from_bf16(((const uint16_t *)(void *)o->first)[at]);
    default:
        return (double)((const int64_t *)(void *)o->first)[at];
    }
}

static void set(operand *o, int64_t i, double number)
{
    int64_t at = place_of(&o->array, i);
    if (o->array.dtype == NEAP_F32)
        ((float *)(void *)o->first)[at] = (float)number;
    else if (o->array.dtype == NEAP_BF16)
        ((uint16_t *)(void *)o->first)[at] = neap_to_bf16((float)number);
    else
        ((int64_t *)(void *)o->first)[at] = (int64_t)number;
}

/* Numbers around a mean that depends on the channel, at most `range` away. */
static void fill(operand *o, uint64_t seed, double mean, double range)
{
    int64_t n = neap_run_array_elements(&o->array);
    for (int64_t i = 0; i < n; i++)
        set(o, i, mean + range * (2 * (double)run_random_real(seed, (uint64_t)i) - 1));
}

static void fill_labels(operand *o, uint64_t seed, int64_t classes)
{
    for (int64_t i = 0; i < neap_run_array_elements(&o->array); i++)
        set(o, i, (double)(run_random(seed, (uint64_t)i) % (uint64_t)classes));
}

/* ---- An op ---- */

typedef struct op_call {
    const char *type;
    uint32_t n_in, n_out;
    operand in[MOST_OPERANDS], out[MOST_OPERANDS]; /* out: with types and layouts */
    neap_attr attrs[2];
    uint32_t n_attrs;
    uint32_t over; /* inputs that output 0 may be written over, as bits */
} op_call;

static neap_backend *cuda, *ref;
static bool refused; /* the last run: NEAP_INVALID */

static void run_on(neap_backend *backend, const op_call *call, operand *out, uint32_t over)
{
    neap_op op = {.name = call->type,
                  .type = call->type,
                  .n_inputs = call->n_in,
                  .n_outputs = call->n_out,
                  .n_attrs = call->n_attrs,
                  .attrs = call->attrs};
    run_array arrays[2][MOST_OPERANDS];
    void *from[MOST_OPERANDS], *to[MOST_OPERANDS];
    for (uint32_t i = 0; i < call->n_in; i++) {
        arrays[0][i] = call->in[i].array;
        from[i] = call->in[i].first;
    }
    for (uint32_t i = 0; i < call->n_out; i++) {
        arrays[1][i] = out[i].array;
        to[i] = out[i].first;
    }
    if (over != NEAP_NONE)
        to[0] = from[over];
    run_spec spec = {.op = &op, .in = arrays[0], .out = arrays[1]};
    neap_diag diag = {0};
    int64_t workspaces[RUN_MOST_VARIANTS] = {0};
    uint32_t count = 1;
    run_kernel *kernel = NULL;
    if (!backend->type->supports_op(backend, &spec, &diag) ||
        backend->type->variants(backend, &spec, workspaces, &count, &diag) != NEAP_OK ||
        backend->type->prepare(backend, &spec, &kernel, &diag) != NEAP_OK)
        fail_msg("%s: %s", call->type, diag.message);
    size_t bytes = (size_t)workspaces[0];
    unsigned char *block = malloc(bytes + 64), *workspace = block + (64 - (uintptr_t)block % 64);
    memset(workspace, 0xFF, bytes);
    run_args args = {.in = from, .out = to, .workspace = workspace};
    neap_status status = kernel->run(kernel, &args, &diag);
    refused = status == NEAP_INVALID;
    if (status != NEAP_OK && !refused)
        fail_msg("%s: %s", call->type, diag.message);
    free(block);
    kernel->destroy(kernel);
}

static operand like(const operand *o, neap_dtype dtype)
{
    operand made = new_operand(dtype, o->array.rank, o->array.shape, false, 0);
    return made;
}

static void compare(const op_call *call, uint32_t output, const operand *wanted, double condition)
{
    const operand *found = &call->out[output];
    int64_t n = neap_run_array_elements(&found->array);
    double largest = 0, share = found->array.dtype == NEAP_BF16 ? 1e-2 : 1e-5 * condition;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(get(wanted, i)));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(get(found, i) - get(wanted, i)) <= share * largest))
            fail_msg("%s [%lld, %lld, ...]: element %lld of result %u is %.9g, not %.9g",
                     call->type, (long long)found->array.shape[0], (long long)found->array.shape[1],
                     (long long)i, output, get(found, i), get(wanted, i));
}

/* Runs it on both backends, and in place; `condition` is how much errors of inputs are enlarged.
   The results of the reference, if they are asked for, as `result_type`. */
static void try_call(op_call *call, double condition, operand *results)
{
    operand exact[MOST_OPERANDS];
    for (uint32_t i = 0; i < call->n_out; i++)
        exact[i] = like(&call->out[i], NEAP_F64);
    run_on(ref, call, exact, NEAP_NONE);
    run_on(cuda, call, call->out, NEAP_NONE);
    assert_false(refused);
    for (uint32_t i = 0; i < call->n_out; i++)
        compare(call, i, &exact[i], condition);
    for (uint32_t k = 0; k < call->n_in; k++) {
        if (!(call->over >> k & 1))
            continue;
        unsigned char *before = malloc(call->in[k].bytes);
        memcpy(before, call->in[k].block, call->in[k].bytes);
        run_on(cuda, call, call->out, k);
        for (int64_t i = 0; i < neap_run_array_elements(&call->out[0].array); i++)
            if (get(&call->in[k], i) != get(&call->out[0], i))
                fail_msg("%s: other bits over its input %u", call->type, k);
        memcpy(call->in[k].block, before, call->in[k].bytes);
        free(before);
    }
    for (uint32_t i = 0; i < call->n_out; i++) {
        for (int64_t k = 0; results && k < neap_run_array_elements(&results[i].array); k++)
            set(&results[i], k, get(&exact[i], k));
        free(exact[i].block);
    }
}

static void clear(op_call *call)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        free(call->in[i].block);
    for (uint32_t i = 0; i < call->n_out; i++)
        free(call->out[i].block);
}

/* The same bits at addresses that are no multiples of 16: `aligned` has been run. */
static void compare_bits(const op_call *aligned, const op_call *other)
{
    for (uint32_t i = 0; i < aligned->n_out; i++)
        for (int64_t k = 0; k < neap_run_array_elements(&aligned->out[i].array); k++)
            if (get(&aligned->out[i], k) != get(&other->out[i], k))
                fail_msg("%s: other bits at odd addresses, result %u", aligned->type, i);
}

/* ---- Normalisation ---- */

typedef struct norm_case {
    const char *type;
    uint32_t rank;
    int64_t shape[4];
    bool channels_last;
    int64_t groups;
    double mean; /* of x, in units of its range */
} norm_case;

static const norm_case norms[] = {
    {"batch_norm", 4, {6, 40, 9, 11}, true, 0, 0},
    {"batch_norm", 4, {9, 10, 9, 11}, false, 0, 100},
    {"batch_norm", 4, {20, 5, 8, 10}, false, 0, 0},
    {"batch_norm", 4, {3, 5, 52, 48}, false, 0, 0},
    {"batch_norm", 2, {700, 72}, false, 0, 1},
    {"batch_norm", 4, {2, 264, 5, 5}, true, 0, 0},
    {"batch_norm", 4, {20, 8, 25, 10}, true, 0, 300},
    {"batch_norm", 4, {3, 3, 25, 30}, true, 0, 0},
    {"group_norm", 4, {3, 40, 9, 11}, true, 5, 0},
    {"group_norm", 4, {3, 8, 9, 11}, false, 4, 10},
    {"group_norm", 4, {2, 4, 52, 48}, false, 2, 0},
    {"group_norm", 2, {9, 72}, false, 6, 0},
    {"layer_norm", 2, {13, 768}, false, 0, 0},
    {"layer_norm", 2, {5, 1600}, false, 0, 100},
    {"layer_norm", 2, {3, 5000}, false, 0, 3},
    {"layer_norm", 3, {5, 3, 100}, false, 0, 0},
};

static void norm_statistics_shape(const norm_case *c, uint32_t *rank, int64_t *shape)
{
    *rank = 1;
    shape[0] = c->shape[1];
    if (strcmp(c->type, "group_norm") == 0) {
        *rank = 2;
        shape[0] = c->shape[0];
        shape[1] = c->groups;
    } else if (strcmp(c->type, "layer_norm") == 0) {
        *rank = c->rank - 1;
        memcpy(shape, c->shape, *rank * sizeof *shape);
    }
}

static op_call new_norm(const norm_case *c, neap_dtype type, size_t offset)
{
    op_call call = {
        .type = c->type, .n_in = 3, .n_out = 3, .n_attrs = c->groups ? 2 : 1, .over = 1};
    bool layer = strcmp(c->type, "layer_norm") == 0;
    int64_t channels = c->shape[layer ? c->rank - 1 : 1], shape[4];
    uint32_t rank;
    norm_statistics_shape(c, &rank, shape);
    call.attrs[0] = (neap_attr){.name = "epsilon", .is_real = true, .real = 1e-3};
    call.attrs[1] = (neap_attr){.name = "groups", .integer = c->groups};
    call.in[0] = new_operand(type, c->rank, c->shape, c->channels_last, offset);
    call.in[1] = new_operand(type, 1, &channels, false, offset);
    call.in[2] = new_operand(type, 1, &channels, false, offset);
    call.out[0] = new_operand(type, c->rank, c->shape, c->channels_last, offset);
    call.out[1] = new_operand(NEAP_F32, rank, shape, false, offset);
    call.out[2] = new_operand(NEAP_F32, rank, shape, false, offset);
    fill(&call.in[0], 1, type == NEAP_BF16 ? 0 : c->mean, 1);
    fill(&call.in[1], 2, 1, 0.5);
    fill(&call.in[2], 3, 0, 1);
    return call;
}

/* Of a forward op whose statistics are there. */
static op_call new_norm_bw(const norm_case *c, neap_dtype type, size_t offset, bool data,
                           const operand *statistics)
{
    static const char *const types[] = {"batch_norm_bw", "group_norm_bw", "layer_norm_bw"};
    op_call call = {.n_in = data ? 5 : 4, .n_out = data ? 3 : 2, .over = data ? 3 : 0};
    op_call forward = new_norm(c, type, offset);
    for (size_t i = 0; i < 3; i++)
        if (strncmp(types[i], c->type, strlen(c->type)) == 0)
            call.type = types[i];
    if (c->groups)
        call.attrs[call.n_attrs++] = forward.attrs[1];
    call.in[0] = new_operand(type, c->rank, c->shape, c->channels_last, offset);
    fill(&call.in[0], 4, 0.1, 1);
    call.in[1] = forward.in[0];
    for (uint32_t i = 0; i < 2; i++) {
        operand *to = &call.in[i + (data ? 3 : 2)];
        *to = forward.out[i + 1];
        for (int64_t k = 0; k < neap_run_array_elements(&to->array); k++)
            set(to, k, get(&statistics[i], k));
        call.out[i + (data ? 1 : 0)] =
            new_operand(type, 1, forward.in[1].array.shape, false, offset);
    }
    if (data) {
        call.in[2] = forward.in[1];
        call.out[0] = forward.out[0];
    } else {
        free(forward.in[1].block);
        free(forward.out[0].block);
    }
    free(forward.in[2].block);
    return call;
}

static void try_norm(const norm_case *c, neap_dtype type)
{
    double condition = 2 + 3 * (type == NEAP_BF16 ? 0 : c->mean);
    op_call forward = new_norm(c, type, 0), odd = new_norm(c, type, 1);
    operand results[3];
    for (uint32_t i = 0; i < 3; i++)
        results[i] = like(&forward.out[i], NEAP_F32);
    try_call(&forward, condition, results);
    run_on(cuda, &odd, odd.out, NEAP_NONE);
    compare_bits(&forward, &odd);
    for (int data = 0; data < 2; data++) {
        op_call backward = new_norm_bw(c, type, 0, data, results + 1);
        op_call odd_bw = new_norm_bw(c, type, 1, data, results + 1);
        try_call(&backward, condition * 3, NULL);
        run_on(cuda, &odd_bw, odd_bw.out, NEAP_NONE);
        compare_bits(&backward, &odd_bw);
        clear(&backward);
        clear(&odd_bw);
    }
    for (uint32_t i = 0; i < 3; i++)
        free(results[i].block);
    clear(&forward);
    clear(&odd);
}

static void test_norms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        try_norm(&norms[i], NEAP_F32);
        try_norm(&norms[i], NEAP_BF16);
    }
}

/* More rows than blocks of the backward op do at once. */
static void test_many_rows(void **state)
{
    (void)state;
    const norm_case many = {.type = "layer_norm", .rank = 2, .shape = {4300, 8}};
    int64_t rows = 4300;
    operand statistics[2];
    for (uint32_t i = 0; i < 2; i++) {
        statistics[i] = new_operand(NEAP_F32, 1, &rows, false, 0);
        fill(&statistics[i], i, i, 0.5);
    }
    op_call backward = new_norm_bw(&many, NEAP_F32, 0, true, statistics);
    backward.over = 0;
    try_call(&backward, 10, NULL);
    clear(&backward);
    free(statistics[0].block);
    free(statistics[1].block);
}

/* ---- Losses ---- */

typedef struct loss_case {
    uint32_t rank;
    int64_t shape[4];
    bool channels_last;
} loss_case;

static const loss_case losses[] = {
    {2, {5, 5257}, false},     {2, {9, 1000}, false},      {2, {2, 20001}, false},
    {4, {6, 21, 9, 7}, true},  {4, {6, 21, 9, 7}, false},  {2, {1500, 7}, false},
    {4, {2, 600, 3, 2}, true}, {4, {2, 600, 3, 2}, false}, {2, {3, 513}, false},
};

/* Operands: x as logits, d as a gradient of that shape, t as labels, l as lse, 1 as one number. */
typedef struct loss_form {
    const char *type, *in, *out;
    uint32_t over;
} loss_form;

static const loss_form forms[] = {
    {"xent", "xt", "1l", 0},          {"xent_bw", "1xtl", "d", 2}, {"log_softmax", "x", "d", 1},
    {"log_softmax_bw", "dx", "d", 3}, {"nll", "xt", "1", 0},       {"nll_bw", "1t", "d", 0},
};

static operand new_loss_operand(const loss_case *c, char kind, neap_dtype type, size_t offset)
{
    int64_t rows[4] = {c->shape[0], c->shape[2], c->shape[3]}, one = 1;
    if (kind == '1')
        return new_operand(NEAP_F32, 1, &one, false, offset);
    if (kind == 't' || kind == 'l')
        return new_operand(kind == 't' ? NEAP_I64 : NEAP_F32, c->rank - 1, rows, false, offset);
    return new_operand(type, c->rank, c->shape, c->channels_last, offset);
}

static op_call new_loss(const loss_case *c, const loss_form *form, neap_dtype type, size_t offset)
{
    op_call call = {.type = form->type,
                    .n_in = (uint32_t)strlen(form->in),
                    .n_out = (uint32_t)strlen(form->out),
                    .over = form->over};
    for (uint32_t i = 0; i < call.n_in; i++) {
        operand *o = &call.in[i];
        *o = new_loss_operand(c, form->in[i], type, offset);
        if (form->in[i] == 't')
            fill_labels(o, 7, c->shape[1]);
        else if (form->in[i] == 'l')
            fill(o, 8, 6, 1);
        else
            fill(o, 9 + i, form->in[i] == '1' ? 1.5 : form->in[i] == 'd' ? 0.3 : -3, 1);
    }
    for (uint32_t i = 0; i < call.n_out; i++)
        call.out[i] = new_loss_operand(c, form->out[i], type, offset);
    return call;
}

static void test_losses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
            for (int bf16 = 0; bf16 < 2; bf16++) {
                neap_dtype type = bf16 ? NEAP_BF16 : NEAP_F32;
                op_call call = new_loss(&losses[i], &forms[f], type, 0);
                op_call odd = new_loss(&losses[i], &forms[f], type, 1);
                try_call(&call, 1, NULL);
                run_on(cuda, &odd, odd.out, NEAP_NONE);
                compare_bits(&call, &odd);
                clear(&call);
                clear(&odd);
            }
}

/* A label that is no class is an error, and nothing is read by it. */
static void test_wrong_labels(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            op_call call = new_loss(&losses[i], &forms[f], NEAP_F32, 0);
            for (uint32_t k = 0; k < call.n_in; k++)
                if (forms[f].in[k] == 't') {
                    set(&call.in[k], 1, i % 2 ? -1 : (double)losses[i].shape[1]);
                    refused = false;
                    run_on(cuda, &call, call.out, NEAP_NONE);
                    assert_true(refused);
                }
            clear(&call);
        }
}

static int open_backends(void **state)
{
    (void)state;
    neap_diag diag = {0};
    return neap_backend_open(NULL, "cuda-emulation", 1, &cuda, &diag) != NEAP_OK ||
           neap_backend_open(NULL, "ref", 1, &ref, &diag) != NEAP_OK;
}

static int close_backends(void **state)
{
    (void)state;
    neap_backend_close(cuda);
    neap_backend_close(ref);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_wrong_labels),
    };
    return cmocka_run_group_tests(tests, open_backends, close_backends);
}
