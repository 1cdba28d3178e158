/* Lists of algorithms. */
#include "run/backends/cuda/cudnn_conv.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "run/backends/cuda/cudnn_graph.h"
#include "run/specs.h"

#include <stdio.h>
#include <string.h>

#define MOST_NUMERICAL 10 /* notes of an engine: as many as there are kinds */
#define MOST_BEHAVIOUR 5
#define MOST_FUSED     6  /* algorithms that include bias and ReLU */
#define MOST_NAMED     24 /* that heuristics name */
#define MOST_WHOLE     40 /* on the whole batch */
#define MOST_OF_PARTS  4  /* for each number of parts */
#define MOST_COMPILED  8  /* that cuDNN compiles first, which takes long; on the whole batch */
#define LIKELY         4  /* algorithms that heuristics name first */
#define WORTHWHILE     (1 << 20) /* bytes that parts must save */
#define MOST_CONFIGS   64        /* that one heuristic names */

/* ---- Engines ---- */

static neap_status get_notes(cudnn_bag *bag, cudnn_descriptor engine, int name, int type,
                             int64_t most, uint32_t *bits, neap_diag *diag)
{
    int notes[MOST_NUMERICAL] = {0};
    int64_t count = 0;
    NEAP_TRY(
        neap_cudnn_get(bag, engine, name, type, most, &count, notes, "an engine's notes", diag));
    *bits = 0;
    for (int64_t i = 0; i < count && i < most; i++)
        if (notes[i] >= 0 && notes[i] < 32)
            *bits |= UINT32_C(1) << notes[i];
    return NEAP_OK;
}

/* `choices` are new descriptors. */
static neap_status read_knobs(cudnn_bag *bag, cudnn_descriptor config, cudnn_descriptor *choices,
                              cudnn_engine *engine, neap_diag *diag)
{
    static const char what[] = "an engine's settings";
    int64_t found = 0;
    NEAP_TRY(neap_cudnn_get(bag, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_MOST_KNOBS, &found, choices, what,
                            diag));
    engine->n_knobs = found < CUDNN_MOST_KNOBS ? found : CUDNN_MOST_KNOBS;
    for (int64_t i = 0; i < engine->n_knobs; i++) {
        NEAP_TRY(neap_cudnn_get(bag, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                CUDNN_TYPE_KNOB_TYPE, 1, NULL, &engine->knob_types[i], what, diag));
        NEAP_TRY(neap_cudnn_get(bag, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                CUDNN_TYPE_INT64, 1, NULL, &engine->knob_values[i], what, diag));
    }
    return NEAP_OK;
}

/* Their number cannot be asked for: it is 0 then. */
static neap_status get_knobs(cudnn_bag *bag, cudnn_descriptor config, cudnn_engine *engine,
                             neap_diag *diag)
{
    cudnn_descriptor choices[CUDNN_MOST_KNOBS];
    size_t before = bag->count;
    neap_status status = NEAP_OK;
    for (int i = 0; i < CUDNN_MOST_KNOBS && status == NEAP_OK; i++)
        status = neap_cudnn_new(bag, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &choices[i], diag);
    if (status == NEAP_OK)
        status = read_knobs(bag, config, choices, engine, diag);
    neap_cudnn_bag_cut(bag, before);
    return status;
}

static neap_status describe(cudnn_bag *bag, cudnn_descriptor config, cudnn_engine *engine,
                            neap_diag *diag)
{
    cudnn_descriptor found;
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &found, diag));
    NEAP_TRY(neap_cudnn_get(bag, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            1, NULL, &found, "an engine", diag));
    NEAP_TRY(neap_cudnn_get(bag, found, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, NULL,
                            &engine->index, "an engine's number", diag));
    NEAP_TRY(get_notes(bag, found, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                       MOST_NUMERICAL, &engine->notes, diag));
    NEAP_TRY(get_notes(bag, found, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                       MOST_BEHAVIOUR, &engine->behaviour, diag));
    return get_knobs(bag, config, engine, diag);
}

static bool has_bit(uint32_t bits, int bit)
{
    return (bits >> bit & 1) != 0;
}

