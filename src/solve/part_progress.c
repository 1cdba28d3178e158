#include "solve/part_progress.h"

#include "base/clock.h"

static void forward_report(neap_progress *self, const neap_progress_event *event)
{
    part_progress *progress = (part_progress *)self; /* base is its first member */
    neap_progress_event outer_event = *event;
    outer_event.part = progress->part;
    outer_event.seconds = neap_clock_seconds() - progress->started;
    progress->outer->report(progress->outer, &outer_event);
}

static bool forward_cancelled(neap_progress *self)
{
    part_progress *progress = (part_progress *)self;
    return progress->outer->cancelled(progress->outer);
}

void neap_part_progress_init(part_progress *progress, neap_progress *outer, double started)
{
    *progress = (part_progress){.outer = outer, .started = started};
    if (outer && outer->report)
        progress->base.report = forward_report;
    if (outer && outer->cancelled)
        progress->base.cancelled = forward_cancelled;
}
