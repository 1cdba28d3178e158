/*
 * neap/models.h - the built-in networks.
 *
 * Each model is a builder on top of neap/network.h and has a name. neap_models_at lists the models
 * with their parameters; a parameter that is not set has the default of the model.
 */
#ifndef NEAP_MODELS_H
#define NEAP_MODELS_H

#include <neap/network.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_model neap_model;

/* A parameter of a model, such as "batch" or "layers". */
typedef struct neap_model_param {
    const char *name;
    const char *meaning;
    int64_t default_value;
    int64_t least, most;
} neap_model_param;

NEAP_API uint32_t neap_models_count(void);
NEAP_API const neap_model *neap_models_at(uint32_t index);
/* NULL if there is no model of that name. */
NEAP_API const neap_model *neap_models_find(const char *name);
/* The known name most similar to a misspelt one; NULL if none is similar. */
NEAP_API const char *neap_models_nearest(const char *name);

NEAP_API const char *neap_model_name(const neap_model *model);
NEAP_API const char *neap_model_summary(const neap_model *model); /* one line */
NEAP_API const char *
neap_model_source(const neap_model *model); /* the paper or the code it follows */
NEAP_API uint32_t neap_model_param_count(const neap_model *model);
NEAP_API const neap_model_param *neap_model_param_at(const neap_model *model, uint32_t index);

typedef struct neap_model_setting {
    const char *name; /* of a parameter of the model */
    int64_t value;
} neap_model_setting;

typedef struct neap_model_options {
    neap_dtype dtype;       /* default NEAP_F32 */
    neap_kernels kernels;   /* default lean */
    neap_training training; /* default: no optimizer */
    uint32_t n_settings;
    const neap_model_setting *settings;
} neap_model_options;

NEAP_API void neap_model_options_init(neap_model_options *options);

/*
 * Builds the training graph of a model, with FLOPs and bytes but without times. NEAP_INVALID for an
 * unknown setting, or one out of bounds (such as an image too small for the pooling layers); the
 * message gives the bounds.
 */
NEAP_API neap_status neap_model_build(neap_allocator *allocator, const neap_model *model,
                                      const neap_model_options *options, neap_graph **graph,
                                      neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
