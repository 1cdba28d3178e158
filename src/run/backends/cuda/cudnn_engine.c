/* Engines of cuDNN, their configurations, and plans. */
#include "run/backends/cuda/cudnn_engine.h"

#include "base/fail.h"

#define MOST_NUMERICAL 10 /* notes of an engine: as many as there are kinds */
#define MOST_BEHAVIOUR 5
#define MOST_WINOGRAD  3 /* the longer side of a filter that Winograd's algorithm may take */

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

neap_status neap_cudnn_engine_describe(cudnn_bag *bag, cudnn_descriptor config,
                                       cudnn_engine *engine, neap_diag *diag)
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

bool neap_cudnn_engine_is_compiled(const cudnn_engine *engine)
{
    return has_bit(engine->behaviour, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

bool neap_cudnn_engine_is_allowed(const cuda_backend *backend, neap_dtype type, int64_t filter,
                                  const cudnn_engine *engine)
{
    if (has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) && !backend->nondeterministic)
        return false;
    /* f16 has the digits of tf32, but not its range: gradients would vanish */
    if (has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
        has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION))
        return false;
    /* larger filters take larger tiles, whose transform loses half of f32's digits */
    if (has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_WINOGRAD) && filter > MOST_WINOGRAD)
        return false;
    return type == NEAP_BF16 || backend->tf32 ||
           !has_bit(engine->notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

bool neap_cudnn_engine_equal(const cudnn_engine *a, const cudnn_engine *b)
{
    if (a->index != b->index || a->n_knobs != b->n_knobs)
        return false;
    for (int64_t i = 0; i < a->n_knobs; i++)
        if (a->knob_types[i] != b->knob_types[i] || a->knob_values[i] != b->knob_values[i])
            return false;
    return true;
}

/* ---- Configurations ---- */

neap_status neap_cudnn_ask_heuristic(cudnn_bag *bag, cudnn_descriptor graph, int mode,
                                     cudnn_descriptor configs[CUDNN_MOST_CONFIGS], int64_t *count,
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
    if (found > CUDNN_MOST_CONFIGS)
        found = CUDNN_MOST_CONFIGS;
    for (int64_t i = 0; i < found; i++)
        NEAP_TRY(neap_cudnn_new(bag, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i], diag));
    if (found > 0)
        NEAP_TRY(neap_cudnn_get(bag, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, found, &found, configs, what, diag));
    *count = found < CUDNN_MOST_CONFIGS ? found : CUDNN_MOST_CONFIGS;
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

neap_status neap_cudnn_configure(cudnn_bag *bag, cudnn_descriptor graph, const cudnn_engine *engine,
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

neap_status neap_cudnn_make_plan(cudnn_bag *bag, cudnn_descriptor config, cudnn_descriptor *plan,
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
