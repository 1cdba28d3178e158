/* A Gaussian process on the simplex, and the expected improvement over it. */
#include "planners/offload/weight_search.h"

#include "base/fail.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

enum { N_CANDIDATES = 256 };

/* Costs are step functions of the weights, so the process need not pass through each point. */
static const double NOISE = 1e-3;
static const double LENGTHS[] = {0.1, 0.2, 0.4, 0.8};

neap_status neap_weight_search_init(weight_search *search, neap_arena *arena, uint32_t most,
                                    uint64_t seed, neap_diag *diag)
{
    size_t n = most;
    *search = (weight_search){.most = most, .random = seed};
    bool taken = NEAP_TAKE(arena, n, search->tried) && NEAP_TAKE(arena, n, search->costs) &&
                 NEAP_TAKE(arena, n, search->standard) && NEAP_TAKE(arena, n * n, search->factor) &&
                 NEAP_TAKE(arena, n * n, search->trial) && NEAP_TAKE(arena, n, search->solved) &&
                 NEAP_TAKE(arena, n, search->column);
    return taken ? NEAP_OK : neap_fail_no_memory(diag);
}

void neap_weight_search_tell(weight_search *search, const double weights[N_WEIGHTS], double cost)
{
    if (search->count == search->most)
        return;
    memcpy(search->tried[search->count], weights, sizeof *search->tried);
    search->costs[search->count++] = cost;
}

/* ---- Random weights ---- */

/* Uniform on the simplex: exponential variables over their sum. */
static void draw_weights(weight_search *search, double weights[N_WEIGHTS])
{
    double sum = 0;
    for (int i = 0; i < N_WEIGHTS; i++)
        sum += weights[i] = -log(neap_random_real(&search->random) + 0x1p-53);
    for (int i = 0; i < N_WEIGHTS; i++)
        weights[i] = sum > 0 ? weights[i] / sum : 1.0 / N_WEIGHTS;
}

/* ---- The process ---- */

static double kernel(const double *a, const double *b, double length)
{
    double square = 0;
    for (int i = 0; i < N_WEIGHTS; i++)
        square += (a[i] - b[i]) * (a[i] - b[i]);
    return exp(-square / (2 * length * length));
}

/* False if all costs are the same. */
static bool standardise(weight_search *search)
{
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < search->count; i++)
        mean += search->costs[i] / search->count;
    for (uint32_t i = 0; i < search->count; i++)
        variance += (search->costs[i] - mean) * (search->costs[i] - mean) / search->count;
    double deviation = sqrt(variance);
    for (uint32_t i = 0; i < search->count; i++)
        search->standard[i] = deviation > 0 ? (search->costs[i] - mean) / deviation : 0;
    return deviation > 0;
}

/* L, row by row, of the kernel matrix. The noise on its diagonal keeps it positive definite. */
static void factorise(const weight_search *search, double length, double *factor)
{
    uint32_t n = search->count;
    for (uint32_t i = 0; i < n; i++) {
        double *row = &factor[(size_t)i * n];
        for (uint32_t j = 0; j <= i; j++) {
            const double *other = &factor[(size_t)j * n];
            double sum = kernel(search->tried[i], search->tried[j], length) + (i == j ? NOISE : 0);
            for (uint32_t k = 0; k < j; k++)
                sum -= row[k] * other[k];
            row[j] = i == j ? sqrt(fmax(sum, NOISE / 2)) : sum / other[j];
        }
    }
}

/* x = L^-1 x */
static void solve_lower(const double *factor, uint32_t n, double *x)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            x[i] -= factor[(size_t)i * n + k] * x[k];
        x[i] /= factor[(size_t)i * n + i];
    }
}

/* x = L^-T x */
static void solve_upper(const double *factor, uint32_t n, double *x)
{
    for (uint32_t i = n; i-- > 0;) {
        x[i] /= factor[(size_t)i * n + i];
        for (uint32_t k = 0; k < i; k++)
            x[k] -= factor[(size_t)i * n + k] * x[i];
    }
}

/* The length of the largest likelihood; sets its factor and `solved`. */
static double fit(weight_search *search)
{
    uint32_t n = search->count;
    double best = -HUGE_VAL, best_length = LENGTHS[0];
    for (size_t l = 0; l < sizeof LENGTHS / sizeof *LENGTHS; l++) {
        double likelihood = 0;
        factorise(search, LENGTHS[l], search->trial);
        memcpy(search->column, search->standard, n * sizeof *search->column);
        solve_lower(search->trial, n, search->column);
        for (uint32_t i = 0; i < n; i++)
            likelihood -=
                search->column[i] * search->column[i] / 2 + log(search->trial[(size_t)i * n + i]);
        if (likelihood <= best)
            continue;
        best = likelihood;
        best_length = LENGTHS[l];
        double *factor = search->factor, *solved = search->solved;
        search->factor = search->trial;
        search->trial = factor;
        search->solved = search->column;
        search->column = solved;
    }
    solve_upper(search->factor, n, search->solved);
    return best_length;
}

/* The expected improvement below `least`, in standard units. */
static double expected_improvement(weight_search *search, const double weights[N_WEIGHTS],
                                   double length, double least)
{
    uint32_t n = search->count;
    double mean = 0, variance = 1 + NOISE;
    for (uint32_t i = 0; i < n; i++) {
        search->column[i] = kernel(weights, search->tried[i], length);
        mean += search->column[i] * search->solved[i];
    }
    solve_lower(search->factor, n, search->column);
    for (uint32_t i = 0; i < n; i++)
        variance -= search->column[i] * search->column[i];
    double deviation = sqrt(fmax(variance, 1e-12)), z = (least - mean) / deviation;
    double below = erfc(-z * 0.70710678118654752) / 2;      /* the normal distribution */
    double density = exp(-z * z / 2) * 0.39894228040143268; /* its density */
    return deviation * (z * below + density);
}

void neap_weight_search_next(weight_search *search, double weights[N_WEIGHTS])
{
    if (search->count < N_WEIGHTS) {
        for (uint32_t i = 0; i < N_WEIGHTS; i++)
            weights[i] = i == search->count;
        return;
    }
    draw_weights(search, weights);
    if (!standardise(search))
        return;
    double length = fit(search), least = 0, best = -HUGE_VAL;
    for (uint32_t i = 0; i < search->count; i++)
        least = fmin(least, search->standard[i]);
    for (int c = 0; c < N_CANDIDATES; c++) {
        double candidate[N_WEIGHTS];
        draw_weights(search, candidate);
        double improvement = expected_improvement(search, candidate, length, least);
        if (improvement <= best)
            continue;
        best = improvement;
        memcpy(weights, candidate, sizeof candidate);
    }
}
