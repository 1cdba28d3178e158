/*
 * Kernels of updates on every backend, on random shapes, types and strides: results are those of
 * neap/optimizer.h to the bit, or of the formula of running statistics, whatever the number of
 * threads, and nothing else is written. test_optimizer compares the former with PyTorch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/half.h"
#include "device_run.h"
#include "random_plan.h"
#include "run/backend.h"
#include "settings.h"
#include "usable_backends.h"

#include <neap/optimizer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 8, AROUND = 32 /* elements before and behind, which stay as they are */ };
enum { W, DW, STEP, STATE };

/* An update op with its operands. */
typedef struct subject {
    neap_optimizer optimizer;
    neap_op op;
    neap_attr attrs[8];
    uint32_t ids[OPERANDS], updates[OPERANDS];
    run_array arrays[OPERANDS];
    int64_t n;              /* elements of a parameter */
    size_t bytes[OPERANDS]; /* of a block, what is around included */
    unsigned char *blocks[OPERANDS], *before[OPERANDS];
    uint32_t moments[2], scale, master, sum; /* 0: none */
    neap_sgd sgd;
    neap_adam adam;
} subject;

static double uniform(random_source *random)
{
    return 3.0 * random_below(random, 1u << 23) / (double)(1u << 23) - 1.5;
}

/* ---- Operands ---- */

static double get(const subject *s, unsigned char *const *blocks, uint32_t k, int64_t at)
{
    at += AROUND;
    switch (s->arrays[k].dtype) {
    case NEAP_F64:
        return ((const double *)(const void *)blocks[k])[at];
    case NEAP_BF16:
        return (double)neap_from_bf16(((const uint16_t *)(const void *)blocks[k])[at]);
    case NEAP_F16:
        return (double)neap_from_f16(((const uint16_t *)(const void *)blocks[k])[at]);
    default:
        return (double)((const float *)(const void *)blocks[k])[at];
    }
}

static void set(const subject *s, uint32_t k, int64_t at, double number)
{
    at += AROUND;
    switch (s->arrays[k].dtype) {
    case NEAP_F64:
        ((double *)(void *)s->blocks[k])[at] = number;
        break;
    case NEAP_BF16:
        ((uint16_t *)(void *)s->blocks[k])[at] = neap_to_bf16((float)number);
        break;
    case NEAP_F16:
        ((uint16_t *)(void *)s->blocks[k])[at] = neap_to_f16((float)number);
        break;
    default:
        ((float *)(void *)s->blocks[k])[at] = (float)number;
    }
}

/* Where element i of the row-major order lies. */
static int64_t place(const subject *s, uint32_t k, int64_t i)
{
    const run_array *array = &s->arrays[k];
    int64_t at = 0;
    for (uint32_t d = array->rank; d-- > 0; i /= array->shape[d])
        at += i % array->shape[d] * array->strides[d];
    return at;
}

static uint32_t add_operand(subject *s, neap_dtype dtype, uint32_t rank, const int64_t *shape,
                            bool gaps, bool updated)
{
    uint32_t k = s->op.n_inputs++;
    run_array *array = &s->arrays[k];
    *array = (run_array){.dtype = dtype, .rank = rank};
    memcpy(array->shape, shape, rank * sizeof *shape);
    neap_run_array_set_plain(array);
    int64_t span = neap_run_array_elements(array);
    for (uint32_t d = 0; gaps && d < rank; d++)
        array->strides[d] *= 3;
    span = (gaps ? 3 : 1) * span + 2 * AROUND;
    s->bytes[k] = (size_t)(span * neap_dtype_bytes(dtype));
    s->blocks[k] = malloc(s->bytes[k]);
    s->before[k] = malloc(s->bytes[k]);
    assert_true(s->blocks[k] && s->before[k]);
    memset(s->blocks[k], 0x5a, s->bytes[k]);
    s->ids[k] = 100 + k;
    if (updated)
        s->updates[s->op.n_updates++] = s->ids[k];
    return k;
}

static void set_flag(subject *s, const char *name, int64_t integer)
{
    s->attrs[s->op.n_attrs++] = (neap_attr){.name = name, .integer = integer};
}

static double set_option(subject *s, const char *name, double real)
{
    s->attrs[s->op.n_attrs++] = (neap_attr){.name = name, .is_real = true, .real = real};
    return real;
}

