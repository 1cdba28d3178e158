/*
 * Every backend against the reference: each op type, forward and backward, in random networks with
 * random sizes, attributes and strides, and op by op in small built-in networks.
 *
 * Results must equal those of the ref backend in double precision on the same operands: to the bit
 * where elements are only moved or compared, within a fraction of the sum of absolute terms where
 * they are summed, and within a fraction of the largest result elsewhere. A kernel must give the
 * same results again with other garbage in workspace and outputs, at other addresses, and after its
 * spec is freed. It may write only to its outputs and workspace. Where the type of the op says that
 * a result may be written over an operand, both at one address give the bits of two addresses.
 *
 * NEAP_TEST_SEED and NEAP_TEST_COUNT (networks per kind) apply; the first argument selects tests by
 * a pattern, as in "onednn: conv*"; --list prints their names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device_run.h"
#include "graph/network_internal.h"
#include "named_inputs.h"
#include "op_cases.h"
#include "placed_arrays.h"
#include "random_ops.h"
#include "run/arrays.h"
#include "run/backends/ref/ref.h"
#include "run/specs.h"
#include "settings.h"
#include "usable_backends.h"

#include <neap/models.h>
#include <neap/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE            1e-5
#define TOLERANCE_TRANSFORMS 2e-4
#define TOLERANCE_TF32       (1 / 512.0) /* both factors are rounded to 11 bits */
#define TOLERANCE_BF16       (1 / 128.0) /* results have 8 bits, and kernels may round in between */

/* ---- An op and what the reference makes of it ---- */

typedef struct op_run {
    const neap_graph *graph;
    const neap_op *op;
    uint64_t seed;
    const tensor *in;  /* op->n_inputs */
    tensor *out;       /* op->n_outputs: doubles where the graph has floats */
    tensor *magnitude; /* of each element of out: errors are shares of it */
} op_run;

typedef enum measure {
    EXACT,  /* elements are moved, compared, chosen */
    SUMS,   /* of products: the sum of their absolute values is the measure */
    CANCEL, /* differences of large numbers that may be alike: the largest operands' product is */
    SMOOTH, /* anything else: the largest result of the array is */
} measure;

/* Ops without FLOPs move elements; nll_bw writes one number it computed. */
static measure measure_of(const neap_op *op)
{
    static const char *const exact[] = {"relu", "relu_bw", "relu6",    "relu6_bw", "max_pool2d",
                                        "max",  "min",     "abs",      "sign",     "floor",
                                        "ceil", "round",   "max_axes", "min_axes"};
    static const char *const sums[] = {
        "conv",    "linear",        "matmul",       "add",        "mul",
        "reduce",  "sum_",          "mean_axes",    "avg_pool2d", "adaptive",
        "dropout", "max_pool2d_bw", "embedding_bw", "gather_bw",  "resize_nearest_bw"};
    if (op->flops == 0)
        return strcmp(op->type, "nll_bw") == 0 ? SMOOTH : EXACT;
    if (strstr(op->type, "norm_bw") || strcmp(op->type, "attention_bw") == 0)
        return CANCEL;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (strcmp(op->type, exact[i]) == 0)
            return EXACT;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (strncmp(op->type, sums[i], strlen(sums[i])) == 0)
            return SUMS;
    return SMOOTH;
}

