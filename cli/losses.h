/*
 * losses.h - the losses of a training of any length, in bounded memory, for a chart.
 *
 * Losses are kept as means of equally many steps each: of one step at first, and of twice as many
 * whenever the list is full.
 */
#ifndef NEAP_CLI_LOSSES_H
#define NEAP_CLI_LOSSES_H

#include <stddef.h>
#include <stdint.h>

enum { CLI_MOST_LOSSES = 2048 };

typedef struct cli_losses {
    double means[CLI_MOST_LOSSES]; /* NaN where a loss is not finite */
    size_t count;                  /* the last one may be of fewer steps */
    int64_t per_mean;              /* steps in a mean; 0 before the first */
    int64_t in_last;               /* steps in the last mean */
} cli_losses;

void cli_losses_add(cli_losses *losses, double loss);

#endif