static void fill(subject *s, random_source *random, bool complete)
{
    for (uint32_t k = 0; k < s->op.n_inputs; k++) {
        int64_t n = neap_run_array_elements(&s->arrays[k]);
        for (int64_t i = 0; i < n; i++) {
            double number = uniform(random);
            if (k == s->moments[1] && k)
                number = number * number;
            set(s, k, place(s, k, i), number);
        }
    }
    set(s, STEP, place(s, STEP, 0), 0.01 * (1 + random_below(random, 9)));
    set(s, STEP, place(s, STEP, 1), 1 + random_below(random, 50));
    set(s, STEP, place(s, STEP, 2), complete);
    for (uint32_t k = 0; k < s->op.n_inputs; k++)
        memcpy(s->before[k], s->blocks[k], s->bytes[k]);
}

static void make_subject(subject *s, neap_optimizer optimizer, random_source *random)
{
    static const neap_dtype types[] = {NEAP_F32, NEAP_F32, NEAP_BF16, NEAP_F16};
    int64_t shape[NEAP_MAX_RANK];
    uint32_t rank = 1 + random_below(random, 4);
    neap_dtype dtype = types[random_below(random, 4)];
    bool gaps = random_below(random, 3) == 0, clip = random_below(random, 2),
         accumulate = random_below(random, 2);
    const char *const *names;
    uint32_t n_moments = neap_optimizer_moments(optimizer, &names);
    *s = (subject){.optimizer = optimizer, .n = 1};
    for (uint32_t d = 0; d < rank; d++) {
        shape[d] = 1 + random_below(random, rank == 1 ? 30000 : 20);
        s->n *= shape[d];
    }
    s->op.name = "op";
    s->op.type = neap_optimizer_name(optimizer);
    s->op.inputs = s->ids;
    s->op.updates = s->updates;
    s->op.attrs = s->attrs;
    add_operand(s, dtype, rank, shape, gaps && random_below(random, 2), true);
    add_operand(s, accumulate ? NEAP_F32 : dtype, rank, shape, gaps, false);
    add_operand(s, NEAP_F64, 1, (int64_t[]){3}, false, false);
    for (uint32_t i = 0; i < n_moments; i++)
        s->moments[i] = add_operand(s, NEAP_F32, rank, shape, gaps && i == 1, true);
    if (clip)
        s->scale = add_operand(s, NEAP_F32, 1, (int64_t[]){1}, false, false);
    if (dtype != NEAP_F32)
        s->master = add_operand(s, NEAP_F32, rank, shape, false, true);
    if (accumulate)
        s->sum = add_operand(s, NEAP_F32, rank, shape, false, true);
    double decay = random_below(random, 2) ? 0.1 : 0;
    if (optimizer == NEAP_OPTIMIZER_MOMENTUM)
        s->sgd.momentum = set_option(s, "momentum", 0.9);
    if (n_moments == 2) {
        s->adam.beta1 = set_option(s, "beta1", random_below(random, 4) ? 0.9 : 0.3);
        s->adam.beta2 = set_option(s, "beta2", 0.95);
        s->adam.epsilon = set_option(s, "epsilon", 1e-8);
    }
    s->sgd.weight_decay = s->adam.weight_decay = set_option(s, "weight_decay", decay);
    s->adam.decoupled = optimizer == NEAP_OPTIMIZER_ADAMW;
    set_flag(s, "clip", clip);
    set_flag(s, "master", s->master > 0);
    set_flag(s, "accumulate", accumulate ? 2 : 0);
}

static void clear_subject(subject *s)
{
    for (uint32_t k = 0; k < s->op.n_inputs; k++) {
        free(s->blocks[k]);
        free(s->before[k]);
    }
}

/* ---- What should come out ---- */

static float old_number(const subject *s, uint32_t k, int64_t i)
{
    return k || k == W ? (float)get(s, s->before, k, place(s, k, i)) : 0;
}