static bool is_compiled(const cudnn_engine *engine)
{
    return has_bit(engine->behaviour, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

/* Whether the engine keeps what the backend promises. */
static bool is_allowed(const cuda_backend *backend, neap_dtype type, const cudnn_engine *engine)
{
    if (has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) && !backend->nondeterministic)
        return false;
    if (type == NEAP_BF16 || backend->tf32)
        return true;
    return !has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) &&
           !has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
           !has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
}

static bool same_engine(const cudnn_engine *a, const cudnn_engine *b)
{
    if (a->index != b->index || a->n_knobs != b->n_knobs)
        return false;
    for (int64_t i = 0; i < a->n_knobs; i++)
        if (a->knob_types[i] != b->knob_types[i] || a->knob_values[i] != b->knob_values[i])
            return false;
    return true;
}

/* ---- Configurations ---- */

/* Those of a heuristic, at most MOST_CONFIGS. */
static neap_status ask_heuristic(cudnn_bag *bag, cudnn_descriptor graph, int mode,
                                 cudnn_descriptor configs[MOST_CONFIGS], int64_t *count,
                                 neap_diag *diag)
{
    static const char what[] = "a heuristic";
    cudnn_descriptor heuristic;
    int64_t found = 0;
    *count = 0;
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph,
                                  what, diag));
    NEAP_TRY(cudnn_set_enum(bag, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode,
                            what, diag));
    NEAP_TRY(neap_cudnn_finalize(bag, heuristic, what, diag));
    NEAP_TRY(neap_cudnn_get(bag, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &found, NULL, what, diag));
    if (found > MOST_CONFIGS)
        found = MOST_CONFIGS;
    for (int64_t i = 0; i < found; i++)
        NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i], diag));
    if (found > 0)
        NEAP_TRY(neap_cudnn_get(bag, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, found, &found, configs, what, diag));
    *count = found < MOST_CONFIGS ? found : MOST_CONFIGS;
    return NEAP_OK;
}

static neap_status set_knobs(cudnn_bag *bag, cudnn_descriptor config, const cudnn_engine *engine,
                             neap_diag *diag)
{
    static const char what[] = "an engine's settings";
    cudnn_descriptor choices[CUDNN_MOST_KNOBS];
    if (engine->n_knobs == 0)
        return NEAP_OK;
    for (int64_t i = 0; i < engine->n_knobs; i++) {
        NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &choices[i], diag));
        NEAP_TRY(cudnn_set_enum(bag, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                CUDNN_TYPE_KNOB_TYPE, engine->knob_types[i], what, diag));
        NEAP_TRY(cudnn_set_int64(bag, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                 engine->knob_values[i], what, diag));
        NEAP_TRY(neap_cudnn_finalize(bag, choices[i], what, diag));
    }
    return neap_cudnn_set(bag, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, engine->n_knobs, choices, what, diag);
}

/* An engine by its number, with its own settings if `engine` has none. */
static neap_status configure(cudnn_bag *bag, cudnn_descriptor graph, const cudnn_engine *engine,
                             cudnn_descriptor *config, neap_diag *diag)
{
    static const char what[] = "an engine";
    cudnn_descriptor made;
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &made, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, made, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph, what, diag));
    NEAP_TRY(cudnn_set_int64(bag, made, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine->index, what, diag));
    NEAP_TRY(neap_cudnn_finalize(bag, made, what, diag));
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, config, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, *config, CUDNN_ATTR_ENGINECFG_ENGINE, made, what, diag));
    NEAP_TRY(set_knobs(bag, *config, engine, diag));
    return neap_cudnn_finalize(bag, *config, "an engine's configuration", diag);
}

static neap_status make_plan(cudnn_bag *bag, cudnn_descriptor config, cudnn_descriptor *plan,
                             int64_t *workspace, neap_diag *diag)
{
    static const char what[] = "a plan";
    NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan, diag));
    NEAP_TRY(neap_cudnn_set(bag, *plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                            &bag->libraries->cudnn, what, diag));
    NEAP_TRY(cudnn_set_descriptor(bag, *plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config, what,
                                  diag));
    NEAP_TRY(neap_cudnn_finalize(bag, *plan, what, diag));
    return neap_cudnn_get(bag, *plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                          NULL, workspace, what, diag);
}

/* ---- Lists ---- */

