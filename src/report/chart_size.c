#include "report/chart_size.h"

#include "base/fail.h"

enum { LEAST_WIDTH = 24, MOST_WIDTH = 1000, LEAST_HEIGHT = 2, MOST_HEIGHT = 200 };

void neap_chart_options_init(neap_chart_options *options)
{
    *options = (neap_chart_options){
        .width = 72, .height = 12, .unicode = true, .budget = -1, .natural_peak = -1};
}

neap_status neap_chart_check_size(const neap_chart_options *options, neap_diag *diag)
{
    if (options->width >= LEAST_WIDTH && options->width <= MOST_WIDTH &&
        options->height >= LEAST_HEIGHT && options->height <= MOST_HEIGHT)
        return NEAP_OK;
    return neap_fail(diag, NEAP_INVALID,
                     "a chart cannot have %d x %d characters; the width must be %d to %d, "
                     "the height %d to %d",
                     options->width, options->height, LEAST_WIDTH, MOST_WIDTH, LEAST_HEIGHT,
                     MOST_HEIGHT);
}
