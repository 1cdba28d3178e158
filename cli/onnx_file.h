/* onnx_file.h - models in ONNX files: from the settings to a graph, and weights between the two. */
#ifndef NEAP_CLI_ONNX_FILE_H
#define NEAP_CLI_ONNX_FILE_H

#include "load.h"

#include <neap/onnx.h>
#include <neap/train.h>

/* Whether an operand is the path of an ONNX file. */
bool cli_is_onnx(const char *operand);

/* Opens the file and builds its graph; says on stderr what was changed. Returns an exit code. */
int cli_onnx_load(const cli_settings *settings, const char *path, cli_loaded *loaded);
/* The graph of the opened file for another batch. */
neap_status cli_onnx_batch(const cli_settings *settings, const cli_loaded *loaded, int64_t batch,
                           neap_graph **graph, neap_diag *diag);

/* Weights and constants of the file for a trainer. */
typedef struct cli_onnx_source {
    neap_train_source base;
    const neap_onnx_binding *binding;
} cli_onnx_source;

void cli_onnx_source_init(cli_onnx_source *source, const neap_onnx_binding *binding);

/* Writes the file again with a trainer's weights. */
neap_status cli_onnx_save(const cli_loaded *loaded, neap_trainer *trainer, const char *path,
                          neap_diag *diag);

#endif