/* One graph whose algorithms are being added to a list. */
typedef struct search {
    cuda_backend *backend;
    cudnn_conv_list *list;
    const conv_problem *problem;
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
    if (status != NEAP_OK && !list->problem[0])
        snprintf(list->problem, sizeof list->problem, "%s", problem->message);
    return NEAP_OK;
}

static bool is_known(const search *s, const cudnn_engine *engine)
{
    for (size_t i = s->begin; i < s->list->count; i++)
        if (same_engine(&s->list->items[i].engine, engine))
            return true;
    return false;
}

/* Parts are there to save workspace, compared with the same algorithm and with those that are
   likely chosen without. */
static bool is_worthwhile(const search *s, const cudnn_candidate *candidate)
{
    if (candidate->parts == 1)
        return true;
    for (size_t i = 0; i < s->begin; i++)
        if (s->list->items[i].parts == 1 && !s->list->items[i].fused &&
            same_engine(&s->list->items[i].engine, &candidate->engine) &&
            s->list->items[i].workspace <= candidate->workspace)
            return false;
    return candidate->workspace <= s->most_workspace;
}

/* The plan of the first of several parts of a sum, which does not add: by the same engine if it
   can, else by the first that heuristics name. */
static neap_status make_first_plan(search *s, cudnn_candidate *candidate, neap_diag *diag)
{
    cudnn_bag *bag = &s->list->bag;
    cudnn_descriptor config, configs[MOST_CONFIGS];
    int64_t workspace = 0, count = 0;
    candidate->next_plan = candidate->plan;
    if (!s->first_graph)
        return NEAP_OK;
    size_t before = bag->count;
    neap_status status = configure(bag, s->first_graph, &candidate->engine, &config, diag);
    if (status == NEAP_OK)
        status = make_plan(bag, config, &candidate->plan, &workspace, diag);
    if (status != NEAP_OK && status != NEAP_NO_MEMORY) {
        cudnn_engine engine = {0};
        neap_cudnn_bag_cut(bag, before);
        NEAP_TRY(ask_heuristic(bag, s->first_graph, CUDNN_HEUR_MODE_A, configs, &count, diag));
        for (int64_t i = 0; i < count && status != NEAP_OK && status != NEAP_NO_MEMORY; i++) {
            status = describe(bag, configs[i], &engine, diag);
            if (status == NEAP_OK && is_allowed(s->backend, s->problem->type, &engine))
                status = make_plan(bag, configs[i], &candidate->plan, &workspace, diag);
            else if (status == NEAP_OK)
                status = neap_fail(diag, NEAP_UNSUPPORTED, "no engine for the first part");
        }
    }
    if (candidate->workspace < workspace)
        candidate->workspace = workspace;
    return status;
}

/* Adds the algorithm to the list unless it is there, is not allowed or does not work. */
static neap_status try_config(search *s, cudnn_descriptor config, const char *origin,
                              cudnn_candidate *candidate, neap_diag *diag)
{
    cudnn_bag *bag = &s->list->bag;
    *candidate = (cudnn_candidate){
        .parts = s->form.parts, .fused = s->form.fused, .origin = origin, .build_seconds = -1};
    NEAP_TRY(describe(bag, config, &candidate->engine, diag));
    if (!is_allowed(s->backend, s->problem->type, &candidate->engine) ||
        is_known(s, &candidate->engine))
        return NEAP_OK;
    if (is_compiled(&candidate->engine) && s->compiled >= s->most_compiled)
        return NEAP_OK;
    double start = neap_clock_seconds();
    s->compiled += is_compiled(&candidate->engine);
    NEAP_TRY(make_plan(bag, config, &candidate->plan, &candidate->workspace, diag));
    if (!is_worthwhile(s, candidate))
        return NEAP_OK;
    NEAP_TRY(make_first_plan(s, candidate, diag));
    NEAP_TRY(NEAP_RESERVE(bag->libraries->allocator, s->list->count + 1, &s->list->items,
                          &s->list->capacity, diag));
    candidate->build_seconds = neap_clock_seconds() - start;
    return NEAP_OK;
}

