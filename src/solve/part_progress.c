#include "solve/part_progress.h"

#include "base/clock.h"

static void forward_report(neap_progress *self, const neap_progress_event *event)
{
    part_progress *progress = (part_progress *)self; /* base is its first member */
    neap_progress_event told = *event;
    told.part = progress->part;
    told.seconds = neap_clock_seconds() - progress->begun;
    progress->outer->report(progress->outer, &told);
}

static bool forward_cancelled(neap_progress *self)
{
    part_progress *progress = (part_progress *)self;
    return progress->outer->cancelled(progress->outer);
}

void neap_part_progress_init(part_progress *progress, neap_progress *outer, double begun)
{
    *progress = (part_progress){.outer = outer, .begun = begun};
    if (outer && outer->report)
        progress->base.report = forward_report;
    if (outer && outer->cancelled)
        progress->base.cancelled = forward_cancelled;
}
