/* The search for all algorithms of one problem. */
#include "run/backends/cuda/cudnn_conv.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/progress.h"
#include "run/backends/cuda/cudnn_graph.h"

#include <stdio.h>

#define MOST_FUSED    6  /* algorithms that include bias and ReLU */
#define MOST_NAMED    24 /* that heuristics name */
#define MOST_WHOLE    40 /* on the whole batch */
#define MOST_OF_PARTS 4  /* for each number of parts */
#define MOST_COMPILED 8  /* that heuristics name and cuDNN compiles first, which takes long */
#define LIKELY        4  /* algorithms that heuristics name first */
#define WORTHWHILE    (1 << 20) /* bytes that parts must save */

/* One graph whose algorithms are being added to a list. */
typedef struct search {
    cuda_backend *backend;
    cudnn_conv_list *list;
    const conv_problem *problem;
    neap_progress *progress; /* may be NULL; once it is cancelled, no more plans are made */
    cudnn_graph_form form;
    cudnn_descriptor graph;
    cudnn_descriptor first_graph; /* of parts of a sum: the same without `adds`; else NULL */
    size_t begin, most;           /* of list->count */
    int64_t most_workspace;       /* of parts */
    size_t compiled, most_compiled;
} search;

/* What does not work is left out; the first reason is kept. Memory is another matter. */
static neap_status leave_out(cudnn_conv_list *list, size_t bag_count, neap_status status,
                             const neap_diag *problem, neap_diag *diag)
{
    neap_cudnn_bag_cut(&list->bag, bag_count);
    if (status == NEAP_NO_MEMORY)
        return neap_fail_no_memory(diag);
    if (status != NEAP_OK && !list->trouble[0])
        snprintf(list->trouble, sizeof list->trouble, "%s", problem->message);
    return NEAP_OK;
}

static bool is_known(const search *s, const cudnn_engine *engine)
{
    for (size_t i = s->begin; i < s->list->count; i++)
        if (neap_cudnn_engine_equal(&s->list->items[i].engine, engine))
            return true;
    return false;
}

static bool is_allowed(const search *s, const cudnn_engine *engine)
{
    const int64_t *shape = s->problem->w.shape;
    int64_t filter = shape[2] > shape[3] ? shape[2] : shape[3];
    return neap_cudnn_engine_is_allowed(s->backend, s->problem->type, filter, engine);
}

/* Parts are there to save workspace, compared with the same algorithm and with those that are
   likely chosen without. */
static bool is_worthwhile(const search *s, const cudnn_candidate *candidate)
{
    if (candidate->parts == 1)
        return true;
    for (size_t i = 0; i < s->begin; i++)
        if (s->list->items[i].parts == 1 && !s->list->items[i].fused &&
            neap_cudnn_engine_equal(&s->list->items[i].engine, &candidate->engine) &&
            s->list->items[i].workspace <= candidate->workspace)
            return false;
    return candidate->workspace <= s->most_workspace;
}

/* The plan of the first of several parts of a sum, which does not add: by the same engine if it
   can, else by the first that heuristics name. */
static neap_status make_first_plan(search *s, cudnn_candidate *candidate, neap_diag *diag)
{
    cudnn_bag *bag = &s->list->bag;
    cudnn_descriptor config, configs[CUDNN_MOST_CONFIGS];
    int64_t workspace = 0, count = 0;
    candidate->next_plan = candidate->plan;
    candidate->first = candidate->engine;
    if (!s->first_graph)
        return NEAP_OK;
    size_t before = bag->count;
    neap_status status =
        neap_cudnn_configure(bag, s->first_graph, &candidate->engine, &config, diag);
    if (status == NEAP_OK)
        status = neap_cudnn_make_plan(bag, config, &candidate->plan, &workspace, diag);
    if (status != NEAP_OK && status != NEAP_NO_MEMORY) {
        cudnn_engine *engine = &candidate->first;
        neap_cudnn_bag_cut(bag, before);
        NEAP_TRY(neap_cudnn_ask_heuristic(bag, s->first_graph, CUDNN_HEUR_MODE_A, configs, &count,
                                          diag));
        for (int64_t i = 0; i < count && status != NEAP_OK && status != NEAP_NO_MEMORY; i++) {
            status = neap_cudnn_engine_describe(bag, configs[i], engine, diag);
            if (status == NEAP_OK && is_allowed(s, engine))
                status = neap_cudnn_make_plan(bag, configs[i], &candidate->plan, &workspace, diag);
            else if (status == NEAP_OK)
                status = neap_fail(diag, NEAP_UNSUPPORTED, "no engine for the first part");
        }
    }
    if (candidate->workspace < workspace)
        candidate->workspace = workspace;
    return status;
}

