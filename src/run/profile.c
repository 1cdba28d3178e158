/*
 * Measures kernels.
 *
 * In a training step, other kernels have used the caches since a kernel last ran, and some of its
 * operands were just written. To imitate this, the kernels of a group take turns in rounds, and
 * their inputs are rewritten before each round. The speed of a machine also drifts within seconds;
 * with rounds, the drift affects all kernels equally. Times are medians, unless the machine is
 * busy.
 *
 * On a device a kernel is measured alone, by marks on its stream. Before each run other memory is
 * overwritten, which empties the cache, and then the inputs. Its libraries offer dozens of kernels
 * for an op, some of which fail or are slow: the former get an infinite time, the latter are not
 * run again, the sooner the slower they are, and algorithms that were very slow on small ops are
 * not tried on large ones.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/progress.h"
#include "graph/graph_internal.h"
#include "run/block.h"
#include "run/profile_cache.h"
#include "run/slow_algorithms.h"
#include "run/variants.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GROUP          64                  /* the largest number of kernels that take turns */
#define GROUP_BYTES    (INT64_C(32) << 20) /* of their operands; a single kernel may exceed it */
#define ROUND_SECONDS  0.05                /* for one run of each; a single kernel may exceed it */
#define MOST_RUNS      31
#define LEAST_RUNS     3     /* of a slow kernel */
#define LEAST_MEASURED 0.004 /* least total seconds of measured runs, unless there are many runs */
#define LARGE_SPREAD   0.25  /* a kernel whose times vary more is run more often */
#define EVICTED_BYTES  (INT64_C(128) << 20) /* overwritten on a device before a kernel runs */
#define FRESH_BYTES    (INT64_C(64) << 20)  /* of an input that a cache may hold */
#define STEADY_RUNS    9    /* of a kernel of a device that are enough if their times vary less */
#define STEADY_SPREAD  0.03 /* than this share, */
#define STEADY_SECONDS 0.02 /* and fewer runs, if they take this long together */
#define WARM_SECONDS   0.1  /* until an idle device has its usual clocks */
#define VERY_SLOW      12.0 /* times as slow as a kernel without more workspace */

/* A kernel that has run so often is not run again if it is so many times as slow as one without
   more workspace and takes longer than so many seconds. The first run may have had to wait for the
   kernel's code. */
static const struct {
    int runs;
    double times, seconds;
} HOPELESS[] = {{1, VERY_SLOW, 0.25}, {2, 3, 0}, {3, 1.5, 0}, {5, 1.2, 0}, {9, 1.08, 0}};

/* A kernel that is being measured. */
typedef struct sampling {
    uint32_t op, variant;
    run_kernel *kernel;
    int64_t begin; /* offset of its operands in the block */
    double times[MOST_RUNS];
    int count;
    double total;
} sampling;

