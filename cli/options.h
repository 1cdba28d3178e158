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
enum {
    CLI_GROUP_HELP = 1 << 0, /* every command has it */
    CLI_GROUP_JSON = 1 << 1,
    CLI_GROUP_MODEL = 1 << 2,   /* sizes and types of a built-in model */
    CLI_GROUP_DEVICE = 1 << 3,  /* whose times */
    CLI_GROUP_DEVICES = 1 << 4, /* files of devices */
    CLI_GROUP_LINK = 1 << 5,
    CLI_GROUP_BUDGET = 1 << 6,
    CLI_GROUP_METHOD = 1 << 7,
    CLI_GROUP_METHODS = 1 << 8,
    CLI_GROUP_SOLVE = 1 << 9, /* how to plan */
    CLI_GROUP_CURVE = 1 << 10,
    CLI_GROUP_CHART = 1 << 11,
    CLI_GROUP_GRAPH_OUT = 1 << 12,
    CLI_GROUP_PLAN_OUT = 1 << 13,
    CLI_GROUP_ANY_GRAPH = 1 << 14,
    CLI_GROUP_MAX_BATCH = 1 << 15,
    CLI_GROUP_BATCH = 1 << 16,
    CLI_GROUP_BACKEND = 1 << 17, /* whose kernels, and their measured times */
    CLI_GROUP_TRAIN = 1 << 18,
    CLI_GROUP_PROFILE_OUT = 1 << 19,
    CLI_GROUP_OBJECTIVE = 1 << 20,
    CLI_GROUP_WISHES = 1 << 21,  /* about tensors, and what to begin with */
    CLI_GROUP_BATCHES = 1 << 22, /* how to look for the largest batch */
    /* What every command that takes a MODEL takes. */
    CLI_GROUPS_MODEL = CLI_GROUP_MODEL | CLI_GROUP_BATCH | CLI_GROUP_DEVICE | CLI_GROUP_DEVICES
};

/* What a plan is to be best in. */
typedef enum cli_objective {
    CLI_OBJECTIVE_TIME = 0,
    CLI_OBJECTIVE_PEAK,
    CLI_OBJECTIVE_BATCH /* the largest that fits */
} cli_objective;

/* Texts point into argv. Lists have room for as many entries as there are arguments. */
struct cli_settings {
    size_t capacity; /* of each list */
    const char **operands;
    size_t n_operands;

    /* model */
    const char *model_option; /* the first option given that only a built-in model takes, or NULL */
    neap_model_setting *sizes;
    uint32_t n_sizes;
    neap_dtype dtype;
    neap_math math;
    bool has_math; /* --dtype f32 or tf32, which says something about a graph file too */
    neap_optimizer optimizer;
    bool has_optimizer; /* given */
    neap_kernels kernels;

    /* device and link */
    const char *device; /* NULL: not given */
    const char **device_files;
    size_t n_device_files;
    const char *link; /* a bandwidth, two, or "device"; NULL: none */
    bool duplex;
    double link_latency;     /* negative: not given */
    int64_t host_memory;     /* 0: no limit */
    const char *link_option; /* an option given that says nothing without --link, or NULL */

    /* planning */
    const char *budget; /* as written; NULL: none */
    const char *method;
    neap_option_setting *options;
    uint32_t n_options;
    double time_limit; /* 0: none */
    double gap;        /* 0.01 is 1% */
    cli_objective objective;
    neap_pin *pins;
    uint32_t n_pins;
    const char *start; /* a plan's path; NULL: none */
    const char
        *constraint; /* the first option given that only methods that take wishes do, or NULL */
    bool log;
    int threads;
    uint64_t seed;
    int64_t alignment;
    const char *methods; /* a list with commas; NULL: all */
    const char *budgets, *from, *to;
    int64_t points;           /* 0: not given */
    double extra_forward;     /* forward passes; negative: no limit */
    int64_t batch_of;         /* the batch of a graph file; 0: not given */
    int64_t beyond;           /* batches past the first that fails */
    const char *batch_option; /* one of these three that was given, or NULL */

    /* running */
    const char *backend;       /* NULL: the default one */
    const char *profile_cache; /* a path, or "none"; NULL: the default one */
    bool fresh;                /* measure again what the cache has */

    /* training */
    int64_t steps;
    const char *data;      /* NULL: synthetic */
    const char *plan_file; /* NULL: plan it now */
    double learning_rate;  /* negative: not given */
    double momentum;       /* negative: not given */
    double weight_decay;
    int64_t warmup;
    bool cosine, verify, poison;
    const char *save, *resume; /* paths; NULL: none */
    int64_t save_every;        /* 0: only at the end */

    /* output */
    const char *output, *csv, *svg; /* paths; NULL: none */
    bool json, chart, any_graph, help;
};

/* False: no memory. */
bool cli_settings_init(cli_settings *settings, int argument_count);
void cli_settings_clear(cli_settings *settings);

/* All options, by sections; ended by one without a name. */
extern const cli_option cli_options[];

#endif
