/*
 * Everything random about data: the order of samples, synthetic pictures, synthetic tokens. Each is
 * a function of its key and position, so any step can be computed without those before it.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "base/random.h"
#include "train/data_internal.h"

#include <math.h>

uint64_t neap_data_mix(uint64_t a, uint64_t b)
{
    uint64_t state = a;
    state = neap_random_bits(&state) ^ b;
    return neap_random_bits(&state);
}

/* ---- The order of samples ---- */

/*
 * A Feistel network over 2 * half bits permutes the numbers below 4^half, whatever its round
 * function. Results outside 0 to count - 1 are permuted again until they are inside ("cycle
 * walking", Black and Rogaway 2002). 4^half is below 4 * count, so this takes fewer than 4 rounds
 * on average.
 */
int64_t neap_data_permute(uint64_t key, int64_t count, int64_t index)
{
    enum { ROUNDS = 6 };
    unsigned half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < count)
        half++;
    if ((INT64_C(1) << 2 * half) < count) /* more than 2^62 samples: not shuffled */
        return index;
    uint64_t mask = (UINT64_C(1) << half) - 1, value = (uint64_t)index;
    do {
        uint64_t left = value >> half, right = value & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (neap_data_mix(key + round, right) & mask);
            left = right;
            right = next;
        }
        value = left << half | right;
    } while (value >= (uint64_t)count);
    return (int64_t)value;
}

/* ---- Synthetic pictures ---- */

#define CELLS 4 /* a pattern has CELLS x CELLS patches per channel */

/* Separate keys, so that no two purposes share a stream. */
#define PATTERN_KEY UINT64_C(0x7061747465726e)
#define SAMPLE_KEY  UINT64_C(0x73616d706c65)
#define TEXT_KEY    UINT64_C(0x74657874)
#define RULE_KEY    UINT64_C(0x72756c65)

neap_status neap_data_synthetic_open(neap_dataset *dataset, const char *folder, neap_diag *diag)
{
    (void)folder;
    (void)diag;
    neap_data_default_shape(dataset, 3, 32, 32, 10);
    dataset->count = 0;
    return NEAP_OK;
}

/* From -1 to just below 1. */
static float signed_real(uint64_t *state)
{
    return (float)(2 * neap_random_real(state) - 1);
}

/* A number below `limit`. The bias is negligible for limits far below 2^63. */
static int64_t below(uint64_t *state, int64_t limit)
{
    return (int64_t)((neap_random_bits(state) >> 1) % (uint64_t)limit);
}

/* Patches with the brightness of the class, plus noise of half that amplitude. */
void neap_data_synthetic_draw(const neap_dataset_shape *shape, uint64_t seed, int64_t position,
                              float *sample, int64_t *label)
{
    uint64_t noise = neap_data_mix(neap_data_mix(seed, SAMPLE_KEY), (uint64_t)position);
    *label = below(&noise, shape->classes);
    uint64_t pattern = neap_data_mix(PATTERN_KEY, (uint64_t)*label);
    for (int64_t c = 0; c < shape->channels; c++) {
        float patches[CELLS][CELLS];
        for (int i = 0; i < CELLS * CELLS; i++)
            patches[i / CELLS][i % CELLS] = signed_real(&pattern);
        for (int64_t y = 0; y < shape->height; y++) {
            const float *row = patches[y * CELLS / shape->height];
            for (int64_t x = 0; x < shape->width; x++)
                *sample++ = row[x * CELLS / shape->width] + 0.5f * signed_real(&noise);
        }
    }
}

/* ---- Synthetic tokens ---- */

neap_status neap_synthetic_ids(uint64_t seed, int64_t step, int64_t batch, int64_t length,
                               int64_t limit, int64_t *ids, int64_t *next, neap_diag *diag)
{
    int64_t first, end, all;
    if (step < 0 || batch < 1 || length < 1 || limit < 1 || !neap_mul_i64(step, batch, &first) ||
        !neap_add_i64(first, batch, &end) || !neap_mul_i64(batch, length, &all))
        return neap_fail(diag, NEAP_INVALID, "no %lld rows of %lld tokens below %lld at step %lld",
                         (long long)batch, (long long)length, (long long)limit, (long long)step);
    for (int64_t i = 0; i < batch; i++) {
        uint64_t state = neap_data_mix(neap_data_mix(seed, TEXT_KEY), (uint64_t)(first + i));
        int64_t token = below(&state, limit);
        for (int64_t k = i * length; k < (i + 1) * length; k++) {
            uint64_t rule = neap_data_mix(RULE_KEY, (uint64_t)token);
            ids[k] = token;
            token = neap_random_below(&state, 8) == 0 ? below(&state, limit) : below(&rule, limit);
            if (next)
                next[k] = token;
        }
    }
    return NEAP_OK;
}