static neap_status add_config(search *s, cudnn_descriptor config, const char *origin,
                              neap_diag *diag)
{
    cudnn_candidate candidate;
    neap_diag problem = {0};
    size_t before = s->list->bag.count;
    neap_status status = try_config(s, config, origin, &candidate, &problem);
    if (status == NEAP_OK && candidate.build_seconds >= 0) {
        s->list->items[s->list->count++] = candidate;
        return NEAP_OK;
    }
    return leave_out(s->list, before, status, &problem, diag);
}

static neap_status add_named(search *s, int mode, const char *origin, neap_diag *diag)
{
    cudnn_descriptor configs[MOST_CONFIGS];
    int64_t count = 0;
    neap_diag problem = {0};
    size_t before = s->list->bag.count;
    if (s->list->count - s->begin >= s->most)
        return NEAP_OK;
    neap_status status = ask_heuristic(&s->list->bag, s->graph, mode, configs, &count, &problem);
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
        status = configure(bag, s->graph, &engine, &config, &problem);
        size_t had = s->list->count;
        if (status == NEAP_OK)
            NEAP_TRY(add_config(s, config, "engine", diag));
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
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_A, "A", diag));
    return add_named(&s, CUDNN_HEUR_MODE_FALLBACK, "fallback", diag);
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
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_A, "A", diag));
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_B, "B", diag));
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_FALLBACK, "fallback", diag));
    s.most = MOST_WHOLE - s.begin;
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
    NEAP_TRY(add_named(&s, CUDNN_HEUR_MODE_A, "A", diag));
    return add_named(&s, CUDNN_HEUR_MODE_FALLBACK, "fallback", diag);
}

static neap_status fill_list(cuda_backend *backend, const conv_problem *problem,
                             cudnn_conv_list *list, neap_diag *diag)
{
    search s = {.backend = backend, .list = list, .problem = problem};
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

static void delete_list(cuda_libraries *libraries, cudnn_conv_list *list)
{
    neap_cudnn_bag_clear(&list->bag);
    NEAP_DELETE(libraries->allocator, list->capacity, list->items);
    NEAP_DELETE(libraries->allocator, list->sign_bytes, list->sign);
    NEAP_DELETE(libraries->allocator, 1, list);
}

void neap_cudnn_conv_clear(cuda_libraries *libraries)
{
    while (libraries->convolutions) {
        cudnn_conv_list *list = libraries->convolutions;
        libraries->convolutions = list->next;
        delete_list(libraries, list);
    }
}

static neap_status new_list(cuda_backend *backend, const neap_text *sign,
                            const conv_problem *problem, cudnn_conv_list **list, neap_diag *diag)
{
    cuda_libraries *libraries = backend->libraries;
    cudnn_conv_list *made;
    NEAP_TRY(NEAP_NEW(libraries->allocator, 1, &made, diag));
    neap_cudnn_bag_init(&made->bag, libraries);
    neap_status status = NEAP_NEW(libraries->allocator, sign->length + 1, &made->sign, diag);
    if (status == NEAP_OK) {
        made->sign_bytes = sign->length + 1;
        memcpy(made->sign, sign->text, made->sign_bytes);
        if (libraries->cudnn)
            status = fill_list(backend, problem, made, diag);
    }
    if (status != NEAP_OK) {
        delete_list(libraries, made);
        return status;
    }
    made->next = libraries->convolutions;
    libraries->convolutions = made;
    *list = made;
    return NEAP_OK;
}

neap_status neap_cudnn_conv_list(cuda_backend *backend, const run_spec *spec,
                                 const conv_problem *problem, const cudnn_conv_list **list,
                                 neap_diag *diag)
{
    neap_text sign;
    neap_text_init(&sign, backend->libraries->allocator);
    neap_run_spec_sign(spec, &sign);
    neap_status status = sign.status == NEAP_OK ? NEAP_OK : neap_fail_no_memory(diag);
    *list = NULL;
    for (cudnn_conv_list *l = backend->libraries->convolutions; l && status == NEAP_OK && !*list;
         l = l->next)
        if (strcmp(l->sign, neap_text_get(&sign)) == 0)
            *list = l;
    if (status == NEAP_OK && !*list) {
        cudnn_conv_list *made = NULL;
        status = new_list(backend, &sign, problem, &made, diag);
        *list = made;
    }
    neap_text_clear(&sign);
    return status;
}
