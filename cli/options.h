/*
 * options.h - every option of every command, and the settings they make.
 */
#ifndef NEAP_CLI_OPTIONS_H
#define NEAP_CLI_OPTIONS_H

#include "args.h"

#include <neap/cost.h>
#include <neap/models.h>
#include <neap/planner.h>
#include <stdbool.h>
#include <stdint.h>

/* Groups of options, as bits of a command's `groups`. */
#define CLI_GROUP_HELP        ((uint64_t)1 << 0) /* every command has it */
#define CLI_GROUP_JSON        ((uint64_t)1 << 1)
#define CLI_GROUP_MODEL       ((uint64_t)1 << 2) /* sizes and types of a built-in model */
#define CLI_GROUP_DEVICE      ((uint64_t)1 << 3) /* whose times */
#define CLI_GROUP_DEVICES     ((uint64_t)1 << 4) /* files of devices */
#define CLI_GROUP_LINK        ((uint64_t)1 << 5)
#define CLI_GROUP_BUDGET      ((uint64_t)1 << 6)
#define CLI_GROUP_SOLVE       ((uint64_t)1 << 7) /* by which method to plan, and how */
#define CLI_GROUP_CURVE       ((uint64_t)1 << 8)
#define CLI_GROUP_CHART       ((uint64_t)1 << 9)
#define CLI_GROUP_GRAPH_OUT   ((uint64_t)1 << 10)
#define CLI_GROUP_PLAN_OUT    ((uint64_t)1 << 11)
#define CLI_GROUP_ANY_GRAPH   ((uint64_t)1 << 12)
#define CLI_GROUP_MAX_BATCH   ((uint64_t)1 << 13)
#define CLI_GROUP_BATCH       ((uint64_t)1 << 14)
#define CLI_GROUP_BACKEND     ((uint64_t)1 << 15) /* which GPU; measured times */
#define CLI_GROUP_TRAIN       ((uint64_t)1 << 16)
#define CLI_GROUP_PROFILE_OUT ((uint64_t)1 << 17)
#define CLI_GROUP_OBJECTIVE   ((uint64_t)1 << 18)
#define CLI_GROUP_CONSTRAINT  ((uint64_t)1 << 19) /* on tensors, and the plan to start from */
#define CLI_GROUP_GAP         ((uint64_t)1 << 20)
#define CLI_GROUP_BATCHES     ((uint64_t)1 << 21) /* how to look for the largest batch */
#define CLI_GROUP_DTYPE       ((uint64_t)1 << 22)
#define CLI_GROUP_SPLIT       ((uint64_t)1 << 23)
#define CLI_GROUP_OPTIMIZER   ((uint64_t)1 << 24)
#define CLI_GROUP_KERNELS     ((uint64_t)1 << 25) /* whose kernels to run */
#define CLI_GROUP_MEASURED                                                                         \
    ((uint64_t)1 << 26) /* whose kernels to measure instead of taking a device's times */
#define CLI_GROUP_ONNX       ((uint64_t)1 << 27) /* how an ONNX file becomes a training step */
#define CLI_GROUP_SEARCH_LOG ((uint64_t)1 << 28) /* of the search for a plan */
#define CLI_GROUP_TRACE      ((uint64_t)1 << 29)
#define CLI_GROUP_REPORT     ((uint64_t)1 << 30) /* a report beside the command's own output */
#define CLI_GROUP_PAGE       ((uint64_t)1 << 31) /* what the command report takes */
#define CLI_GROUP_CSV        ((uint64_t)1 << 32)
#define CLI_GROUP_SVG        ((uint64_t)1 << 33)
/* What every command that takes a MODEL takes. */
#define CLI_GROUPS_SIZES (CLI_GROUP_MODEL | CLI_GROUP_DTYPE | CLI_GROUP_OPTIMIZER | CLI_GROUP_ONNX)
#define CLI_GROUPS_MODEL                                                                           \
    (CLI_GROUPS_SIZES | CLI_GROUP_BATCH | CLI_GROUP_DEVICE | CLI_GROUP_DEVICES | CLI_GROUP_SPLIT)
/* What every command that plans for one batch takes. */
#define CLI_GROUPS_PLAN     (CLI_GROUP_SOLVE | CLI_GROUP_LINK | CLI_GROUP_CONSTRAINT | CLI_GROUP_GAP)
#define CLI_GROUPS_RUN      (CLI_GROUP_BACKEND | CLI_GROUP_KERNELS)
#define CLI_GROUPS_MEASURED (CLI_GROUP_BACKEND | CLI_GROUP_MEASURED)