static void run_reference(neap_backend *ref, const op_run *run, const tensor *in, tensor *out)
{
    run_array arrays[64];
    void *from[32];
    void *to[32];
    run_kernel *kernel;
    neap_diag diag = {0};
    assert_true(run->op->n_inputs <= 32 && run->op->n_outputs <= 32);
    for (uint32_t i = 0; i < run->op->n_inputs; i++) {
        arrays[i] = in[i].array;
        from[i] = in[i].data;
    }
    for (uint32_t i = 0; i < run->op->n_outputs; i++) {
        arrays[32 + i] = out[i].array;
        to[i] = out[i].data;
    }
    run_spec spec = {.op = run->op, .in = arrays, .out = arrays + 32};
    if (neap_run_backend_ref.prepare(ref, &spec, &kernel, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    run_args args = {.in = from, .out = to, .seed = run->seed};
    if (kernel->run(kernel, &args, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    kernel->destroy(kernel);
}

static tensor absolute(const tensor *t)
{
    tensor copy = *t;
    copy.data = allocate((size_t)t->n * item_bytes(&t->array));
    memcpy(copy.data, t->data, (size_t)t->n * item_bytes(&t->array));
    for (int64_t i = 0; is_float(t->array.dtype) && i < t->n; i++)
        set_number(&copy, i, fabs(number_at(t, i)));
    return copy;
}

static double largest_of(const tensor *t)
{
    double largest = 0;
    for (int64_t i = 0; i < t->n; i++)
        largest = fmax(largest, fabs(number_at(t, i)));
    return largest;
}

/* How much a normalisation enlarges errors of what it reads: by the mean's distance from 0 in
   standard deviations. 1 for other ops. */
static double conditioning(const op_run *run)
{
    const neap_op *op = run->op;
    bool backward = strstr(op->type, "norm_bw") && !strstr(op->type, "rms");
    double largest = 0;
    bool forward = strstr(op->type, "_norm") && op->n_outputs == 3; /* y, mean, invstd */
    if (!backward && !forward)
        return 1;
    const tensor *mean = backward ? &run->in[op->n_inputs - 2] : &run->out[1];
    const tensor *invstd = backward ? &run->in[op->n_inputs - 1] : &run->out[2];
    for (int64_t i = 0; i < mean->n; i++)
        largest = fmax(largest, fabs(number_at(mean, i)) * number_at(invstd, i));
    return 1 + largest;
}

/* Results and magnitudes. */
static void ask_reference(neap_backend *ref, const op_run *run)
{
    tensor in[32];
    run_reference(ref, run, run->in, run->out);
    if (measure_of(run->op) == SUMS) {
        for (uint32_t i = 0; i < run->op->n_inputs; i++)
            in[i] = absolute(&run->in[i]);
        run_reference(ref, run, in, run->magnitude);
        for (uint32_t i = 0; i < run->op->n_inputs; i++)
            free(in[i].data);
        return;
    }
    double least = measure_of(run->op) == CANCEL ? 1 : 0;
    for (uint32_t i = 0; i < run->op->n_inputs; i++)
        least *= i == 0 ? largest_of(&run->in[i]) : fmax(1, largest_of(&run->in[i]));
    for (uint32_t i = 0; i < run->op->n_outputs; i++) {
        double largest = fmax(least, conditioning(run) * largest_of(&run->out[i]));
        for (int64_t k = 0; k < run->out[i].n; k++)
            set_number(&run->magnitude[i], k, largest);
    }
}

/* ---- One op on one backend ---- */

typedef struct trial {
    const op_run *run;
    neap_backend *backend;
    const char *name; /* of the kind of network */
    uint64_t seed;    /* of the network */
    uint32_t variant;
    uint64_t layout; /* seed of the operands' layouts */
    uint32_t over;   /* the operand that has the layout of the result that may be written over it,
                        or NEAP_NONE */
    bool in_place;   /* that result is written over it */
    bool tf32;       /* products are rounded to it */
    char sign[1024];
} trial;

static void fail_trial(const trial *t, const char *format, ...) NEAP_PRINTF(2, 3);

static void fail_trial(const trial *t, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_msg("%s\n  op \"%s\", variant %u of %s with %d threads: %s\n  from \"%s\" of seed %llu",
             text, t->run->op->name, t->variant, neap_backend_name(t->backend),
             neap_backend_threads(t->backend), t->sign, t->name, (unsigned long long)t->seed);
}

/* Parameters and their gradients: a matter of the graph, as in run/arrays.c. */
static bool stays_plain(const neap_graph *graph, uint32_t value)
{
    return strcmp(neap_graph_value(graph, value)->kind, NEAP_KIND_PARAMETER) == 0 ||
           neap_graph_is_output(graph, value);
}

/* Whether operand i is the one of trial.over, or the same value again. */
static bool is_over(const trial *t, uint32_t i)
{
    const neap_op *op = t->run->op;
    return t->over != NEAP_NONE && op->inputs[i] == op->inputs[t->over];
}

static bool is_result_over(const trial *t, uint32_t output)
{
    return t->over != NEAP_NONE && output == neap_op_def_find(t->run->op->type)->in_place_output;
}

/* Where the layout of an operand or result comes from: a seed of its own. */
static random_source layout_of(const trial *t, uint32_t operand)
{
    uint32_t n_inputs = t->run->op->n_inputs;
    bool shared = operand < n_inputs ? is_over(t, operand) : is_result_over(t, operand - n_inputs);
    return (random_source){run_random(t->layout, shared ? t->over : operand)};
}

static bool keeps_plain(const trial *t, uint32_t operand)
{
    const neap_op *op = t->run->op;
    bool is_input = operand < op->n_inputs;
    if (is_input ? is_over(t, operand) : is_result_over(t, operand - op->n_inputs))
        return stays_plain(t->run->graph, op->inputs[t->over]) ||
               stays_plain(t->run->graph, op->outputs[neap_op_def_find(op->type)->in_place_output]);
    return stays_plain(t->run->graph,
                       is_input ? op->inputs[operand] : op->outputs[operand - op->n_inputs]);
}

typedef struct operands {
    placed *in, *out;
    run_block memory;
    unsigned char *workspace; /* in it */
    size_t workspace_bytes;
} operands;

static operands place_all(const trial *t, int64_t workspace, random_source *garbage)
{
    const op_run *run = t->run;
    operands o = {.in = allocate(run->op->n_inputs * sizeof *o.in),
                  .out = allocate(run->op->n_outputs * sizeof *o.out),
                  .workspace_bytes = (size_t)workspace};
    for (uint32_t i = 0; i < run->op->n_inputs; i++) {
        random_source layout = layout_of(t, i);
        place(&o.in[i], &layout, garbage, &run->in[i].array, keeps_plain(t, i));
        visit_rows(&o.in[i], put_row, (void *)(uintptr_t)&run->in[i]);
        memcpy(o.in[i].before, o.in[i].block, o.in[i].bytes);
    }
    for (uint32_t i = 0; i < run->op->n_outputs; i++) {
        run_array like = run->out[i].array;
        random_source layout = layout_of(t, run->op->n_inputs + i);
        like.dtype = neap_graph_value(run->graph, run->op->outputs[i])->dtype;
        place(&o.out[i], &layout, garbage, &like, keeps_plain(t, run->op->n_inputs + i));
        memcpy(o.out[i].before, o.out[i].block, o.out[i].bytes);
    }
    o.memory = new_block(RED_ZONE + o.workspace_bytes);
    memset(o.memory.data, 0xAB, RED_ZONE);
    o.workspace = o.memory.data + RED_ZONE;
    fill_garbage(o.workspace, o.workspace_bytes, garbage);
    return o;
}

static void clear_operands(const trial *t, operands *o)
{
    for (uint32_t i = 0; i < t->run->op->n_inputs; i++)
        clear_placed(&o->in[i]);
    for (uint32_t i = 0; i < t->run->op->n_outputs; i++)
        clear_placed(&o->out[i]);
    free(o->in);
    free(o->out);
    neap_run_block_destroy(&o->memory);
}

static void check_memory(const trial *t, const operands *o)
{
    for (uint32_t i = 0; i < t->run->op->n_inputs; i++)
        if (!untouched(&o->in[i], t->in_place && i == t->over))
            fail_trial(t, "its operand %u is not what it was, or the memory around it", i);
    for (uint32_t i = 0; i < t->run->op->n_outputs; i++)
        if (!untouched(&o->out[i], true))
            fail_trial(t, "it writes outside of its result %u", i);
    for (size_t i = 0; i < RED_ZONE; i++)
        if (o->memory.data[i] != 0xAB)
            fail_trial(t, "it writes before its workspace");
}

/* Whether a convolution may be computed by way of a transform (Winograd, FFT), as libraries of
   devices do: errors are then shares of the largest sums. */
static bool uses_transforms(const trial *t)
{
    return t->backend->type->device && strncmp(t->run->op->type, "conv", 4) == 0;
}

/* Whether factors may be rounded to tf32, which has 11 bits. */
static bool rounds_factors(const trial *t)
{
    static const char *const products[] = {"conv", "linear", "attention", "matmul"};
    bool found = false;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        found |= strncmp(t->run->op->type, products[i], strlen(products[i])) == 0;
    return t->tf32 && found;
}

static void check_numbers(const trial *t, uint32_t output, const unsigned char *dense)
{
    const tensor *wanted = &t->run->out[output], *size = &t->run->magnitude[output];
    tensor found = {.array = wanted->array, .n = wanted->n};
    found.array.dtype = neap_graph_value(t->run->graph, t->run->op->outputs[output])->dtype;
    double share = found.array.dtype == NEAP_BF16 ? TOLERANCE_BF16
                   : rounds_factors(t)            ? TOLERANCE_TF32
                                                  : TOLERANCE;
    if (measure_of(t->run->op) == EXACT || !is_float(wanted->array.dtype))
        share = 0;
    found.data = allocate((size_t)found.n * item_bytes(&found.array));
    memcpy(found.data, dense, (size_t)found.n * item_bytes(&found.array));
    double transforms = uses_transforms(t) ? TOLERANCE_TRANSFORMS * largest_of(size) : 0;
    for (int64_t i = 0; i < wanted->n; i++) {
        double is = number_at(&found, i), should = number_at(wanted, i);
        double allowed = fmax(transforms, share * number_at(size, i) + (share > 0 ? 1e-30 : 0));
        if (!(fabs(is - should) <= allowed))
            fail_trial(
                t, "element %lld of its result %u is %.9g; it should be %.9g, give or take %.2g",
                (long long)i, output, is, should, allowed);
    }
    free(found.data);
}

/* Where a result lies. */
static placed *result_of(const trial *t, const operands *o, uint32_t output)
{
    return t->in_place && is_result_over(t, output) ? &o->in[t->over] : &o->out[output];
}

static neap_status run_on_operands(const trial *t, const operands *o, const run_kernel *kernel,
                                   const run_args *args, neap_diag *diag)
{
    device_piece pieces[65] = {{o->memory.data, RED_ZONE + o->workspace_bytes}};
    size_t count = 1;
    for (uint32_t i = 0; i < t->run->op->n_inputs; i++)
        pieces[count++] = (device_piece){o->in[i].block, o->in[i].bytes};
    for (uint32_t i = 0; i < t->run->op->n_outputs; i++)
        pieces[count++] = (device_piece){o->out[i].block, o->out[i].bytes};
    return run_with_pieces(t->backend, kernel, args, t->run->op->n_inputs, t->run->op->n_outputs,
                           pieces, count, diag);
}

/* Runs the kernel with the given garbage around; the results, one after the other. */
static unsigned char *run_once(const trial *t, const run_kernel *kernel, int64_t workspace,
                               random_source *garbage, size_t *bytes)
{
    void *from[32];
    void *to[32];
    neap_diag diag = {0};
    operands o = place_all(t, workspace, garbage);
    size_t filled = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < t->run->op->n_inputs; i++)
        from[i] = o.in[t->in_place && is_over(t, i) ? t->over : i].first;
    for (uint32_t i = 0; i < t->run->op->n_outputs; i++) {
        to[i] = result_of(t, &o, i)->first;
        *bytes += (size_t)neap_run_array_elements(&o.out[i].array) * item_bytes(&o.out[i].array);
    }
    run_args args = {
        .in = from, .out = to, .workspace = workspace ? o.workspace : NULL, .seed = t->run->seed};
    if (run_on_operands(t, &o, kernel, &args, &diag) != NEAP_OK)
        fail_trial(t, "it fails: %s", diag.message);
    check_memory(t, &o);
    unsigned char *results = allocate(*bytes);
    for (uint32_t i = 0; i < t->run->op->n_outputs; i++) {
        visit_rows(result_of(t, &o, i), get_row, results + filled);
        check_numbers(t, i, results + filled);
        filled += (size_t)neap_run_array_elements(&o.out[i].array) * item_bytes(&o.out[i].array);
    }
    clear_operands(t, &o);
    return results;
}

/* A spec whose memory can be taken away again. */
typedef struct lent_spec {
    run_spec spec;
    neap_op op;
    neap_attr *attrs;
    run_array *in, *out;
} lent_spec;

/* The layouts that place_all will use. */
static void lay_out(const trial *t, run_array *in, run_array *out)
{
    const op_run *run = t->run;
    int64_t elements, begin;
    for (uint32_t i = 0; i < run->op->n_inputs; i++) {
        random_source layout = layout_of(t, i);
        in[i] = some_layout(&run->in[i].array, keeps_plain(t, i), &layout, &elements, &begin);
    }
    for (uint32_t i = 0; i < run->op->n_outputs; i++) {
        run_array like = run->out[i].array;
        random_source layout = layout_of(t, run->op->n_inputs + i);
        like.dtype = neap_graph_value(run->graph, run->op->outputs[i])->dtype;
        out[i] =
            some_layout(&like, keeps_plain(t, run->op->n_inputs + i), &layout, &elements, &begin);
    }
}

static void lend_spec(lent_spec *lent, const trial *t)
{
    const op_run *run = t->run;
    lent->op = *run->op;
    lent->attrs = allocate(run->op->n_attrs * sizeof *lent->attrs);
    for (uint32_t i = 0; i < run->op->n_attrs; i++) {
        size_t length = strlen(run->op->attrs[i].name) + 1;
        char *name = allocate(length);
        memcpy(name, run->op->attrs[i].name, length);
        lent->attrs[i] = run->op->attrs[i];
        lent->attrs[i].name = name;
    }
    lent->op.attrs = lent->attrs;
    lent->in = allocate(run->op->n_inputs * sizeof *lent->in);
    lent->out = allocate(run->op->n_outputs * sizeof *lent->out);
    lay_out(t, lent->in, lent->out);
    lent->spec =
        (run_spec){.op = &lent->op, .in = lent->in, .out = lent->out, .variant = t->variant};
}

static void take_back(lent_spec *lent)
{
    for (uint32_t i = 0; i < lent->op.n_attrs; i++) {
        char *name = (char *)(uintptr_t)lent->attrs[i].name;
        memset(name, '?', strlen(name));
        free(name);
    }
    free(lent->attrs);
    free(lent->in);
    free(lent->out);
    memset(lent, 0, sizeof *lent);
}

static void sign_trial(trial *t, const run_spec *spec)
{
    neap_text text;
    neap_text_init(&text, NULL);
    neap_run_spec_sign(spec, &text);
    snprintf(t->sign, sizeof t->sign, "%s", text.text);
    neap_text_clear(&text);
}

/* How many variants there are, and their workspaces: the same whenever it is asked. */
static uint32_t ask_variants(trial *t, int64_t workspaces[RUN_MOST_VARIANTS])
{
    const run_backend_type *type = t->backend->type;
    int64_t again[RUN_MOST_VARIANTS];
    uint32_t count = 0, count_again = 0;
    lent_spec lent;
    neap_diag diag = {0};
    lend_spec(&lent, t);
    sign_trial(t, &lent.spec);
    if (!type->supports_op(t->backend, &lent.spec, &diag))
        fail_trial(t, "not supported: %s", diag.message);
    if (type->variants(t->backend, &lent.spec, workspaces, &count, &diag) != NEAP_OK ||
        type->variants(t->backend, &lent.spec, again, &count_again, &diag) != NEAP_OK)
        fail_trial(t, "no variants: %s", diag.message);
    assert_in_range(count, 1, RUN_MOST_VARIANTS);
    assert_int_equal(count, count_again);
    assert_memory_equal(workspaces, again, count * sizeof *again);
    take_back(&lent);
    return count;
}

/* Data in f32 in a network of bf16, which no built-in network has: a backend may refuse that. */
static bool is_refused_mix(const trial *t)
{
    const neap_op *op = t->run->op;
    bool single = false, half = false;
    for (uint32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        uint32_t value = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        single |= neap_graph_value(t->run->graph, value)->dtype == NEAP_F32;
        half |= neap_graph_value(t->run->graph, value)->dtype == NEAP_BF16;
    }
    lent_spec lent;
    neap_diag diag;
    lend_spec(&lent, t);
    bool supported = t->backend->type->supports_op(t->backend, &lent.spec, &diag);
    take_back(&lent);
    return single && half && !supported;
}

static void try_variant(trial *t, int64_t workspace, random_source *random)
{
    lent_spec lent;
    neap_diag diag = {0};
    run_kernel *kernel;
    assert_true(workspace >= 0);
    lend_spec(&lent, t);
    if (t->backend->type->prepare(t->backend, &lent.spec, &kernel, &diag) != NEAP_OK)
        fail_trial(t, "it cannot be prepared: %s", diag.message);
    take_back(&lent);
    size_t bytes;
    unsigned char *once = run_once(t, kernel, workspace, NULL, &bytes);
    t->in_place = t->over != NEAP_NONE;
    unsigned char *twice = run_once(t, kernel, workspace, random, &bytes);
    if (memcmp(once, twice, bytes) != 0)
        fail_trial(t, "a second run%s does not give the same bits",
                   t->in_place ? ", over its operand," : "");
    t->in_place = false;
    free(once);
    free(twice);
    kernel->destroy(kernel);
}

/* By type: the operands that a kernel was tried in place over, one bit each. */
static uint32_t written_over[256];

/* Every operand that the type says the result may be written over, where shapes allow it. In
   reduced builds a type that was tried is not tried every time. */
static void try_in_place(trial *t, int64_t workspace, random_source *random)
{
    const neap_op *op = t->run->op;
    const op_def *def = neap_op_def_find(op->type);
    bool tried = written_over[neap_op_def_index(op->type)] != 0;
    if (def->in_place_output >= op->n_outputs || (tried && random_below(random, ONE_IN(3)) > 0))
        return;
    const tensor *out = &t->run->out[def->in_place_output];
    neap_dtype dtype = neap_graph_value(t->run->graph, op->outputs[def->in_place_output])->dtype;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        const run_array *in = &t->run->in[i].array;
        if (!(def->in_place >> i & 1) || in->dtype != dtype || in->rank != out->array.rank ||
            memcmp(in->shape, out->array.shape, in->rank * sizeof *in->shape) != 0)
            continue;
        t->over = i;
        try_variant(t, workspace, random);
        t->over = NEAP_NONE;
        written_over[neap_op_def_index(op->type)] |= 1u << i;
    }
}

/* ---- One network ---- */

#define MOST_OPEN 2

/* Networks around an op, or a built-in one; the cases of op_cases.c where neither is set. */
typedef struct family {
    const random_op *op;
    const char *network;
    const char *backend;
    neap_dtype dtype; /* of the cases */
    bool tf32;        /* products are rounded to it */
    char name[64];
} family;

static const char *const types[] = {
#define X(type) #type,
#include "graph/ops.def"
#undef X
};
#define N_TYPES (sizeof types / sizeof *types)

static uint64_t runs[N_TYPES]; /* kernels that were tried, of all backends */

static void count_run(const char *type)
{
    runs[neap_op_def_index(type)]++;
}

/* Ids and labels below what their reader takes. */
static void fill_input(const neap_graph *graph, uint32_t value, tensor *all, random_source *random)
{
    uint32_t count;
    int64_t limit = 0;
    const uint32_t *readers = neap_graph_readers(graph, value, &count);
    const neap_op *reader = count ? neap_graph_op(graph, readers[0]) : NULL;
    for (uint32_t i = 0; reader && !is_float(all[value].array.dtype) && i < reader->n_inputs; i++) {
        run_array in[32], out[32];
        for (uint32_t k = 0; k < reader->n_inputs; k++)
            in[k] = all[reader->inputs[k]].array;
        for (uint32_t k = 0; k < reader->n_outputs; k++)
            out[k] = all[reader->outputs[k]].array;
        if (reader->inputs[i] == value)
            limit = neap_run_integer_limit(&(run_spec){.op = reader, .in = in, .out = out}, i);
    }
    for (int64_t i = 0; i < all[value].n; i++)
        set_number(&all[value], i,
                   limit ? random_below(random, (uint32_t)limit)
                         : 3.0 * random_below(random, 1u << 23) / (double)(1u << 23) - 1.5);
}

static bool is_view_op(const char *type)
{
    return neap_op_def_find(type)->view;
}

/* Views have no kernels; a backend may lack others, which is said once. */
static bool has_kernel(const neap_backend *backend, const char *type)
{
    static bool said[N_TYPES];
    size_t i = neap_op_def_index(type);
    bool has = !is_view_op(type) && (!backend->type->ops || backend->type->ops[i]->prepare);
    if (!has && !is_view_op(type) && !said[i]) {
        print_message("%s has no kernel for %s\n", neap_backend_name(backend), type);
        said[i] = true;
    }
    return has;
}

/* Runs the op by the reference, and on the backend; the values get the reference's results. */
static void try_op(trial *t, neap_backend *ref, const neap_op *op, bool is_mine, tensor *values,
                   random_source *random)
{
    tensor in[32], out[32], magnitude[32];
    const neap_graph *graph = t->run->graph;
    op_run run = {.graph = graph,
                  .op = op,
                  .seed = t->seed + 17,
                  .in = in,
                  .out = out,
                  .magnitude = magnitude};
    assert_true(op->n_inputs <= 32 && op->n_outputs <= 32);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        in[i] = values[op->inputs[i]];
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        const neap_value *value = neap_graph_value(graph, op->outputs[i]);
        out[i] = new_tensor(value, is_float(value->dtype) ? NEAP_F64 : value->dtype);
        magnitude[i] = new_tensor(value, is_float(value->dtype) ? NEAP_F64 : value->dtype);
    }
    ask_reference(ref, &run);
    t->run = &run;
    int64_t workspaces[RUN_MOST_VARIANTS];
    t->variant = 0;
    t->layout = ((uint64_t)random_below(random, 1u << 30) << 20) + random_below(random, 1u << 20);
    bool runs_here = is_mine && has_kernel(t->backend, op->type) && !is_refused_mix(t);
    uint32_t count = runs_here ? ask_variants(t, workspaces) : 0;
    for (t->variant = 0; t->variant < count; t->variant++) {
        try_variant(t, workspaces[t->variant], random);
        try_in_place(t, workspaces[t->variant], random);
        count_run(op->type);
    }
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        for (int64_t k = 0; k < out[i].n; k++)
            set_number(&values[op->outputs[i]], k, number_at(&out[i], k));
        free(out[i].data);
        free(magnitude[i].data);
    }
}

