/*
 * Measures kernels.
 *
 * A kernel runs on operands of its own. In a training step they were made a while ago and lie in
 * main memory or the last cache, so as many sets of operands as fill RING bytes take turns. Times
 * are medians: whatever else the machine does makes single runs longer, never shorter.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "run/block.h"
#include "run/profile_cache.h"
#include "run/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING           (INT64_C(64) << 20) /* bytes of operands that take turns */
#define MOST_SETS      16
#define MOST_RUNS      31
#define LEAST_MEASURED 0.004 /* seconds of runs that count, unless they are many */

typedef struct meter {
    neap_allocator *allocator;
    neap_backend *backend;
    const neap_profile_options *options;
    run_block block;
    run_specs *specs;
    run_variants variants;
    double *spreads;  /* by item of variants */
    void **addresses; /* of every set, n_operands each */
    profile_cache cache;
    neap_text sign;
    neap_profile_report report;
    uint32_t n_kernels;
    double begun;
    neap_diag *diag;
} meter;

void neap_profile_options_init(neap_profile_options *options)
{
    *options = (neap_profile_options){.warmups = 1, .repetitions = 5, .seconds_per_op = 0.5};
}

/* ---- Operands ---- */

static int64_t rounded(int64_t bytes)
{
    return (bytes + NEAP_RUN_ALIGNMENT - 1) / NEAP_RUN_ALIGNMENT * NEAP_RUN_ALIGNMENT;
}

/* From the first element to behind the last. */
static int64_t span(const run_array *array)
{
    int64_t last = 0;
    for (uint32_t d = 0; d < array->rank; d++)
        last += (array->shape[d] - 1) * array->strides[d];
    return (last + 1) * neap_dtype_bytes(array->dtype);
}

static int64_t operand_bytes(const run_spec *spec)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        bytes += rounded(span(&spec->in[i]));
    for (uint32_t i = 0; i < spec->op->n_outputs; i++)
        bytes += rounded(span(&spec->out[i]));
    return bytes;
}

static int64_t set_count(int64_t bytes)
{
    int64_t sets = bytes > 0 ? RING / bytes : 1;
    return sets < 1 ? 1 : sets > MOST_SETS ? MOST_SETS : sets;
}

/* Ordinary numbers: neither zeros, which some kernels skip, nor tiny ones, which are slow.
   Integers are zeros, which are ids, labels and positions of any kind. */
static void fill(const run_array *array, unsigned char *at)
{
    size_t bytes = (size_t)span(array);
    if (array->dtype != NEAP_F32) {
        memset(at, 0, bytes);
        return;
    }
    float *numbers = (float *)(void *)at;
    for (size_t i = 0; i < bytes / sizeof *numbers; i++)
        numbers[i] = (float)((i * 2654435761u >> 7) % 255) * (1 / 127.0f) - 0.99f;
}

/* The addresses of a set, inputs first, and its contents. */
static void lay_set(const run_spec *spec, unsigned char *at, void **addresses)
{
    uint32_t n_inputs = spec->op->n_inputs;
    for (uint32_t i = 0; i < n_inputs; i++) {
        fill(&spec->in[i], at);
        addresses[i] = at;
        at += rounded(span(&spec->in[i]));
    }
    for (uint32_t i = 0; i < spec->op->n_outputs; i++) {
        memset(at, 0, (size_t)span(&spec->out[i]));
        addresses[n_inputs + i] = at;
        at += rounded(span(&spec->out[i]));
    }
}

/* ---- One kernel ---- */

