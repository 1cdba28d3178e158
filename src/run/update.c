/* Updates block by block: operands in f32, the functions of neap/optimizer.h, results back. */
#include "run/update.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

enum { AT_WEIGHT, AT_GRADIENT, AT_STEP, AT_STATE };

/* ---- Elements of any type and strides ---- */

static double read_element(neap_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case NEAP_F64:
        return ((const double *)data)[at];
    case NEAP_BF16:
        return (double)neap_from_bf16(((const uint16_t *)data)[at]);
    case NEAP_F16:
        return (double)neap_from_f16(((const uint16_t *)data)[at]);
    default:
        return (double)((const float *)data)[at];
    }
}

static void write_element(neap_dtype dtype, void *data, int64_t at, float number)
{
    switch (dtype) {
    case NEAP_F64:
        ((double *)data)[at] = (double)number;
        break;
    case NEAP_BF16:
        ((uint16_t *)data)[at] = neap_to_bf16(number);
        break;
    case NEAP_F16:
        ((uint16_t *)data)[at] = neap_to_f16(number);
        break;
    default:
        ((float *)data)[at] = number;
    }
}

/* A walk over elements in row-major order. */
typedef struct element_walk {
    const run_array *array;
    int64_t index[NEAP_MAX_RANK], at;
} element_walk;

static element_walk walk_from(const run_array *array, int64_t element)
{
    element_walk walk = {.array = array};
    for (uint32_t d = array->rank; d-- > 0;) {
        walk.index[d] = element % array->shape[d];
        element /= array->shape[d];
        walk.at += walk.index[d] * array->strides[d];
    }
    return walk;
}

static void walk_on(element_walk *walk)
{
    const run_array *array = walk->array;
    for (uint32_t d = array->rank; d-- > 0;) {
        walk->at += array->strides[d];
        if (++walk->index[d] < array->shape[d])
            return;
        walk->at -= walk->index[d] * array->strides[d];
        walk->index[d] = 0;
    }
}

static bool is_direct(const run_array *array)
{
    return array->dtype == NEAP_F32 && neap_run_array_is_plain(array);
}

static void read_block(const run_array *array, const void *data, int64_t begin, int64_t count,
                       float *block)
{
    if (is_direct(array)) {
        memcpy(block, (const float *)data + begin, (size_t)count * sizeof *block);
        return;
    }
    element_walk walk = walk_from(array, begin);
    for (int64_t i = 0; i < count; i++, walk_on(&walk))
        block[i] = (float)read_element(array->dtype, data, walk.at);
}

static void write_block(const run_array *array, void *data, int64_t begin, int64_t count,
                        const float *block)
{
    element_walk walk = walk_from(array, begin);
    for (int64_t i = 0; i < count; i++, walk_on(&walk))
        write_element(array->dtype, data, walk.at, block[i]);
}

/* ---- One block ---- */

typedef struct update_block {
    const run_update *update;
    void *const *in;
    int64_t begin, count;
    float copies[RUN_UPDATE_OPERANDS][RUN_UPDATE_BLOCK];
} update_block;

/* The elements of an operand: where they lie, or a copy, which give_back writes. */
static float *take(update_block *b, uint32_t operand)
{
    const run_array *array = &b->update->arrays[operand];
    if (is_direct(array))
        return (float *)b->in[operand] + b->begin;
    read_block(array, b->in[operand], b->begin, b->count, b->copies[operand]);
    return b->copies[operand];
}

static void give_back(update_block *b, uint32_t operand, const float *block)
{
    const run_array *array = &b->update->arrays[operand];
    if (!is_direct(array))
        write_block(array, b->in[operand], b->begin, b->count, block);
}

static double step_number(const update_block *b, int64_t i)
{
    const run_array *array = &b->update->arrays[AT_STEP];
    return read_element(array->dtype, b->in[AT_STEP], i * array->strides[0]);
}

static const float *take_gradient(update_block *b)
{
    const run_update *u = b->update;
    float *copy = b->copies[AT_GRADIENT];
    if (!u->scale)
        return take(b, AT_GRADIENT);
    float scale = (float)read_element(u->arrays[u->scale].dtype, b->in[u->scale], 0);
    read_block(&u->arrays[AT_GRADIENT], b->in[AT_GRADIENT], b->begin, b->count, copy);
    for (int64_t i = 0; i < b->count; i++)
        copy[i] *= scale;
    return copy;
}

/* Sums that lack micro-batches are kept; zeros replace a sum that has been used. */
static void set_sum(update_block *b, bool complete)
{
    uint32_t operand = b->update->sum;
    float *sum = take(b, operand);
    if (complete)
        memset(sum, 0, (size_t)b->count * sizeof *sum);
    else
        read_block(&b->update->arrays[AT_GRADIENT], b->in[AT_GRADIENT], b->begin, b->count, sum);
    give_back(b, operand, sum);
}

static void update_elements(update_block *b, float *w)
{
    const run_update *u = b->update;
    const float *g = take_gradient(b);
    float *first = u->moments[0] ? take(b, u->moments[0]) : NULL;
    float *second = u->moments[1] ? take(b, u->moments[1]) : NULL;
    if (second) {
        neap_adam adam = u->adam;
        adam.learning_rate = step_number(b, 0);
        neap_adam_update(w, g, first, second, b->count, (int64_t)step_number(b, 1), &adam);
        give_back(b, u->moments[1], second);
    } else {
        neap_sgd sgd = u->sgd;
        sgd.learning_rate = step_number(b, 0);
        neap_sgd_update(w, g, first, b->count, &sgd);
    }
    if (first)
        give_back(b, u->moments[0], first);
}