/* A backend, and the reference. */
typedef struct contest {
    neap_backend *backend, *ref;
    bool tf32;
    bool divides_graphs; /* between processes that share the work */
} contest;

/* NEAP_TEST_PART=K/N: only every N-th op of a network, and every N-th of op_cases.c, from the K-th
   on, so that N processes share the work. */
static bool is_my_part(uint64_t item)
{
    const char *text = getenv("NEAP_TEST_PART"), *slash = text ? strchr(text, '/') : NULL;
    unsigned long k = text ? strtoul(text, NULL, 10) : 0,
                  n = slash ? strtoul(slash + 1, NULL, 10) : 1;
    return n == 0 || item % n == k % n;
}

/* Inputs are there. */
static void try_graph(const char *name, const neap_graph *graph, tensor *values, const contest *c,
                      uint64_t seed)
{
    random_source random = {seed};
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        op_run none = {.graph = graph};
        trial t = {.run = &none,
                   .backend = c->backend,
                   .name = name,
                   .seed = seed,
                   .over = NEAP_NONE,
                   .tf32 = c->tf32};
        if (neap_graph_op(graph, o)->n_updates == 0)
            try_op(&t, c->ref, neap_graph_op(graph, o), !c->divides_graphs || is_my_part(o), values,
                   &random);
    }
}

