/*
 * How long the least-peak methods take for chains of a given length.
 *
 *     least_peak_time METHOD CHAIN N...
 *
 * METHOD is hong, hong-quadratic, hong-static or acg. CHAIN selects the sizes:
 *
 *     random      independent, uniform from 1 to 2^30 bytes
 *     equal       all the same
 *     vgg         VGG-19 with more convolutions in each of its five stages
 *     MODEL       a built-in model's chain view; N is its `layers`, or 0 for the default
 *
 * For each N prints one line: layers of the chain view, CPU seconds (the least of several
 * runs), paths solved (hong-static and acg; 0 for the others) and the objective in bytes.
 */
#include "planners/chain/least_peak.h"

#include <neap/models.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct sizes {
    uint32_t n;
    int64_t *d; /* n + 1 */
} sizes;

static void check(neap_status status, const neap_diag *diag)
{
    if (status == NEAP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(1);
}

static void *new_items(size_t count, size_t size)
{
    void *items = calloc(count, size);
    if (!items) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return items;
}

/* ---- Chains ---- */

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static sizes random_sizes(uint32_t n, uint32_t number)
{
    sizes s = {n, new_items((size_t)n + 1, sizeof(int64_t))};
    uint64_t state = ((uint64_t)number << 32) + n;
    for (uint32_t i = 0; i <= n; i++)
        s.d[i] = 1 + (int64_t)(next_random(&state) >> 34);
    return s;
}

static sizes equal_sizes(uint32_t n)
{
    sizes s = {n, new_items((size_t)n + 1, sizeof(int64_t))};
    for (uint32_t i = 0; i <= n; i++)
        s.d[i] = 1 << 20;
    return s;
}

/* Batch 128, float32: five stages of equal length, each a row of convolutions and a pool; then
   three fully connected layers. */
static sizes vgg_sizes(uint32_t n)
{
    static const int64_t channels[] = {64, 128, 256, 512, 512}, features[] = {4096, 4096, 1000};
    sizes s = {n < 13 ? 13 : n, NULL};
    s.d = new_items((size_t)s.n + 1, sizeof(int64_t));
    int64_t sample = (int64_t)128 * 4, side = 224;
    uint32_t i = 0, rows = s.n - 3;
    s.d[i++] = sample * side * side * 3;
    for (uint32_t stage = 0; stage < 5; stage++) {
        uint32_t end = (uint32_t)((uint64_t)rows * (stage + 1) / 5);
        for (; i < end; i++)
            s.d[i] = sample * side * side * channels[stage];
        side /= 2;
        s.d[i++] = sample * side * side * channels[stage];
    }
    for (int k = 0; k < 3; k++)
        s.d[i++] = sample * features[k];
    return s;
}

static sizes model_sizes(const char *name, uint32_t layers)
{
    neap_diag diag = {0};
    neap_model_options options;
    neap_graph *graph;
    neap_chain chain;
    const neap_model_setting settings[] = {{"layers", layers}};
    const neap_model *model = neap_models_find(name);
    if (!model) {
        fprintf(stderr, "unknown model %s\n", name);
        exit(2);
    }
    neap_model_options_init(&options);
    options.n_settings = layers ? 1 : 0;
    options.settings = settings;
    check(neap_model_build(NULL, model, &options, &graph, &diag), &diag);
    check(neap_chain_build(NULL, graph, &chain, &diag), &diag);
    sizes s = {chain.n_stages - 1, new_items(chain.n_stages, sizeof(int64_t))};
    s.d[0] = chain.input_bytes;
    for (uint32_t i = 1; i <= s.n; i++)
        s.d[i] = chain.stages[i - 1].output_bytes;
    neap_chain_clear(&chain);
    neap_graph_destroy(graph);
    return s;
}

static sizes make_sizes(const char *chain, uint32_t n, uint32_t number)
{
    if (strcmp(chain, "random") == 0)
        return random_sizes(n, number);
    if (strcmp(chain, "equal") == 0)
        return equal_sizes(n);
    return strcmp(chain, "vgg") == 0 ? vgg_sizes(n) : model_sizes(chain, n);
}

/* ---- Time ---- */

static least_peak_solver *solver_of(const char *method)
{
    static const struct {
        const char *name;
        least_peak_solver *solve;
    } solvers[] = {{"hong", neap_hong_linear},
                   {"hong-quadratic", neap_hong_quadratic},
                   {"hong-static", neap_hong_static},
                   {"acg", neap_segment_term_search}};
    for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++)
        if (strcmp(solvers[i].name, method) == 0)
            return solvers[i].solve;
    fprintf(stderr, "unknown method %s\n", method);
    exit(2);
}

/* Seconds of the processor, so that other work on the machine does not show. */
static double processor_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/*
 * The least of several runs. Short chains are timed several together, different ones where they are
 * random: a processor that meets the same few hundred layers again and again predicts every branch.
 */
static void measure(least_peak_solver *solve, const sizes *chains, uint32_t count)
{
    least_peak_answer answer = {.chosen = new_items((size_t)chains->n + 1, sizeof(bool))};
    neap_diag diag = {0};
    double least = 1e300, spent = 0;
    for (int run = 0; run < 3 || (spent < 0.5 && run < 1000); run++) {
        double begin = processor_time();
        for (uint32_t i = 0; i < count; i++) {
            const least_peak_problem problem = {.n = chains[i].n, .d = chains[i].d};
            check(solve(&problem, &answer, &diag), &diag);
        }
        double seconds = processor_time() - begin;
        spent += seconds;
        least = seconds < least ? seconds : least;
        if (seconds > 5)
            break;
    }
    const least_peak_problem last = {.n = chains[count - 1].n, .d = chains[count - 1].d};
    printf("%" PRIu32 " %.9g %" PRIu32 " %" PRIu64 "\n", last.n, least / count, answer.paths,
           answer.objective);
    fflush(stdout);
    free(answer.chosen);
}

/* Chains with this many layers together. */
#define TOGETHER 200000

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: least_peak_time METHOD CHAIN N...\n");
        return 2;
    }
    least_peak_solver *solve = solver_of(argv[1]);
    for (int i = 3; i < argc; i++) {
        unsigned long n = strtoul(argv[i], NULL, 10);
        if (n > 1000000000) {
            fprintf(stderr, "a length is at most 1000000000, not %s\n", argv[i]);
            return 2;
        }
        sizes first = make_sizes(argv[2], (uint32_t)n, 0);
        uint32_t count = first.n < TOGETHER ? TOGETHER / (first.n + 1) + 1 : 1;
        sizes *chains = new_items(count, sizeof *chains);
        chains[0] = first;
        bool differ = strcmp(argv[2], "random") == 0;
        for (uint32_t k = 1; k < count; k++)
            chains[k] = differ ? make_sizes(argv[2], (uint32_t)n, k) : first;
        measure(solve, chains, count);
        for (uint32_t k = 0; k < (differ ? count : 1); k++)
            free(chains[k].d);
        free(chains);
    }
    return 0;
}
