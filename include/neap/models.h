/*
 * neap/models.h - the built-in networks.
 *
 * Each is a builder over neap/network.h, found by name. neap_models_at lists them with what they
 * take; a parameter that is not set has the model's own default.
 */
#ifndef NEAP_MODELS_H
#define NEAP_MODELS_H

#include <neap/network.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_model neap_model;

/* One size a model takes, such as "batch" or "layers". */
typedef struct neap_model_param {
    const char *name;
    const char *meaning;
    int64_t default_value;
    int64_t least, most;
} neap_model_param;

NEAP_API uint32_t neap_models_count(void);
NEAP_API const neap_model *neap_models_at(uint32_t index);
/* NULL where there is none of that name. */
NEAP_API const neap_model *neap_models_find(const char *name);
/* The known name nearest to a misspelt one, or NULL where none is near. */
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
    neap_dtype dtype;         /* default NEAP_F32 */
    neap_optimizer optimizer; /* default none */
    neap_kernels kernels;     /* default lean */
    bool forward_only;
    uint32_t n_settings;
    const neap_model_setting *settings;
} neap_model_options;

NEAP_API void neap_model_options_init(neap_model_options *options);

/*
 * The training graph of a model, with FLOPs and bytes but no times yet. NEAP_INVALID for a setting
 * the model does not have or that is out of its bounds (an image too small for the pools, say),
 * with the bounds.
 */
NEAP_API neap_status neap_model_build(neap_allocator *allocator, const neap_model *model,
                                      const neap_model_options *options, neap_graph **graph,
                                      neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