static tensor *new_values(const neap_graph *graph)
{
    uint32_t count = neap_graph_value_count(graph);
    tensor *values = allocate(count * sizeof *values);
    for (uint32_t v = 0; v < count; v++)
        values[v] = new_tensor(neap_graph_value(graph, v), neap_graph_value(graph, v)->dtype);
    return values;
}

static void clear_values(const neap_graph *graph, tensor *values)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        free(values[v].data);
    free(values);
}

/* Destroys the graph. */
static void try_filled(const char *name, neap_graph *graph, const contest *c, uint64_t seed,
                       random_source *random)
{
    tensor *values = new_values(graph);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            fill_input(graph, v, values, random);
    try_graph(name, graph, values, c, seed);
    clear_values(graph, values);
    neap_graph_destroy(graph);
}

static void try_random(const random_op *op, const contest *c, uint64_t seed)
{
    random_source random = {seed};
    try_filled(op->name, random_op_graph(op, &random), c, seed, &random);
}

/* The cases of op_cases.c, in another type. */
static void try_case(const op_case *of, const family *f, const contest *c, uint64_t seed)
{
    random_source random = {seed};
    op_case in_type = *of;
    in_type.dtype = f->dtype;
    try_filled(of->name, op_case_graph(&in_type), c, seed, &random);
}