static void expect(const subject *s, uint32_t k, int64_t i, float should)
{
    double is = get(s, s->blocks, k, place(s, k, i));
    double rounded = s->arrays[k].dtype == NEAP_BF16  ? (double)neap_from_bf16(neap_to_bf16(should))
                     : s->arrays[k].dtype == NEAP_F16 ? (double)neap_from_f16(neap_to_f16(should))
                                                      : (double)should;
    if (memcmp(&is, &rounded, sizeof is) != 0)
        fail_msg("%s: element %lld of operand %u is %.9g, not %.9g", s->op.type, (long long)i, k,
                 is, rounded);
    set(s, k, place(s, k, i), get(s, s->before, k, place(s, k, i))); /* for the last check */
}

static void check_element(const subject *s, int64_t i, bool complete)
{
    float total = old_number(s, DW, i), g = total;
    float w = old_number(s, s->master ? s->master : W, i);
    float m = s->moments[0] ? old_number(s, s->moments[0], i) : 0;
    float v = s->moments[1] ? old_number(s, s->moments[1], i) : 0;
    double rate = get(s, s->before, STEP, 0), step = get(s, s->before, STEP, 1);
    neap_sgd sgd = s->sgd;
    neap_adam adam = s->adam;
    sgd.learning_rate = adam.learning_rate = rate;
    if (s->scale)
        g *= old_number(s, s->scale, 0);
    if (complete && s->moments[1])
        neap_adam_update(&w, &g, &m, &v, 1, (int64_t)step, &adam);
    else if (complete)
        neap_sgd_update(&w, &g, s->moments[0] ? &m : NULL, 1, &sgd);
    if (complete || !s->master)
        expect(s, W, i, complete ? w : old_number(s, W, i));
    if (s->master)
        expect(s, s->master, i, w);
    if (s->moments[0])
        expect(s, s->moments[0], i, m);
    if (s->moments[1])
        expect(s, s->moments[1], i, v);
    if (s->sum)
        expect(s, s->sum, i, complete ? 0 : total);
}

