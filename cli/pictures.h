/* pictures.h - what all pictures of the command share: titles, sizes, where they go. */
#ifndef NEAP_CLI_PICTURES_H
#define NEAP_CLI_PICTURES_H

#include "load.h"

#include <neap/report.h>
#include <neap/text.h>

/*
 * "resnet50, batch 64, on h200": the network, its batch where it is known, and the device. `batch`
 * is the one that a search found; 0: that of the model. `device` is whose times it has; NULL: the
 * model's device, or the backend that measured.
 */
void cli_picture_title(neap_text *title, const cli_settings *settings, const cli_loaded *model,
                       int64_t batch, const char *device);

/* As wide as the terminal, less `beside` characters that stand beside the plot; colours and
   Unicode where they can be shown. */
void cli_chart_options(neap_chart_options *options, int beside);

/* Releases a picture after writing it to a file, or to the output if the path is "-". `status` is
   that of the call that drew it. Returns an exit code. */
int cli_picture_deliver(neap_status status, const neap_diag *diag, const char *path, char *text,
                        size_t length, neap_text *out);

#endif