/* Adds the algorithm to the list unless it is there, is not allowed or does not work. */
static neap_status try_config(search *s, cudnn_descriptor config, char origin,
                              cudnn_candidate *candidate, neap_diag *diag)
{
    cudnn_bag *bag = &s->list->bag;
    *candidate = (cudnn_candidate){
        .parts = s->form.parts, .fused = s->form.fused, .origin = origin, .build_seconds = -1};
    NEAP_TRY(neap_cudnn_engine_describe(bag, config, &candidate->engine, diag));
    if (!is_allowed(s, &candidate->engine) || is_known(s, &candidate->engine))
        return NEAP_OK;
    if (neap_cudnn_engine_is_compiled(&candidate->engine) && s->compiled >= s->most_compiled)
        return NEAP_OK;
    double start = neap_clock_seconds();
    s->compiled += neap_cudnn_engine_is_compiled(&candidate->engine);
    NEAP_TRY(neap_cudnn_make_plan(bag, config, &candidate->plan, &candidate->workspace, diag));
    if (!is_worthwhile(s, candidate))
        return NEAP_OK;
    NEAP_TRY(make_first_plan(s, candidate, diag));
    NEAP_TRY(NEAP_RESERVE(bag->libraries->allocator, s->list->count + 1, &s->list->items,
                          &s->list->capacity, diag));
    candidate->build_seconds = neap_clock_seconds() - start;
    return NEAP_OK;
}

static neap_status add_config(search *s, cudnn_descriptor config, char origin, neap_diag *diag)
{
    cudnn_candidate candidate;
    neap_diag problem = {0};
    size_t before = s->list->bag.count;
    if (neap_progress_is_cancelled(s->progress))
        return NEAP_OK;
    neap_status status = try_config(s, config, origin, &candidate, &problem);
    if (status == NEAP_OK && candidate.build_seconds >= 0) {
        s->list->items[s->list->count++] = candidate;
        return NEAP_OK;
    }
    return leave_out(s->list, before, status, &problem, diag);
}

static neap_status add_named(search *s, int mode, char origin, neap_diag *diag)
{
    cudnn_descriptor configs[CUDNN_MOST_CONFIGS];
    int64_t count = 0;
    neap_diag problem = {0};
    size_t before = s->list->bag.count;
    if (s->list->count - s->begin >= s->most)
        return NEAP_OK;
    neap_status status =
        neap_cudnn_ask_heuristic(&s->list->bag, s->graph, mode, configs, &count, &problem);
    if (status != NEAP_OK)
        return leave_out(s->list, before, status, &problem, diag);
    for (int64_t i = 0; i < count; i++) {
        size_t had = s->list->count;
        if (had - s->begin < s->most)
            NEAP_TRY(add_config(s, configs[i], origin, diag));
        if (s->list->count == had)
            neap_cudnn_bag_drop(&s->list->bag, configs[i]);
    }
    return NEAP_OK;
}

static bool has_index(const search *s, int64_t index)
{
    for (size_t i = s->begin; i < s->list->count; i++)
        if (s->list->items[i].engine.index == index)
            return true;
    return false;
}

