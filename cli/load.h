/*
 * load.h - from the command line to a graph with times, a link and a budget.
 */
#ifndef NEAP_CLI_LOAD_H
#define NEAP_CLI_LOAD_H

#include "options.h"

#include <neap/cost.h>
#include <neap/graph.h>
#include <neap/models.h>
#include <neap/onnx.h>
#include <neap/plan.h>
#include <neap/run.h>

/* All zero is nothing loaded. */
typedef struct cli_loaded {
    neap_graph *graph;       /* split if the settings say so */
    const neap_model *model; /* NULL: it came from a file */
    neap_onnx *onnx;         /* that file, if it is ONNX; else NULL */
    neap_onnx_binding *binding;
    neap_devices *devices;
    const neap_device *device;  /* NULL: the file's own times */
    neap_link link;             /* all zero: none */
    neap_contention contention; /* with --link measured: of kernels beside copies; else all zero */
    bool measured;              /* the file's times are those of kernels */
    int64_t alignment;          /* of addresses */
    bool moves_state;           /* with --link, unless --state device */
    int64_t in_place_floor;     /* with --in-place no: the floor without it; else -1 */
    int64_t natural_peak;       /* memory of a step without a plan; -1 until computed */
    neap_plan *start;           /* of --start, without addresses; NULL: none */
    double seconds;             /* that loading took: they count towards a time limit */
} cli_loaded;

/*
 * Loads a model by its name, or a graph file or an ONNX file by its path ("-" is standard input),
 * sets the device's times, splits large values, and reads the link and a plan to start from, which
 * is judged. Returns an exit code, after an error line on stderr if it is not CLI_OK.
 */
int cli_load(const cli_settings *settings, const char *operand, cli_loaded *loaded);
void cli_loaded_clear(cli_loaded *loaded);

/* Whether a graph ends with the updates of an optimizer. */
bool cli_has_updates(const neap_graph *graph);
/* Puts large values into pieces, if the settings say so. */
int cli_load_split(const cli_settings *settings, cli_loaded *loaded);

/* The training step that the settings ask for. */
neap_training cli_training_of(const cli_settings *settings);

/* Whether the graph can be built for any batch: a built-in model, or an ONNX file. */
bool cli_has_batches(const cli_loaded *loaded);
/* The graph of the loaded built-in model or ONNX file, with the same settings but another batch. */
neap_status cli_load_batch(const cli_settings *settings, const cli_loaded *loaded, int64_t batch,
                           neap_graph **graph, neap_diag *diag);

/* The batch of the loaded graph: as given, the model's default, or by the shape of its data; 0: not
   known. */
int64_t cli_batch_size(const cli_settings *settings, const cli_loaded *loaded);

/* The floor of a graph for plans that move state or not, as of `loaded`. */
int64_t cli_floor(const cli_loaded *loaded, const neap_graph *graph, uint32_t *op);

/*
 * Fills in loaded->natural_peak: the peak of the ordinary step (neap_natural_peak). With an
 * alignment it is the arena of that plan, so that 100% is always enough. A budget in percent is a
 * share of it in every command.
 */
int cli_load_natural_peak(cli_loaded *loaded);

/* Reads a budget, "8GiB" or "50%"; a NULL text is -1, no budget. `option` is named in errors. */
int cli_load_budget(cli_loaded *loaded, const char *option, const char *text, int64_t *budget);

/* The built-in devices, those of NEAP_DEVICES and those of --devices. */
int cli_load_devices(const cli_settings *settings, neap_devices **devices);
/* NULL after an error line with a suggestion. */
const neap_device *cli_find_device(const neap_devices *devices, const char *name);

/* The arena of a plan, with addresses of the model's alignment. */
neap_status cli_plan_bytes(const cli_loaded *loaded, neap_plan *plan, int64_t *bytes,
                           neap_diag *diag);

/* Refuses --link device for work on this machine. */
int cli_fail_modelled_link(void);

#endif