/* The norm of gradients; updates are tests of their own (test_updates.c). */
static void try_clipping(const contest *c, uint64_t seed)
{
    random_source random = {seed};
    for (size_t i = 0; i < n_update_cases; i++) {
        update_case in_f32 = update_cases[i];
        in_f32.base.dtype = NEAP_F32;
        if (in_f32.training.clip_norm > 0)
            try_filled(in_f32.base.name, update_case_graph(&in_f32), c, seed, &random);
    }
}

/* A built-in network, as small as it gets with a few channels and features left. */
static void try_model(const char *name, const contest *c, uint64_t seed)
{
    static const neap_model_setting sizes[] = {
        {"batch", 2},  {"image", 32},  {"width", 6},           {"classes", 7},
        {"layers", 2}, {"hidden", 24}, {"heads", 3},           {"vocab", 31},
        {"seq", 9},    {"aux", 0},     {"dropout_percent", 10}};
    const neap_model *model = neap_models_find(name);
    neap_model_setting settings[sizeof sizes / sizeof *sizes];
    neap_model_options options;
    neap_graph *graph;
    neap_diag diag = {0};
    assert_non_null(model);
    neap_model_options_init(&options);
    options.settings = settings;
    options.kernels = seed % 2 ? NEAP_KERNELS_TORCH : NEAP_KERNELS_LEAN;
    for (uint32_t i = 0; i < neap_model_param_count(model); i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            const neap_model_param *param = neap_model_param_at(model, i);
            if (strcmp(param->name, sizes[k].name) != 0)
                continue;
            settings[options.n_settings] = sizes[k];
            if (settings[options.n_settings].value < param->least)
                settings[options.n_settings].value = param->least;
            options.n_settings++;
        }
    if (neap_model_build(NULL, model, &options, &graph, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    tensor *values = new_values(graph);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            named_input_fill(graph, v, values[v].data);
    try_graph(name, graph, values, c, seed);
    clear_values(graph, values);
    neap_graph_destroy(graph);
}

static void test_family(void **state)
{
    const family *f = *state;
    uint64_t seed = setting("NEAP_TEST_SEED", 20240801),
             count = setting("NEAP_TEST_COUNT", 12 / ONE_IN(3));
    int n_open = strncmp(f->backend, "cuda", 4) == 0 ? 1 : MOST_OPEN; /* threads do not matter */
    neap_backend *ref;
    contest open[MOST_OPEN];
    neap_backend_options options;
    neap_diag diag = {0};
    assert_int_equal(neap_backend_open(NULL, "ref", 1, &ref, &diag), NEAP_OK);
    neap_backend_options_init(&options);
    options.tf32 = f->tf32;
    for (int i = 0; i < n_open; i++) {
        options.threads = i + 1;
        open[i] = (contest){.ref = ref, .tf32 = f->tf32, .divides_graphs = f->network != NULL};
        if (neap_backend_open_with(NULL, f->backend, &options, &open[i].backend, &diag) != NEAP_OK)
            fail_msg("%s", diag.message);
    }
    for (uint64_t i = 0; f->op && i < count; i++)
        try_random(f->op, &open[i % (uint64_t)n_open], seed + i);
    for (uint64_t i = 0; !f->op && !f->network && i < op_case_count(); i++)
        for (int k = 0; k < n_open && is_my_part(i); k++)
            try_case(op_case_at(i), f, &open[k], seed + i);
    for (int k = 0; !f->op && !f->network && f->dtype == NEAP_F32 && !f->tf32 && k < n_open; k++)
        try_clipping(&open[k], seed);
    for (uint64_t i = 0; f->network && i < (count + 11) / 12; i++)
        try_model(f->network, &open[(seed + i) % (uint64_t)n_open], seed + i);
    for (int i = 0; i < n_open; i++)
        neap_backend_close(open[i].backend);
    neap_backend_close(ref);
}

/* Views have no kernels. Everything else must have been there, in place too. */
static void test_all_types(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_TYPES; i++) {
        bool updates = strchr(neap_op_def_find(types[i])->form, '!');
        if (runs[i] == 0 && !is_view_op(types[i]) && !updates)
            fail_msg("no network had the op type %s", types[i]);
        if (neap_op_def_find(types[i])->in_place && !written_over[i])
            fail_msg("no network had the op type %s in place", types[i]);
    }
}

/* Between them they have the ops of all. */
static const char *const networks[] = {"resnet50", "densenet121", "inception_v3", "mobilenet_v2",
                                       "unet",     "segnet",      "fcn8",         "vit_b_16",
                                       "gpt2",     "lstm"};
#define N_NETWORKS (sizeof networks / sizeof *networks)

static void add_families(const char *backend, family *families, size_t *count)
{
    bool is_cuda = strncmp(backend, "cuda", 4) == 0;
    for (size_t i = 0; i <= n_random_ops + N_NETWORKS + (is_cuda ? 2 : 0); i++) {
        bool network = i >= n_random_ops && i < n_random_ops + N_NETWORKS;
        if (network && !backend_is_for_case(backend, i - n_random_ops))
            continue;
        family *f = &families[(*count)++];
        bool bf16 = i == n_random_ops + N_NETWORKS + 1, tf32 = i == n_random_ops + N_NETWORKS + 2;
        *f = (family){.backend = backend, .dtype = bf16 ? NEAP_BF16 : NEAP_F32, .tf32 = tf32};
        if (i < n_random_ops)
            f->op = &random_ops[i];
        else if (i < n_random_ops + N_NETWORKS)
            f->network = networks[i - n_random_ops];
        snprintf(f->name, sizeof f->name, "%s: %s", backend,
                 f->op        ? f->op->name
                 : f->network ? f->network
                 : bf16       ? "op_cases.c in bf16"
                 : tf32       ? "op_cases.c in tf32"
                              : "op_cases.c");
    }
}

int main(int argc, char **argv)
{
    size_t room = neap_backends_count() * (n_random_ops + N_NETWORKS + 3), count = 0;
    family *families = calloc(room, sizeof *families);
    struct CMUnitTest *tests = calloc(room + 1, sizeof *tests);
    int failed = 1;
    for (uint32_t b = 0; families && b < neap_backends_count(); b++)
        if (backend_computes(neap_backends_name(b)))
            add_families(neap_backends_name(b), families, &count);
    for (size_t i = 0; tests && i < count; i++)
        tests[i] = (struct CMUnitTest){
            .name = families[i].name, .test_func = test_family, .initial_state = &families[i]};
    bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
    for (size_t i = 0; list && i < count; i++)
        puts(families[i].name);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (list) {
        failed = 0;
    } else if (families && tests) {
        tests[count++] =
            (struct CMUnitTest){.name = "every op type was run", .test_func = test_all_types};
        failed = _cmocka_run_group_tests("backends", tests, count, NULL, NULL);
    }
    free(tests);
    free(families);
    return failed;
}