static void run_block(update_block *b)
{
    const run_update *u = b->update;
    bool complete = !u->sum || step_number(b, 2) > 0;
    if (complete) {
        uint32_t weights = u->master ? u->master : AT_WEIGHT;
        float *w = take(b, weights);
        update_elements(b, w);
        give_back(b, weights, w);
        if (u->master)
            write_block(&u->arrays[AT_WEIGHT], b->in[AT_WEIGHT], b->begin, b->count, w);
    }
    if (u->sum)
        set_sum(b, complete);
}

void neap_run_update(const run_update *update, void *const *in, int64_t begin, int64_t end)
{
    update_block b;
    b.update = update;
    b.in = in;
    for (b.begin = begin; b.begin < end; b.begin += b.count) {
        b.count = end - b.begin < RUN_UPDATE_BLOCK ? end - b.begin : RUN_UPDATE_BLOCK;
        run_block(&b);
    }
}

/* ---- Planning ---- */

static neap_optimizer optimizer_of(const char *type)
{
    neap_optimizer optimizer = NEAP_OPTIMIZER_SGD;
    while (optimizer < NEAP_OPTIMIZER_ADAMW && strcmp(neap_optimizer_name(optimizer), type) != 0)
        optimizer++;
    return optimizer;
}

static uint32_t next_if(const run_spec *spec, const char *attribute, uint32_t *next)
{
    return neap_run_spec_int(spec, attribute, 0) ? (*next)++ : 0;
}

void neap_run_update_plan(const run_spec *spec, run_update *u)
{
    const char *const *names;
    uint32_t next = AT_STATE;
    *u = (run_update){.optimizer = optimizer_of(spec->op->type),
                      .elements = neap_run_array_elements(&spec->in[AT_WEIGHT])};
    memcpy(u->arrays, spec->in, spec->op->n_inputs * sizeof *spec->in);
    for (uint32_t i = 0; i < neap_optimizer_moments(u->optimizer, &names); i++)
        u->moments[i] = next++;
    u->scale = next_if(spec, "clip", &next);
    u->master = next_if(spec, "master", &next);
    u->sum = next_if(spec, "accumulate", &next);
    u->sgd = (neap_sgd){.momentum = neap_run_spec_real(spec, "momentum", 0),
                        .weight_decay = neap_run_spec_real(spec, "weight_decay", 0)};
    u->adam = (neap_adam){.beta1 = neap_run_spec_real(spec, "beta1", 0),
                          .beta2 = neap_run_spec_real(spec, "beta2", 0),
                          .epsilon = neap_run_spec_real(spec, "epsilon", 0),
                          .weight_decay = u->sgd.weight_decay,
                          .decoupled = u->optimizer == NEAP_OPTIMIZER_ADAMW};
}

/* ---- Running statistics ---- */

enum { AT_MEAN, AT_VARIANCE, AT_BATCHES };

void neap_run_statistics_plan(const run_spec *spec, run_statistics *plan)
{
    *plan = (run_statistics){.channels = neap_run_array_elements(&spec->in[AT_MEAN]),
                             .momentum = neap_run_spec_real(spec, "momentum", 0),
                             .epsilon = neap_run_spec_real(spec, "epsilon", 0)};
}

static double read_channel(const run_array *array, const void *data, int64_t channel)
{
    return read_element(array->dtype, data, channel * array->strides[0]);
}

static void advance(const run_array *array, void *data, int64_t channel, double momentum,
                    double batch)
{
    double kept = momentum * read_channel(array, data, channel), added = (1 - momentum) * batch;
    write_element(array->dtype, data, channel * array->strides[0], (float)(kept + added));
}

void neap_run_statistics(const run_statistics *plan, uint32_t pairs, const run_array *arrays,
                         void *const *in, int64_t begin, int64_t end)
{
    for (uint32_t k = AT_BATCHES; k < AT_BATCHES + 2 * pairs; k += 2)
        for (int64_t c = begin; c < end; c++) {
            double mean = read_channel(&arrays[k], in[k], c);
            double invstd = read_channel(&arrays[k + 1], in[k + 1], c);
            double variance = 1 / (invstd * invstd) - plan->epsilon;
            advance(&arrays[AT_MEAN], in[AT_MEAN], c, plan->momentum, mean);
            advance(&arrays[AT_VARIANCE], in[AT_VARIANCE], c, plan->momentum,
                    variance < 0 ? 0 : variance); /* NaN stays NaN */
        }
}

/* ---- The norm of gradients ---- */

double neap_run_squares(const run_array *array, const void *data, int64_t begin, int64_t end)
{
    enum { LANES = 8 };
    float block[RUN_UPDATE_BLOCK];
    double sums[LANES] = {0}, all = 0;
    int64_t count = end - begin, i = 0;
    read_block(array, data, begin, count, block);
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            sums[k] += (double)block[i + k] * (double)block[i + k];
    for (; i < count; i++)
        sums[0] += (double)block[i] * (double)block[i];
    for (int k = 0; k < LANES; k++)
        all += sums[k];
    return all;
}

float neap_run_clip_scale(double squares, double most)
{
    double scale = most / (sqrt(squares) + 1e-6);
    return (float)(scale > 1 ? 1 : scale); /* NaN stays NaN */
}