static void run(neap_backend *backend, const subject *s)
{
    void *in[OPERANDS];
    device_piece pieces[OPERANDS];
    run_kernel *kernel = NULL;
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count = 0;
    neap_diag diag = {0};
    run_spec spec = {.op = &s->op, .in = s->arrays};
    for (uint32_t k = 0; k < s->op.n_inputs; k++) {
        in[k] = s->blocks[k] + AROUND * neap_dtype_bytes(s->arrays[k].dtype);
        pieces[k] = (device_piece){s->blocks[k], s->bytes[k]};
    }
    if (!backend->type->supports_op(backend, &spec, &diag) ||
        backend->type->variants(backend, &spec, workspaces, &count, &diag) != NEAP_OK ||
        backend->type->prepare(backend, &spec, &kernel, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(count, 1);
    assert_int_equal(workspaces[0], 0);
    if (run_with_pieces(backend, kernel, &(run_args){.in = in}, s->op.n_inputs, 0, pieces,
                        s->op.n_inputs, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    kernel->destroy(kernel);
}

static void try_subject(neap_backend *backend, neap_optimizer optimizer, uint64_t seed)
{
    random_source random = {seed};
    subject s;
    make_subject(&s, optimizer, &random);
    for (int complete = 0; complete < 2; complete++) {
        bool updates = complete || !s.sum;
        fill(&s, &random, complete);
        run(backend, &s);
        for (int64_t i = 0; i < s.n; i++)
            check_element(&s, i, updates);
        for (uint32_t k = 0; k < s.op.n_inputs; k++)
            if (memcmp(s.blocks[k], s.before[k], s.bytes[k]) != 0)
                fail_msg("%s: memory of operand %u changes that is none of its results", s.op.type,
                         k);
    }
    clear_subject(&s);
}

/* ---- Running statistics ---- */

enum { MEAN, VARIANCE, BATCHES };

/* Deviations from far below to far above epsilon. */
static void fill_statistics(subject *s, random_source *random)
{
    for (uint32_t k = 0; k < s->op.n_inputs; k++)
        for (int64_t i = 0; i < s->n; i++) {
            double number = uniform(random);
            if (k == VARIANCE)
                number *= number;
            if (k >= BATCHES && k % 2)
                number = 1 / (exp2((double)random_below(random, 16) - 12) + 1e-3);
            set(s, k, place(s, k, i), number);
        }
    for (uint32_t k = 0; k < s->op.n_inputs; k++)
        memcpy(s->before[k], s->blocks[k], s->bytes[k]);
}

static void check_channel(const subject *s, int64_t i, double momentum, double epsilon)
{
    float mean = old_number(s, MEAN, i), variance = old_number(s, VARIANCE, i);
    for (uint32_t k = BATCHES; k < s->op.n_inputs; k += 2) {
        double batch = get(s, s->before, k, place(s, k, i));
        double invstd = get(s, s->before, k + 1, place(s, k + 1, i));
        double square = 1 / (invstd * invstd) - epsilon;
        square = square > 0 ? square : 0;
        mean = (float)(momentum * (double)mean + (1 - momentum) * batch);
        variance = (float)(momentum * (double)variance + (1 - momentum) * square);
    }
    expect(s, MEAN, i, mean);
    expect(s, VARIANCE, i, variance);
}

static void try_statistics(neap_backend *backend, uint64_t seed)
{
    random_source random = {seed};
    subject s = {.n = 1 + random_below(&random, 3000)};
    bool gaps = random_below(&random, 3) == 0;
    s.op = (neap_op){.name = "op",
                     .type = "running_stats",
                     .inputs = s.ids,
                     .updates = s.updates,
                     .attrs = s.attrs};
    uint32_t count = BATCHES + 2 * (1 + random_below(&random, 3));
    for (uint32_t k = 0; k < count; k++)
        add_operand(&s, k == BATCHES && seed % 5 == 0 ? NEAP_F64 : NEAP_F32, 1, &s.n,
                    gaps && k != MEAN, k < BATCHES);
    double momentum = set_option(&s, "momentum", random_below(&random, 5) / 4.0);
    double epsilon = set_option(&s, "epsilon", 1e-3);
    fill_statistics(&s, &random);
    run(backend, &s);
    for (int64_t i = 0; i < s.n; i++)
        check_channel(&s, i, momentum, epsilon);
    for (uint32_t k = 0; k < s.op.n_inputs; k++)
        if (memcmp(s.blocks[k], s.before[k], s.bytes[k]) != 0)
            fail_msg("memory of operand %u changes that is none of its results", k);
    clear_subject(&s);
}

static void test_updates(void **state)
{
    (void)state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20261118), count = setting("NEAP_TEST_COUNT", 60);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t b = 0; b < neap_backends_count(); b++)
        for (int threads = 1; threads <= 3; threads += 2) {
            neap_backend *backend;
            if (!backend_computes(neap_backends_name(b)))
                continue;
            assert_int_equal(
                neap_backend_open(NULL, neap_backends_name(b), threads, &backend, NULL), NEAP_OK);
            for (uint64_t i = 0; i < count; i++)
                try_subject(backend, (neap_optimizer)(NEAP_OPTIMIZER_SGD + i % 4), seed + i);
            for (uint64_t i = 0; i < count / 3; i++)
                try_statistics(backend, seed + i);
            neap_backend_close(backend);
        }
}

/* Every number of 16 bits survives the way to a float and back; halves go to even. */
static void test_halves(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 1u << 16; bits++) {
        uint16_t half = (uint16_t)bits;
        if ((half & 0x7c00) != 0x7c00 || (half & 0x3ff) == 0)
            assert_int_equal(neap_to_f16(neap_from_f16(half)), half);
        if ((half & 0x7f80) != 0x7f80 || (half & 0x7f) == 0)
            assert_int_equal(neap_to_bf16(neap_from_bf16(half)), half);
    }
    static const struct {
        float number;
        uint16_t f16, bf16;
    } known[] = {{1, 0x3c00, 0x3f80},
                 {-2, 0xc000, 0xc000},
                 {65504, 0x7bff, 0x4780},
                 {65519.99f, 0x7bff, 0x4780},
                 {65520, 0x7c00, 0x4780},
                 {0x1p-24f, 0x0001, 0x3380},
                 {0x1p-25f, 0x0000, 0x3300},
                 {0x1.8p-25f, 0x0001, 0x3340},
                 {1.00048828125f, 0x3c00, 0x3f80},
                 {1.00146484375f, 0x3c02, 0x3f80},
                 {1.00390625f, 0x3c04, 0x3f80},
                 {1.01171875f, 0x3c0c, 0x3f82}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(neap_to_f16(known[i].number), known[i].f16);
        assert_int_equal(neap_to_bf16(known[i].number), known[i].bf16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