typedef struct meter {
    neap_allocator *allocator;
    neap_backend *backend;
    const neap_profile_options *options;
    run_block block;
    run_block evicted; /* on a device: memory that is overwritten before each run */
    double marks;      /* on a device: seconds that two marks add to what is between them, */
    bool knows_marks;  /* once this is set */
    run_specs *specs;
    run_variants variants;
    double *spreads;   /* by item of variants */
    void **addresses;  /* of the operands of each kernel of the group */
    int64_t workspace; /* the largest; it is at the start of the block */
    int64_t group_bytes;
    sampling *group;
    size_t n_group;
    double group_seconds; /* of a round */
    uint32_t done;        /* kernels whose times are known */
    slow_algorithms slow;
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

/* From the first element to past the last. */
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

/* Ordinary numbers: neither zeros, which some kernels skip, nor tiny ones, which are slow.
   Integers are zeros, which are ids, labels and positions of any kind. Numbers in f64 are those of
   an update's step: ones, with which it updates all. */
static void fill(const run_array *array, unsigned char *at)
{
    size_t bytes = (size_t)span(array);
    if (array->dtype != NEAP_F32) {
        memset(at, 0, bytes);
        for (size_t i = 0; array->dtype == NEAP_F64 && i < bytes / sizeof(double); i++)
            ((double *)(void *)at)[i] = 1;
        return;
    }
    float *numbers = (float *)(void *)at;
    for (size_t i = 0; i < bytes / sizeof *numbers; i++)
        numbers[i] = (float)((i * 2654435761u >> 7) % 255) * (1 / 127.0f) - 0.99f;
}

/*
 * Assigns addresses to the operands, inputs first, and fills the inputs, the first one last: in a
 * backward op it is the gradient, which was just computed. On a device `again` only fills what may
 * stay in its cache.
 */
static neap_status lay_operands(const meter *m, const run_spec *spec, bool again, unsigned char *at,
                                void **addresses)
{
    const run_device_type *device = m->backend->type->device;
    uint32_t n_inputs = spec->op->n_inputs;
    for (uint32_t i = 0; i < n_inputs + spec->op->n_outputs; i++) {
        addresses[i] = at;
        at += rounded(span(i < n_inputs ? &spec->in[i] : &spec->out[i - n_inputs]));
    }
    for (uint32_t i = n_inputs; i-- > 0;) {
        int64_t bytes = span(&spec->in[i]),
                skipped = again && bytes > FRESH_BYTES ? bytes - FRESH_BYTES : 0;
        skipped -= skipped % NEAP_RUN_ALIGNMENT;
        if (!device)
            fill(&spec->in[i], addresses[i]);
        else
            NEAP_TRY(device->prime(m->backend, spec->in[i].dtype,
                                   (unsigned char *)addresses[i] + skipped,
                                   (size_t)(bytes - skipped), m->diag));
    }
    return NEAP_OK;
}

/* ---- One kernel ---- */

/* Checked before every run: one run of a large kernel may take seconds. */
static bool is_cancelled(meter *m)
{
    m->report.interrupted |= neap_progress_is_cancelled(m->options->progress);
    return m->report.interrupted;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static neap_variant *variant_of(const meter *m, const sampling *x)
{
    return &m->variants.items[m->variants.begins[x->op] + x->variant];
}

static void **addresses_of(const meter *m, const sampling *x)
{
    return m->addresses + (size_t)(x - m->group) * m->specs->n_operands;
}

static neap_status lay(const meter *m, const sampling *x, bool again)
{
    run_spec spec = neap_run_specs_at(m->specs, x->op, x->variant);
    return lay_operands(m, &spec, again, m->block.data + m->workspace + x->begin,
                        addresses_of(m, x));
}

/* On a device, between two marks. */
static neap_status run_between_marks(const meter *m, const sampling *x, const run_args *args,
                                     double *seconds)
{
    const run_device_type *device = m->backend->type->device;
    NEAP_TRY(device->prime(m->backend, NEAP_F32, m->evicted.data, EVICTED_BYTES, m->diag));
    NEAP_TRY(lay(m, x, true));
    NEAP_TRY(device->mark(m->backend, 0, m->diag));
    NEAP_TRY(x->kernel->run(x->kernel, args, m->diag));
    NEAP_TRY(device->mark(m->backend, 1, m->diag));
    NEAP_TRY(device->elapsed(m->backend, seconds, m->diag));
    *seconds = *seconds > 1.1 * m->marks ? *seconds - m->marks : 0.1 * m->marks;
    return NEAP_OK;
}

/* The seconds between two marks with `count` kernels between them that do next to nothing. */
static neap_status time_nothing(const meter *m, int count, double *seconds)
{
    const run_device_type *device = m->backend->type->device;
    NEAP_TRY(device->prime(m->backend, NEAP_F32, m->evicted.data, EVICTED_BYTES, m->diag));
    NEAP_TRY(device->mark(m->backend, 0, m->diag));
    for (int i = 0; i < count; i++)
        NEAP_TRY(device->prime(m->backend, NEAP_F32, m->evicted.data, 4, m->diag));
    NEAP_TRY(device->mark(m->backend, 1, m->diag));
    return device->elapsed(m->backend, seconds, m->diag);
}

/* One such kernel between marks takes longer than one among others, as in a step, by what the marks
   take. Done once, before the first kernel is measured. */
static neap_status measure_marks(meter *m)
{
    enum { RUNS = 15, MANY = 9 };
    double one[RUNS], many[RUNS], begin = neap_clock_seconds();
    if (m->knows_marks)
        return NEAP_OK;
    do {
        NEAP_TRY(time_nothing(m, 1, &one[0]));
    } while (neap_clock_seconds() - begin < WARM_SECONDS);
    for (int i = 0; i < RUNS; i++) {
        NEAP_TRY(time_nothing(m, 1, &one[i]));
        NEAP_TRY(time_nothing(m, MANY, &many[i]));
    }
    qsort(one, RUNS, sizeof *one, compare_doubles);
    qsort(many, RUNS, sizeof *many, compare_doubles);
    double among = (many[RUNS / 2] - one[RUNS / 2]) / (MANY - 1);
    m->marks = one[RUNS / 2] > among ? one[RUNS / 2] - among : 0;
    m->knows_marks = true;
    return NEAP_OK;
}

static neap_status run_once(const meter *m, const sampling *x, double *seconds)
{
    void **addresses = addresses_of(m, x);
    run_args args = {.in = addresses,
                     .out = addresses + neap_graph_op(m->specs->graph, x->op)->n_inputs,
                     .workspace = m->block.data,
                     .seed = 1};
    if (m->backend->type->device)
        return run_between_marks(m, x, &args, seconds);
    double begin = neap_clock_seconds();
    neap_status status = x->kernel->run(x->kernel, &args, m->diag);
    *seconds = neap_clock_seconds() - begin;
    return status;
}

/*
 * The median, and the interquartile range relative to it. If the range is large, other programs
 * used the machine; the lower quartile is then a better estimate of the kernel's own time.
 */
static void summarize(const sampling *x, double *seconds, double *spread)
{
    double times[MOST_RUNS];
    size_t n = (size_t)x->count;
    memcpy(times, x->times, n * sizeof *times);
    qsort(times, n, sizeof *times, compare_doubles);
    double median = n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
    *spread = median > 0 ? (times[(3 * n) / 4] - times[n / 4]) / median : 0;
    *seconds = *spread > LARGE_SPREAD ? times[n / 4] : median;
}

/* A kernel of a device whose times hardly vary needs few runs, the fewer the longer it takes. */
static bool is_steady(const meter *m, const sampling *x)
{
    double seconds, spread;
    int least = STEADY_RUNS > m->options->repetitions ? STEADY_RUNS : m->options->repetitions;
    if (!m->backend->type->device || x->count < LEAST_RUNS)
        return false;
    summarize(x, &seconds, &spread);
    return spread < STEADY_SPREAD && (x->count >= least || x->total >= STEADY_SECONDS);
}

static bool wants_more(const meter *m, const sampling *x)
{
    double seconds, spread;
    if (x->count >= MOST_RUNS)
        return false;
    if (x->count >= LEAST_RUNS && x->total > x->count * m->options->seconds_per_op)
        return false;
    if (is_steady(m, x))
        return false;
    if (x->count < m->options->repetitions || x->count < 1)
        return true;
    if (m->options->repetitions <= 1) /* a rough figure will do */
        return false;
    summarize(x, &seconds, &spread);
    if (x->total < LEAST_MEASURED)
        return true;
    return spread > LARGE_SPREAD && x->total < m->options->seconds_per_op;
}

/* ---- A group of kernels ---- */

static void tell(const meter *m, double of_group)
{
    double done = m->done + of_group * (double)m->n_group;
    neap_progress_tell(m->options->progress, "measuring kernels",
                       m->n_kernels ? done / m->n_kernels : 1, neap_clock_seconds() - m->begun);
}

/*
 * Runs each kernel that needs more runs once, without pauses as in a training step, so that no
 * thread goes to sleep. Each round starts with a different kernel. *any is set if a kernel ran.
 */
static neap_status run_round(meter *m, int round, bool *any)
{
    double planned = m->options->repetitions > 1 ? m->options->repetitions : 1;
    *any = false;
    for (size_t i = 0; i < m->n_group && !m->backend->type->device; i++)
        if (wants_more(m, &m->group[i]))
            NEAP_TRY(lay(m, &m->group[i], true));
    tell(m, round < planned ? round / planned : 1);
    for (size_t i = 0; i < m->n_group; i++) {
        sampling *x = &m->group[(i + (size_t)round) % m->n_group];
        double seconds;
        if (!wants_more(m, x))
            continue;
        if (is_cancelled(m))
            return NEAP_OK;
        neap_status status = run_once(m, x, &seconds);
        if (status != NEAP_OK)
            return status;
        *any = true;
        x->times[x->count++] = seconds;
        x->total += seconds;
    }
    return NEAP_OK;
}

/* The signature of an op, into m->sign. */
static neap_status sign(meter *m, uint32_t op)
{
    run_spec spec = neap_run_specs_at(m->specs, op, 0);
    m->sign.length = 0;
    neap_run_spec_sign(&spec, &m->sign);
    return m->sign.status == NEAP_OK ? NEAP_OK : neap_fail_no_memory(m->diag);
}

/* Records the times of a group; after a cancellation, only of kernels with enough runs. */
static neap_status note_times(meter *m)
{
    neap_status status = NEAP_OK;
    for (size_t i = 0; i < m->n_group && status == NEAP_OK; i++) {
        sampling *x = &m->group[i];
        if (x->count == 0 || (m->report.interrupted && x->count < LEAST_RUNS))
            continue;
        neap_variant *variant = variant_of(m, x);
        double *spread = &m->spreads[variant - m->variants.items];
        summarize(x, &variant->seconds, spread);
        m->report.measured++;
        status = sign(m, x->op);
        if (status != NEAP_OK)
            return status;
        profile_entry entry = {.machine = m->backend->machine,
                               .op = m->sign.text,
                               .variant = x->variant,
                               .workspace = variant->workspace,
                               .seconds = variant->seconds,
                               .spread = *spread,
                               .when = (int64_t)time(NULL)};
        status = neap_profile_cache_put(&m->cache, &entry, m->diag);
    }
    return status;
}

static void clear_group(meter *m)
{
    for (size_t i = 0; i < m->n_group; i++)
        m->group[i].kernel->destroy(m->group[i].kernel);
    m->n_group = 0;
    m->group_seconds = 0;
    m->group_bytes = 0;
}

static neap_status measure_group(meter *m)
{
    neap_status status = NEAP_OK;
    bool any = m->n_group > 0;
    for (int round = 0; any && status == NEAP_OK && !m->report.interrupted; round++)
        status = run_round(m, round, &any);
    if (status == NEAP_OK)
        status = note_times(m);
    m->done += (uint32_t)m->n_group;
    clear_group(m);
    return status;
}

/* Whether a known kernel of the op with as little workspace is so many times as fast. */
static bool is_slower(const meter *m, const sampling *x, double seconds, double times)
{
    const neap_variant *own = variant_of(m, x), *all = own - x->variant;
    for (uint32_t k = 0; k < m->variants.counts[x->op]; k++)
        if (k != x->variant && all[k].seconds > 0 && all[k].workspace <= own->workspace &&
            times * all[k].seconds < seconds)
            return true;
    return false;
}

/* Whether more runs would change nothing: the kernel is too slow to be of use. */
static bool is_hopeless(const meter *m, const sampling *x, int runs, double least)
{
    for (size_t i = 0; i < sizeof HOPELESS / sizeof *HOPELESS; i++)
        if (runs >= HOPELESS[i].runs && least > HOPELESS[i].seconds &&
            is_slower(m, x, least, HOPELESS[i].times))
            return true;
    return false;
}

/* Whether the device still works after an error. */
static bool is_alive(const meter *m)
{
    const run_device_type *device = m->backend->type->device;
    double seconds;
    return device->mark(m->backend, 0, NULL) == NEAP_OK &&
           device->mark(m->backend, 1, NULL) == NEAP_OK &&
           device->elapsed(m->backend, &seconds, NULL) == NEAP_OK;
}

/* A kernel that cannot be used; neap_run_variants_prune leaves it out. */
static neap_status drop(meter *m, neap_variant *variant)
{
    variant->seconds = HUGE_VAL;
    m->done++;
    return NEAP_OK;
}

/* Notes whether the algorithm of a kernel whose time is known is very slow. */
static neap_status note_algorithm(meter *m, uint32_t op, uint32_t k)
{
    sampling x = {.op = op, .variant = k};
    run_spec spec = neap_run_specs_at(m->specs, op, k);
    bool slow = is_slower(m, &x, variant_of(m, &x)->seconds, VERY_SLOW);
    return neap_slow_algorithms_note(&m->slow, m->backend, &spec, slow, m->diag);
}

/* Runs a kernel of a device until its time is known or it is hopeless. */
static neap_status sample_alone(meter *m, sampling *x)
{
    double seconds, least = HUGE_VAL;
    NEAP_TRY(lay(m, x, false));
    for (int runs = 0; runs <= m->options->warmups || wants_more(m, x); runs++) {
        if (is_cancelled(m))
            return NEAP_OK;
        NEAP_TRY(run_once(m, x, &seconds));
        least = fmin(least, seconds);
        bool hopeless = is_hopeless(m, x, runs + 1, least);
        if (runs >= m->options->warmups || hopeless) {
            x->times[x->count++] = hopeless ? least : seconds;
            x->total += seconds;
        }
        if (hopeless)
            return NEAP_OK;
    }
    return NEAP_OK;
}

/* A kernel of a device: alone, and dropped if it fails, as one of a library may that cannot do this
   after all. */
static neap_status measure_alone(meter *m, uint32_t op, uint32_t k)
{
    neap_variant *variant = &m->variants.items[m->variants.begins[op] + k];
    sampling *x = &m->group[0];
    *x = (sampling){.op = op, .variant = k};
    NEAP_TRY(measure_marks(m));
    run_spec spec = neap_run_specs_at(m->specs, op, k);
    neap_status status = m->backend->type->prepare(m->backend, &spec, &x->kernel, m->diag);
    m->n_group = status == NEAP_OK ? 1 : 0;
    if (status == NEAP_OK)
        status = sample_alone(m, x);
    if (status == NEAP_UNSUPPORTED || (status == NEAP_INTERNAL && is_alive(m))) {
        clear_group(m);
        return drop(m, variant);
    }
    if (status == NEAP_OK)
        status = note_times(m);
    m->done++;
    clear_group(m);
    tell(m, 0);
    return status == NEAP_OK && !m->report.interrupted ? note_algorithm(m, op, k) : status;
}

/*
 * Adds a kernel to the group and warms it up. If the rounds would become too long or the operands
 * too large, the previous group is measured first.
 */
static neap_status join_group(meter *m, uint32_t op, uint32_t k)
{
    double seconds = 0;
    run_spec spec = neap_run_specs_at(m->specs, op, k);
    int64_t bytes = operand_bytes(&spec);
    neap_status status = NEAP_OK;
    if (m->backend->type->device)
        return measure_alone(m, op, k);
    if (m->n_group == GROUP || (m->n_group > 0 && m->group_bytes + bytes > GROUP_BYTES))
        status = measure_group(m);
    if (status != NEAP_OK || m->report.interrupted)
        return status;
    sampling *x = &m->group[m->n_group];
    *x = (sampling){.op = op, .variant = k, .begin = m->group_bytes};
    spec = neap_run_specs_at(m->specs, op, k); /* measuring has overwritten the spec */
    status = m->backend->type->prepare(m->backend, &spec, &x->kernel, m->diag);
    if (status != NEAP_OK)
        return status;
    m->n_group++;
    m->group_bytes += bytes;
    status = lay(m, x, false);
    for (int i = 0; i < m->options->warmups && status == NEAP_OK; i++)
        status = run_once(m, x, &seconds);
    m->group_seconds += seconds;
    return status == NEAP_OK && m->group_seconds > ROUND_SECONDS ? measure_group(m) : status;
}

/* ---- All kernels of a graph ---- */

/* Whether the kernel needs more workspace than the caller wants, and is not the op's leanest. */
static bool takes_too_much(const meter *m, uint32_t op, uint32_t k)
{
    const neap_variant *items = &m->variants.items[m->variants.begins[op]];
    int64_t most = m->options->most_workspace, least = INT64_MAX;
    if (most <= 0 || !m->backend->type->device)
        return false;
    for (uint32_t i = 0; i < m->variants.counts[op]; i++)
        least = items[i].workspace < least ? items[i].workspace : least;
    return items[k].workspace > (most > least ? most : least);
}

/* The time of one variant: from the cache, or measured later with the group it joins. */
static neap_status find_time(meter *m, uint32_t op, uint32_t k)
{
    size_t item = m->variants.begins[op] + k;
    neap_variant *variant = &m->variants.items[item];
    bool device = m->backend->type->device, slow = false;
    const profile_entry *known = m->options->refresh
                                     ? NULL
                                     : neap_profile_cache_find(&m->cache, m->backend->machine,
                                                               m->sign.text, k, variant->workspace);
    m->report.kernels++;
    if (takes_too_much(m, op, k))
        return drop(m, variant);
    if (known && neap_profile_entry_holds(known, (int64_t)time(NULL))) {
        variant->seconds = known->seconds;
        m->spreads[item] = known->spread;
        m->done++;
        return device ? note_algorithm(m, op, k) : NEAP_OK;
    }
    if (device) {
        run_spec spec = neap_run_specs_at(m->specs, op, k);
        NEAP_TRY(neap_slow_algorithms_ask(&m->slow, m->backend, &spec, &slow, m->diag));
    }
    if (slow)
        return drop(m, variant);
    if (variant->workspace > m->workspace) /* no room for it on this device */
        return drop(m, variant);
    return join_group(m, op, k);
}

static bool has_kernels(const meter *m, uint32_t op)
{
    return m->specs->alike[op] == op && !neap_run_specs_is_view(m->specs, op);
}

/* An op with kernels of its own, and its amount of work. */
typedef struct errand {
    double work;
    uint32_t op;
} errand;

static int less_work_first(const void *a, const void *b)
{
    const errand *x = a, *y = b;
    if (x->work > y->work || x->work < y->work)
        return x->work > y->work ? 1 : -1;
    return (x->op > y->op) - (x->op < y->op);
}

static neap_status find_times_of(meter *m, uint32_t op)
{
    neap_status status = NEAP_OK;
    for (uint32_t k = 0; k < m->variants.counts[op] && status == NEAP_OK; k++) {
        if (is_cancelled(m))
            return NEAP_OK;
        status = sign(m, op);
        if (status == NEAP_OK)
            status = find_time(m, op, k);
    }
    return status;
}

/*
 * From the least work to the most: kernels in a group then take similar times, and an interruption
 * during long kernels does not lose short ones.
 */
static neap_status find_times(meter *m)
{
    errand *errands;
    size_t count = 0;
    neap_status status = NEAP_NEW(m->allocator, m->variants.n_ops, &errands, m->diag);
    if (status != NEAP_OK)
        return status;
    for (uint32_t op = 0; op < m->variants.n_ops; op++) {
        const neap_op *o = neap_graph_op(m->specs->graph, op);
        if (has_kernels(m, op))
            errands[count++] = (errand){(double)o->flops + (double)o->bytes_moved, op};
    }
    if (count > 1)
        qsort(errands, count, sizeof *errands, less_work_first);
    for (size_t i = 0; i < count && status == NEAP_OK && !m->report.interrupted; i++)
        status = find_times_of(m, errands[i].op);
    NEAP_DELETE(m->allocator, m->variants.n_ops, errands);
    if (status == NEAP_OK)
        status = measure_group(m);
    tell(m, 1);
    return status;
}

/* Libraries have kernels whose workspace no device has room for: the others are measured. */
static neap_status limit_workspace(meter *m, int64_t operands)
{
    neap_device_memory memory;
    const run_device_type *device = m->backend->type->device;
    if (!device)
        return NEAP_OK;
    NEAP_TRY(device->memory(m->backend, &memory, m->diag));
    int64_t room = (memory.total - memory.used) / 10 * 9 - operands - EVICTED_BYTES;
    room = room > 0 ? room / NEAP_RUN_ALIGNMENT * NEAP_RUN_ALIGNMENT : 0;
    m->workspace = m->workspace < room ? m->workspace : room;
    return NEAP_OK;
}

/* Memory for the largest workspace, followed by the operands of a group. */
static neap_status make_room(meter *m)
{
    int64_t most = 0;
    for (uint32_t op = 0; op < m->variants.n_ops; op++) {
        if (!has_kernels(m, op))
            continue;
        run_spec spec = neap_run_specs_at(m->specs, op, 0);
        int64_t bytes = operand_bytes(&spec);
        most = bytes > most ? bytes : most;
        for (uint32_t k = 0; k < m->variants.counts[op]; k++) {
            int64_t workspace = m->variants.items[m->variants.begins[op] + k].workspace;
            if (takes_too_much(m, op, k))
                continue;
            m->workspace = rounded(workspace) > m->workspace ? rounded(workspace) : m->workspace;
        }
        m->n_kernels += m->variants.counts[op];
    }
    most = most > GROUP_BYTES ? most : GROUP_BYTES;
    NEAP_TRY(limit_workspace(m, most));
    most += m->workspace;
    neap_status status = neap_run_block_create_for(m->backend, false, most, &m->block, m->diag);
    if (status == NEAP_OK && m->backend->type->device)
        status = neap_run_block_create_for(m->backend, false, EVICTED_BYTES, &m->evicted, m->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(m->allocator, GROUP * m->specs->n_operands, &m->addresses, m->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(m->allocator, GROUP, &m->group, m->diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(m->allocator, m->variants.n_items, &m->spreads, m->diag);
    return status;
}

/* The largest spread among kernels that take more than 1% of a step. */
static void find_worst_spread(meter *m, const neap_graph *graph)
{
    double step = neap_graph_seconds(graph, neap_graph_base_ticks(graph));
    for (uint32_t op = 0; op < m->variants.n_ops; op++) {
        size_t item = m->variants.begins[op];
        const neap_variant *first = &m->variants.items[item];
        item += first->kernel > 0 ? first->kernel - 1 : 0; /* where it was before pruning */
        if (first->seconds > step / 100 && m->spreads[item] > m->report.worst_spread)
            m->report.worst_spread = m->spreads[item];
    }
}

/*
 * A cache that cannot be used is reported and does not fail the call. A file that could not be read
 * is not overwritten: it may be something else, and valuable.
 */
static void use_cache(meter *m, bool write)
{
    neap_diag trouble = {.message = ""};
    const char *path = m->options->cache;
    if (!path || (write && (m->report.measured == 0 || *m->report.cache_trouble)))
        return;
    neap_status status = write ? neap_profile_cache_update(&m->cache, path, &trouble)
                               : neap_profile_cache_read(&m->cache, path, &trouble);
    if (status != NEAP_OK && !*m->report.cache_trouble)
        snprintf(m->report.cache_trouble, sizeof m->report.cache_trouble, "%s", trouble.message);
    if (!write)
        snprintf(m->report.cache_damage, sizeof m->report.cache_damage, "%s", m->cache.damage);
}

/* From times of kernels alone to times beside copies. */
static void add_contention(meter *m)
{
    const neap_contention *beside = &m->options->beside;
    for (uint32_t op = 0; op < m->variants.n_ops && beside->slowdown > 0; op++) {
        double bytes = (double)neap_graph_op(m->specs->graph, op)->bytes_moved;
        neap_variant *items = &m->variants.items[m->variants.begins[op]];
        for (uint32_t k = 0; m->specs->alike[op] == op && k < m->variants.counts[op]; k++) {
            double least = bytes / beside->bandwidth; /* seconds of moving them */
            items[k].seconds += beside->slowdown * fmin(items[k].seconds, least);
        }
    }
}

static neap_status profile(meter *m, neap_graph *graph)
{
    use_cache(m, false);
    neap_status status =
        neap_run_variants_init(m->specs, m->backend, m->options->progress, &m->variants, m->diag);
    if (status != NEAP_OK || is_cancelled(m))
        return status;
    status = make_room(m);
    if (status != NEAP_OK)
        return status;
    status = find_times(m);
    use_cache(m, true);
    if (status != NEAP_OK || m->report.interrupted)
        return status;
    status = neap_run_variants_prune(&m->variants, m->specs, m->diag);
    if (status == NEAP_OK) {
        add_contention(m);
        status = neap_run_variants_apply(&m->variants, false, graph, m->diag);
    }
    if (status == NEAP_OK)
        status = neap_graph_set_measured_on(graph, m->backend->machine, m->diag);
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
               .slow = {.allocator = allocator},
               .begun = neap_clock_seconds(),
               .diag = diag};
    neap_profile_cache_init(&m.cache, allocator);
    neap_text_init(&m.sign, allocator);
    neap_status status = neap_run_specs_init(allocator, graph, backend, &specs, diag);
    if (status == NEAP_OK)
        status = profile(&m, graph);
    m.report.seconds = neap_clock_seconds() - m.begun;
    if (report)
        *report = m.report;
    NEAP_DELETE(allocator, m.variants.n_items, m.spreads);
    NEAP_DELETE(allocator, GROUP * specs.n_operands, m.addresses);
    clear_group(&m);
    NEAP_DELETE(allocator, GROUP, m.group);
    neap_run_block_destroy(&m.block);
    neap_run_block_destroy(&m.evicted);
    neap_run_variants_clear(&m.variants);
    neap_run_specs_clear(&specs);
    neap_text_clear(&m.sign);
    neap_slow_algorithms_clear(&m.slow);
    neap_profile_cache_clear(&m.cache);
    return status;
}

neap_status neap_profile_doubt(neap_allocator *allocator, const neap_graph *graph,
                               neap_backend *backend, const char *path, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    run_specs specs;
    size_t count = 0;
    meter m = {.allocator = allocator, .backend = backend, .specs = &specs, .diag = diag};
    neap_profile_cache_init(&m.cache, allocator);
    neap_text_init(&m.sign, allocator);
    neap_status status = neap_run_specs_init(allocator, graph, backend, &specs, diag);
    if (status == NEAP_OK)
        status = neap_profile_cache_read(&m.cache, path, diag);
    for (uint32_t op = 0; op < neap_graph_op_count(graph) && status == NEAP_OK; op++)
        if (has_kernels(&m, op)) {
            status = sign(&m, op);
            if (status == NEAP_OK)
                count += neap_profile_cache_doubt(&m.cache, backend->machine, m.sign.text);
        }
    if (status == NEAP_OK && count > 0)
        status = neap_profile_cache_write(&m.cache, path, diag);
    neap_run_specs_clear(&specs);
    neap_text_clear(&m.sign);
    neap_profile_cache_clear(&m.cache);
    return status;
}
