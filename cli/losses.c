#include "losses.h"

#include <math.h>

static void halve(cli_losses *losses)
{
    for (size_t i = 0; i < CLI_MOST_LOSSES / 2; i++)
        losses->means[i] = losses->means[2 * i] / 2 + losses->means[2 * i + 1] / 2;
    losses->count = CLI_MOST_LOSSES / 2;
    losses->per_mean *= 2;
    losses->in_last = losses->per_mean;
}

void cli_losses_add(cli_losses *losses, double loss)
{
    if (losses->per_mean == 0)
        losses->in_last = losses->per_mean = 1; /* the next one opens a mean */
    if (losses->in_last == losses->per_mean && losses->count == CLI_MOST_LOSSES)
        halve(losses);
    if (losses->in_last == losses->per_mean) {
        losses->means[losses->count++] = 0;
        losses->in_last = 0;
    }
    double *mean = &losses->means[losses->count - 1];
    losses->in_last++;
    *mean += (loss - *mean) / (double)losses->in_last;
    if (!isfinite(*mean))
        *mean = (double)NAN;
}