/* The learning rate for adam and adamw where none is given; for the others the table of options
   has it. */
#define CLI_ADAM_RATE 0.001

/* What the best plan has least of, or most. */
typedef enum cli_objective {
    CLI_OBJECTIVE_TIME = 0,
    CLI_OBJECTIVE_PEAK,
    CLI_OBJECTIVE_BATCH /* the largest that fits */
} cli_objective;

/* Texts point into argv or the table. Lists have room for as many entries as there are arguments.
   What has a default in the table of options has it here. */
struct cli_settings {
    size_t capacity; /* of each list */
    const char **operands;
    size_t n_operands;
    const cli_option **given; /* in the order of the command line */
    size_t n_given;

    /* model */
    neap_model_setting *sizes;
    uint32_t n_sizes;
    int dtype; /* a neap_dtype */
    neap_math math;
    int optimizer; /* a neap_optimizer */
    double clip_norm;
    int64_t accumulate;
    int kernels;             /* a neap_kernels */
    int64_t split;           /* most bytes of a value; 0: as it is */
    int loss;                /* a neap_onnx_loss */
    const char *loss_output; /* NULL: the first */
    bool train_dropout;
    int batch_norm;      /* a neap_onnx_batch_norm */
    const char **frozen; /* patterns */
    uint32_t n_frozen;

    /* device and link */
    const char *device;
    const char **device_files;
    size_t n_device_files;
    const char *link; /* a bandwidth, two, or "device"; NULL: none */
    bool duplex;
    double link_latency; /* negative: not given */
    int64_t host_memory; /* 0: no limit */

    /* planning */
    const char *budget; /* as written; NULL: none */
    const char *method; /* names with commas between them, or "all" */
    neap_option_setting *options;
    uint32_t n_options;
    double time_limit; /* 0: none */
    double gap;        /* 0.01 is 1% */
    int objective;     /* a cli_objective */
    neap_pin *pins;
    uint32_t n_pins;
    const char *start; /* a plan's path; NULL: none */
    bool log;
    int64_t threads; /* 0: all there are */
    uint64_t seed;
    int64_t alignment;
    int out_of_place; /* 1: no op runs in place */
    int state;        /* a neap_state_place */
    const char *budgets, *from, *to;
    int64_t points;
    double extra_forward; /* forward passes; negative: no limit */
    int64_t batch_of;     /* the batch of a graph file; 0: not given */
    int64_t beyond;       /* batches past the first that fails */

    /* running */
    const char *backend;       /* NULL: the default one */
    const char *profile_cache; /* a path, or "none"; NULL: the default one */
    bool fresh;                /* measure again what the cache has */
    int64_t repetitions;       /* of a kernel that is measured; 0: the default */
    int64_t gpu;               /* which one, from 0 */
    bool nondeterministic;     /* kernels whose bits vary, too */

    /* training */
    int64_t steps;
    const char *data;
    const char *plan_file; /* NULL: plan it now */
    double learning_rate, momentum, weight_decay;
    int64_t warmup;
    bool cosine, verify, poison;
    bool pace;                 /* transfers take what the link takes */
    int64_t stress;            /* seed of random delays; 0: none */
    bool device_memory;        /* show what of the device's memory is in use */
    const char *memory_file;   /* NULL: memory is not recorded */
    const char *log_file;      /* of steps; NULL: none */
    const char *save, *resume; /* paths; NULL: none */
    int64_t save_every;        /* 0: only at the end */

    /* output */
    const char *output, *csv, *svg, *trace; /* paths; NULL: none */
    const char *report;                     /* likewise */
    const char *command;                    /* the command line, quoted for a shell */
    bool json, chart, any_graph, help;
};

/* False: no memory. */
bool cli_settings_init(cli_settings *settings, int argument_count);
void cli_settings_clear(cli_settings *settings);

/* Was the option on the command line? */
bool cli_is_given(const cli_settings *settings, const char *name);
/* The first option of these groups on the command line, or NULL. */
const char *cli_given_of(const cli_settings *settings, uint64_t groups);

/* All options, by sections; ended by one without a name. */
extern const cli_option cli_options[];

#endif
