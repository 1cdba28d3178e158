/*
 * What a built-in network is made of. A family (one file) has one builder for all its models;
 * models.def lists the models, one a line.
 */
#ifndef NEAP_MODELS_INTERNAL_H
#define NEAP_MODELS_INTERNAL_H

#include <neap/models.h>

/* What one call of neap_model_build asks for. Settings have been checked against their bounds. */
typedef struct model_args {
    const neap_model *model;
    neap_allocator *allocator;
    neap_dtype dtype;
    bool forward_only;
    uint32_t n_settings;
    const neap_model_setting *settings;
} model_args;

typedef struct model_family {
    const char *source;
    uint32_t n_params;
    const neap_model_param *params;
    /* Adds the layers to an empty network and returns the loss. Errors stick to the network. */
    neap_tensor (*build)(neap_network *net, const model_args *args);
    /* Instead of `build`, for models that are not networks of layers: builds the graph. */
    neap_status (*build_graph)(const model_args *args, neap_graph **graph, neap_diag *diag);
} model_family;

struct neap_model {
    const char *name;
    const char *summary;
    const model_family *family;
    int64_t variant; /* which one of the family */
};

#define MODEL(name, family, variant, summary) extern const model_family neap_family_##family;
#include "models/models.def"
#undef MODEL

/* A parameter's value: the last setting of that name, or the default. */
int64_t neap_model_get(const model_args *args, const char *name);

/* ---- Parameters that several families take: elements of a neap_model_param array ---- */

/* clang-format off */
#define PARAM_BATCH(value)   {"batch", "samples in a training step", (value), 1, 1 << 20}
#define PARAM_CLASSES(value) {"classes", "classes to tell apart", (value), 1, 1 << 20}
#define PARAM_DROPOUT(value) {"dropout_percent", "values dropped in training, in percent", (value), 0, 99}
#define PARAM_HEADS(value)   {"heads", "attention heads", (value), 1, 1 << 12}
#define PARAM_HIDDEN(value)  {"hidden", "features of a token; a multiple of `heads`", (value), 1, 1 << 20}
#define PARAM_LAYERS(value)  {"layers", "layers", (value), 1, 10000}
#define PARAM_SEQ(value)     {"seq", "tokens in a sequence", (value), 1, 1 << 20}
#define PARAM_VOCAB(value)   {"vocab", "words in the vocabulary", (value), 1, 1 << 24}
#define PARAM_IMAGE(value, smallest) \
    {"image", "height of the images, in pixels", (value), (smallest), 1 << 14}
#define PARAM_IMAGE_W {"image_w", "width of the images, in pixels; 0: that of `image`", 0, 0, 1 << 14}
#define PARAM_WIDTH   {"width", "channels and hidden features, in percent of the usual", 100, 1, 400}
/* clang-format on */

#define COUNT_OF(array)   ((uint32_t)(sizeof(array) / sizeof *(array)))
#define HAS_PARAMS(array) .n_params = COUNT_OF(array), .params = (array)

#endif
