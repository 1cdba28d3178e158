/* The queue of the processor: calls do their work, but for copies, which threads do. */
#include "base/clock.h"
#include "base/memory.h"
#include "run/queue.h"

#include <string.h>

typedef struct host_queue {
    run_queue base;
    run_copier *copier; /* NULL without transfers */
    size_t n_timed;
    double began; /* when the step did */
} host_queue;

static void destroy(run_queue *queue)
{
    host_queue *q = (host_queue *)queue;
    neap_run_copier_destroy(q->copier);
    NEAP_DELETE(queue->allocator, q->n_timed, queue->times);
    NEAP_DELETE(queue->allocator, 1, q);
}

static neap_status begin(run_queue *queue, uint64_t seed, bool *replayed, neap_diag *diag)
{
    (void)seed;
    (void)diag;
    ((host_queue *)queue)->began = neap_clock_seconds();
    *replayed = false;
    return NEAP_OK;
}

static neap_status end(run_queue *queue, bool whole, neap_diag *diag)
{
    host_queue *q = (host_queue *)queue;
    (void)whole;
    (void)diag;
    if (q->copier)
        neap_run_copier_finish(q->copier);
    return NEAP_OK;
}

static run_ticket copy(run_queue *queue, run_direction direction, void *to, const void *from,
                       size_t bytes, run_ticket after)
{
    return neap_run_copier_start(((host_queue *)queue)->copier, direction, to, from, bytes, after);
}

static bool wait(run_queue *queue, run_ticket ticket)
{
    return neap_run_copier_wait(((host_queue *)queue)->copier, ticket);
}

static void fill(run_queue *queue, void *data, size_t bytes)
{
    (void)queue;
    memset(data, 0xff, bytes);
}

static void move(run_queue *queue, run_direction direction, void *to, const void *from,
                 size_t bytes)
{
    (void)queue;
    (void)direction;
    memcpy(to, from, bytes);
}

static void shift(run_queue *queue, void *to, const void *from, size_t bytes)
{
    (void)queue;
    memcpy(to, from, bytes);
}

static void delay(run_queue *queue)
{
    (void)queue; /* kernels run when they are called, so only copies can be late */
}

static void mark(run_queue *queue, size_t step, bool ends)
{
    double now = neap_clock_seconds() - ((host_queue *)queue)->began;
    *(ends ? &queue->times[step].end : &queue->times[step].begin) = now;
}

static neap_step_time copied(run_queue *queue, run_ticket ticket)
{
    host_queue *q = (host_queue *)queue;
    neap_step_time time = neap_run_copier_time(q->copier, ticket);
    return (neap_step_time){time.begin - q->began, time.end - q->began};
}

neap_status neap_run_host_queue_create(neap_allocator *allocator, const run_queue_options *options,
                                       run_queue **queue, neap_diag *diag)
{
    static const run_queue_type type = {.destroy = destroy,
                                        .begin = begin,
                                        .end = end,
                                        .copy = copy,
                                        .wait = wait,
                                        .fill = fill,
                                        .move = move,
                                        .shift = shift,
                                        .delay = delay,
                                        .mark = mark,
                                        .copied = copied};
    host_queue *q;
    neap_status status = NEAP_NEW(allocator, 1, &q, diag);
    if (status != NEAP_OK)
        return status;
    q->base = (run_queue){.type = &type, .allocator = allocator};
    q->n_timed = options->timed;
    if (options->timed > 0)
        status = NEAP_NEW(allocator, options->timed, &q->base.times, diag);
    if (status == NEAP_OK && options->transfers > 0)
        status = neap_run_copier_create(allocator, options->duplex, options->transfers, &q->copier,
                                        diag);
    if (status == NEAP_OK && q->copier) {
        neap_run_copier_pace(q->copier, &options->pace);
        neap_run_copier_stress(q->copier, options->stress);
    }
    if (status == NEAP_OK)
        *queue = &q->base;
    else
        destroy(&q->base);
    return status;
}