/* Asked before every run: one of a large kernel may take seconds. */
static bool is_cancelled(meter *m)
{
    neap_progress *progress = m->options->progress;
    if (progress && progress->cancelled && progress->cancelled(progress))
        m->report.interrupted = true;
    return m->report.interrupted;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static neap_status run_once(const meter *m, const run_spec *spec, const run_kernel *kernel,
                            int64_t set, double *seconds)
{
    void **addresses = m->addresses + (size_t)set * m->specs->n_operands;
    run_args args = {.in = (const void *const *)addresses,
                     .out = addresses + spec->op->n_inputs,
                     .workspace = m->block.data,
                     .seed = 1};
    double begin = neap_clock_seconds();
    neap_status status = kernel->run(kernel, &args, m->diag);
    *seconds = neap_clock_seconds() - begin;
    return status;
}

/* The median of some runs, and the quarter-to-three-quarter distance over it; neither when
   cancelled. */
static neap_status time_kernel(meter *m, const run_spec *spec, const run_kernel *kernel,
                               int64_t sets, double *median, double *spread)
{
    double times[MOST_RUNS], total = 0, ignored;
    int n = 0, least = m->options->repetitions < MOST_RUNS ? m->options->repetitions : MOST_RUNS;
    int64_t set = 0;
    neap_status status = NEAP_OK;
    for (int i = 0; i < m->options->warmups && status == NEAP_OK; i++)
        status = run_once(m, spec, kernel, set++ % sets, &ignored);
    while (status == NEAP_OK && n < MOST_RUNS && (n < least || total < LEAST_MEASURED)) {
        if (n >= 3 && total / n > m->options->seconds_per_op)
            break;
        if (is_cancelled(m))
            return NEAP_OK;
        status = run_once(m, spec, kernel, set++ % sets, &times[n]);
        total += times[n++];
    }
    if (status != NEAP_OK || n == 0)
        return status;
    qsort(times, (size_t)n, sizeof *times, compare_doubles);
    *median = n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
    *spread = *median > 0 ? (times[(3 * n) / 4] - times[n / 4]) / *median : 0;
    return NEAP_OK;
}

static neap_status measure(meter *m, const run_spec *spec, int64_t workspace, double *median,
                           double *spread)
{
    int64_t bytes = operand_bytes(spec), sets = set_count(bytes);
    run_kernel *kernel = NULL;
    neap_status status = m->backend->type->prepare(m->backend, spec, &kernel, m->diag);
    if (status != NEAP_OK)
        return status;
    memset(m->block.data, 0, (size_t)workspace);
    for (int64_t set = 0; set < sets; set++)
        lay_set(spec, m->block.data + rounded(workspace) + set * bytes,
                m->addresses + (size_t)set * m->specs->n_operands);
    status = time_kernel(m, spec, kernel, sets, median, spread);
    kernel->destroy(kernel);
    return status;
}

/* ---- All kernels of a graph ---- */

static void tell(const meter *m, uint32_t done)
{
    neap_progress *progress = m->options->progress;
    if (!progress || !progress->report)
        return;
    neap_progress_event event = {.phase = "profile",
                                 .fraction = m->n_kernels ? (double)done / m->n_kernels : 1,
                                 .seconds = neap_clock_seconds() - m->begun,
                                 .best_time = -1,
                                 .bound_time = -1};
    progress->report(progress, &event);
}

/* The time of one variant, from the cache or measured. */
static neap_status find_time(meter *m, uint32_t op, uint32_t k)
{
    size_t item = m->variants.begins[op] + k;
    neap_variant *variant = &m->variants.items[item];
    const char *machine = m->backend->machine;
    const profile_entry *known =
        m->options->refresh
            ? NULL
            : profile_cache_find(&m->cache, machine, m->sign.text, k, variant->workspace);
    m->report.kernels++;
    if (known) {
        variant->seconds = known->seconds;
        m->spreads[item] = known->spread;
        return NEAP_OK;
    }
    run_spec spec = run_specs_at(m->specs, op, k);
    neap_status status =
        measure(m, &spec, variant->workspace, &variant->seconds, &m->spreads[item]);
    if (status != NEAP_OK || m->report.interrupted)
        return status;
    m->report.measured++;
    profile_entry entry = {.machine = machine,
                           .op = m->sign.text,
                           .variant = k,
                           .workspace = variant->workspace,
                           .seconds = variant->seconds,
                           .spread = m->spreads[item]};
    return profile_cache_put(&m->cache, &entry, m->diag);
}

static bool has_kernels(const meter *m, uint32_t op)
{
    return m->specs->alike[op] == op && !run_specs_is_view(m->specs, op);
}

static neap_status find_times(meter *m)
{
    neap_status status = NEAP_OK;
    for (uint32_t op = 0; op < m->variants.n_ops && status == NEAP_OK; op++) {
        if (!has_kernels(m, op))
            continue;
        run_spec spec = run_specs_at(m->specs, op, 0);
        m->sign.length = 0;
        run_spec_sign(&spec, &m->sign);
        if (m->sign.status != NEAP_OK)
            return neap_fail_no_memory(m->diag);
        for (uint32_t k = 0; k < m->variants.counts[op] && status == NEAP_OK; k++) {
            if (is_cancelled(m))
                return NEAP_OK;
            tell(m, m->report.kernels);
            status = find_time(m, op, k);
        }
    }
    tell(m, m->n_kernels);
    return status;
}

/* Room for the largest set of operands, or many of smaller ones, and the workspace before them. */
static neap_status make_room(meter *m)
{
    int64_t most = 0;
    for (uint32_t op = 0; op < m->variants.n_ops; op++) {
        if (!has_kernels(m, op))
            continue;
        run_spec spec = run_specs_at(m->specs, op, 0);
        int64_t bytes = operand_bytes(&spec), workspace = 0;
        for (uint32_t k = 0; k < m->variants.counts[op]; k++) {
            const neap_variant *variant = &m->variants.items[m->variants.begins[op] + k];
            workspace = variant->workspace > workspace ? variant->workspace : workspace;
        }
        bytes = rounded(workspace) + bytes * set_count(bytes);
        most = bytes > most ? bytes : most;
        m->n_kernels += m->variants.counts[op];
    }
    neap_status status = run_block_create(most, &m->block, m->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(m->allocator, MOST_SETS * m->specs->n_operands, &m->addresses, m->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(m->allocator, m->variants.n_items, &m->spreads, m->diag);
    return status;
}

/* The most uncertain among the kernels that matter. */
static void find_worst_spread(meter *m, const neap_graph *graph)
{
    double step = neap_graph_seconds(graph, neap_graph_base_ticks(graph));
    for (uint32_t op = 0; op < m->variants.n_ops; op++) {
        size_t item = m->variants.begins[op];
        if (m->variants.items[item].seconds > step / 100 &&
            m->spreads[item] > m->report.worst_spread)
            m->report.worst_spread = m->spreads[item];
    }
}

/* A cache that cannot be used is told of and does not fail the call. A file that could not be read
   is not written either: it may be something else, and precious. */
static void use_cache(meter *m, bool write)
{
    neap_diag trouble = {.message = ""};
    const char *path = m->options->cache;
    if (!path || (write && (m->report.measured == 0 || *m->report.cache_trouble)))
        return;
    neap_status status = write ? profile_cache_update(&m->cache, path, &trouble)
                               : profile_cache_read(&m->cache, path, &trouble);
    if (status != NEAP_OK && !*m->report.cache_trouble)
        snprintf(m->report.cache_trouble, sizeof m->report.cache_trouble, "%s", trouble.message);
}

static neap_status profile(meter *m, neap_graph *graph)
{
    neap_status status = run_variants_init(m->specs, m->backend, &m->variants, m->diag);
    if (status == NEAP_OK)
        status = make_room(m);
    if (status != NEAP_OK)
        return status;
    use_cache(m, false);
    status = find_times(m);
    use_cache(m, true);
    if (status != NEAP_OK || m->report.interrupted)
        return status;
    status = run_variants_apply(&m->variants, false, graph, m->diag);
    if (status == NEAP_OK)
        find_worst_spread(m, graph);
    return status;
}

neap_status neap_profile(neap_allocator *allocator, neap_graph *graph, neap_backend *backend,
                         const neap_profile_options *options, neap_profile_report *report,
                         neap_diag *diag)
{
    neap_profile_options defaults;
    neap_profile_options_init(&defaults);
    allocator = neap_allocator_or_system(allocator);
    run_specs specs;
    meter m = {.allocator = allocator,
               .backend = backend,
               .options = options ? options : &defaults,
               .specs = &specs,
               .variants = {.allocator = allocator},
               .begun = neap_clock_seconds(),
               .diag = diag};
    profile_cache_init(&m.cache, allocator);
    neap_text_init(&m.sign, allocator);
    neap_status status = run_specs_init(allocator, graph, backend, &specs, diag);
    if (status == NEAP_OK)
        status = profile(&m, graph);
    m.report.seconds = neap_clock_seconds() - m.begun;
    if (report)
        *report = m.report;
    NEAP_DELETE(allocator, m.variants.n_items, m.spreads);
    NEAP_DELETE(allocator, MOST_SETS * specs.n_operands, m.addresses);
    run_block_destroy(&m.block);
    run_variants_clear(&m.variants);
    run_specs_clear(&specs);
    neap_text_clear(&m.sign);
    profile_cache_clear(&m.cache);
    return status;
}