/* Engines that no heuristic named. */
static neap_status add_others(search *s, neap_diag *diag)
{
    cudnn_bag *bag = &s->list->bag;
    int64_t engines = 0;
    neap_diag problem = {0};
    neap_status status =
        neap_cudnn_get(bag, s->graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT,
                       CUDNN_TYPE_INT64, 1, NULL, &engines, "the number of engines", &problem);
    if (status != NEAP_OK)
        return leave_out(s->list, bag->count, status, &problem, diag);
    for (int64_t i = 0; i < engines && s->list->count - s->begin < s->most; i++) {
        cudnn_engine engine = {.index = i};
        cudnn_descriptor config;
        size_t before = bag->count;
        if (has_index(s, i))
            continue;
        status = neap_cudnn_configure(bag, s->graph, &engine, &config, &problem);
        size_t had = s->list->count;
        if (status == NEAP_OK)
            NEAP_TRY(add_config(s, config, 'E', diag));
        else if (status == NEAP_NO_MEMORY)
            return neap_fail_no_memory(diag);
        if (s->list->count == had) /* most engines are for other problems */
            neap_cudnn_bag_cut(bag, before);
    }
    return NEAP_OK;
}

/* ---- The whole list ---- */

/* Makes the graphs of a search; *works is false if cuDNN refuses. */
static neap_status begin_search(search *s, bool *works, neap_diag *diag)
{
    cudnn_bag *bag = &s->list->bag;
    neap_diag problem = {0};
    size_t before = bag->count;
    cudnn_graph_form first = s->form;
    first.adds = false;
    s->begin = s->list->count;
    neap_status status = neap_cudnn_graph(bag, s->problem, s->form, &s->graph, &problem);
    if (status == NEAP_OK && s->form.adds)
        status = neap_cudnn_graph(bag, s->problem, first, &s->first_graph, &problem);
    *works = status == NEAP_OK;
    return *works ? NEAP_OK : leave_out(s->list, before, status, &problem, diag);
}

static neap_status search_fused(search s, neap_diag *diag)
{
    bool works;
    s.form = (cudnn_graph_form){.parts = 1, .fused = true};
    s.most = s.most_compiled = MOST_FUSED;
    NEAP_TRY(begin_search(&s, &works, diag));
    if (!works)
        return NEAP_OK;
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_A, 'A', diag));
    return add_named(&s, CUDNN_HEUR_MODE_FALLBACK, 'F', diag);
}

static neap_status search_whole(search s, neap_diag *diag)
{
    bool works;
    s.form = (cudnn_graph_form){.parts = 1};
    s.most = MOST_NAMED;
    s.most_compiled = MOST_COMPILED;
    NEAP_TRY(begin_search(&s, &works, diag));
    if (!works)
        return NEAP_OK;
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_A, 'A', diag));
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_B, 'B', diag));
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_FALLBACK, 'F', diag));
    s.most = MOST_WHOLE - s.begin;
    s.most_compiled = 0; /* none was faster than those that are named */
    return add_others(&s, diag);
}

static neap_status search_parts(search s, int64_t parts, neap_diag *diag)
{
    bool works;
    s.form = (cudnn_graph_form){.parts = parts, .adds = s.problem->target == CONV_W};
    s.most = MOST_OF_PARTS;
    s.most_compiled = 2;
    if (s.problem->y.shape[0] % parts != 0)
        return NEAP_OK;
    NEAP_TRY(begin_search(&s, &works, diag));
    if (!works)
        return NEAP_OK;
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_A, 'A', diag));
    return add_named(&s, CUDNN_HEUR_MODE_FALLBACK, 'F', diag);
}

neap_status neap_cudnn_conv_search(cuda_backend *backend, const conv_problem *problem,
                                   neap_progress *progress, cudnn_conv_list *list, neap_diag *diag)
{
    search s = {.backend = backend, .list = list, .problem = problem, .progress = progress};
    if (problem->target != CONV_W && (problem->bias || problem->relu))
        NEAP_TRY(search_fused(s, diag));
    size_t whole = list->count;
    NEAP_TRY(search_whole(s, diag));
    for (size_t i = whole; i < list->count && i < whole + LIKELY; i++)
        if (s.most_workspace < list->items[i].workspace - WORTHWHILE)
            s.most_workspace = list->items[i].workspace - WORTHWHILE;
    for (int64_t parts = 2; parts <= CUDNN_MOST_PARTS && s.most_workspace > 0; parts *= 2)
        NEAP_TRY(search_parts(s, parts, diag));
    return NEAP_OK;
}
