/* The table of models, and neap_model_build: settings checked, network built, differentiated. */
#include "base/fail.h"
#include "models/models_internal.h"

#include <neap/text.h>

#include <inttypes.h>
#include <string.h>

static const neap_model models[] = {
#define MODEL(name, family, variant, summary) {name, summary, &neap_family_##family, variant},
#include "models/models.def"
#undef MODEL
};

uint32_t neap_models_count(void)
{
    return COUNT_OF(models);
}

const neap_model *neap_models_at(uint32_t index)
{
    return index < COUNT_OF(models) ? &models[index] : NULL;
}

const neap_model *neap_models_find(const char *name)
{
    for (uint32_t i = 0; i < COUNT_OF(models); i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *neap_models_nearest(const char *name)
{
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (uint32_t i = 0; i < COUNT_OF(models); i++)
        neap_suggestion_offer(&suggestion, models[i].name);
    return suggestion.best;
}

const char *neap_model_name(const neap_model *model)
{
    return model->name;
}

const char *neap_model_summary(const neap_model *model)
{
    return model->summary;
}

const char *neap_model_source(const neap_model *model)
{
    return model->family->source;
}

uint32_t neap_model_param_count(const neap_model *model)
{
    return model->family->n_params;
}

const neap_model_param *neap_model_param_at(const neap_model *model, uint32_t index)
{
    return index < model->family->n_params ? &model->family->params[index] : NULL;
}

void neap_model_options_init(neap_model_options *options)
{
    *options = (neap_model_options){.dtype = NEAP_F32, .kernels = NEAP_KERNELS_LEAN};
    neap_training_init(&options->training);
}

/* ---- Settings ---- */

static const neap_model_param *find_param(const neap_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->family->n_params; i++)
        if (strcmp(model->family->params[i].name, name) == 0)
            return &model->family->params[i];
    return NULL;
}

int64_t neap_model_get(const model_args *args, const char *name)
{
    for (uint32_t i = args->n_settings; i-- > 0;)
        if (strcmp(args->settings[i].name, name) == 0)
            return args->settings[i].value;
    const neap_model_param *param = find_param(args->model, name);
    return param ? param->default_value : 0;
}

/* "resnet50 does not take "depth"; it takes batch, image, image_w, classes" */
static neap_status fail_unknown_setting(const model_args *args, const char *name, neap_diag *diag)
{
    neap_text known;
    neap_text_init(&known, args->allocator);
    const model_family *family = args->model->family;
    for (uint32_t i = 0; i < family->n_params; i++)
        neap_text_printf(&known, i == 0 ? "%s" : ", %s", family->params[i].name);
    neap_status status = known.status != NEAP_OK
                             ? neap_fail_no_memory(diag)
                             : neap_fail(diag, NEAP_INVALID, "%s does not take \"%s\"; it takes %s",
                                         args->model->name, name, known.text);
    neap_text_clear(&known);
    return status;
}

static neap_status check_setting(const model_args *args, const neap_model_setting *setting,
                                 neap_diag *diag)
{
    const neap_model_param *param = find_param(args->model, setting->name);
    if (!param)
        return fail_unknown_setting(args, setting->name, diag);
    if (setting->value < param->least || setting->value > param->most)
        return neap_fail(diag, NEAP_INVALID,
                         "%s: %s %" PRId64 " is out of bounds: %" PRId64 " to %" PRId64,
                         args->model->name, param->name, setting->value, param->least, param->most);
    return NEAP_OK;
}

/* A separate width has the bounds of the height. */
static neap_status check_width(const model_args *args, neap_diag *diag)
{
    const neap_model_param *height = find_param(args->model, "image");
    int64_t width = neap_model_get(args, "image_w");
    if (!height || width == 0 || width >= height->least)
        return NEAP_OK;
    return neap_fail(diag, NEAP_INVALID,
                     "%s: image_w %" PRId64 " is out of bounds: %" PRId64 " to %" PRId64
                     ", or 0 for that of image",
                     args->model->name, width, height->least, height->most);
}

static neap_status check_settings(const model_args *args, neap_diag *diag)
{
    for (uint32_t i = 0; i < args->n_settings; i++) {
        neap_status status = check_setting(args, &args->settings[i], diag);
        if (status != NEAP_OK)
            return status;
    }
    return check_width(args, diag);
}

/* ---- Building ---- */

static neap_status build_network(const model_args *args, const neap_model_options *options,
                                 const char *name, neap_graph **graph, neap_diag *diag)
{
    neap_network *net;
    neap_status status = neap_network_create(args->allocator, name, args->dtype, &net, diag);
    if (status != NEAP_OK)
        return status;
    neap_network_set_kernels(net, options->kernels);
    neap_tensor loss = args->model->family->build(net, args);
    status = neap_network_finish(net, loss, &options->training, graph, diag);
    neap_network_destroy(net);
    return status;
}

neap_status neap_model_build(neap_allocator *allocator, const neap_model *model,
                             const neap_model_options *options, neap_graph **graph, neap_diag *diag)
{
    neap_model_options defaults;
    if (!options) {
        neap_model_options_init(&defaults);
        options = &defaults;
    }
    model_args args = {.model = model,
                       .allocator = allocator,
                       .dtype = options->dtype,
                       .forward_only = options->training.forward_only,
                       .n_settings = options->n_settings,
                       .settings = options->settings};
    neap_status status = check_settings(&args, diag);
    if (status != NEAP_OK)
        return status;
    if (model->family->build_graph)
        return model->family->build_graph(&args, graph, diag);

    neap_text name; /* such as "resnet50_b32" */
    neap_text_init(&name, allocator);
    neap_text_printf(&name, "%s_b%" PRId64, model->name, neap_model_get(&args, "batch"));
    if (name.status == NEAP_OK)
        status = build_network(&args, options, name.text, graph, diag);
    else
        status = neap_fail_no_memory(diag);
    neap_text_clear(&name);
    return status;
}
