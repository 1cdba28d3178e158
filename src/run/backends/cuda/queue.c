/*
 * Steps on a device.
 *
 * The first step is given to the streams as it comes, so that libraries load what they load late.
 * The second is recorded, and replayed from then on. Computation between two copies becomes a
 * graph, which is launched with one call: the device then waits for no launch. Copies stay calls on
 * their streams, for in graphs they were measured to be some percent slower. What changes from step
 * to step is in memory: the seed in a cell, the learning rate in an input. If a step cannot be
 * recorded, steps are given to the streams for good.
 *
 * A ticket's number is that of the event behind its copy, counted through all steps; copies of
 * earlier steps have ended. Steps that are timed are not recorded: events in a graph have no times.
 */
#include "run/backends/cuda/queue.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>

#define MOST_DELAY    200000 /* nanoseconds */
#define MOST_RECORDED 1000   /* copies of a step: graphs take memory */

/* A call of a step that is replayed. */
typedef struct replayed_call {
    enum { LAUNCH, RECORD, WAIT, COPY_OUT, COPY_IN, DELAY } kind;
    cuda_stream stream;
    cu_graph_exec graph; /* LAUNCH */
    size_t event;        /* RECORD, WAIT */
    void *to;            /* COPY_OUT, COPY_IN */
    const void *from;
    int64_t amount; /* of bytes, or of nanoseconds */
} replayed_call;

typedef struct cuda_queue {
    run_queue base;
    cuda_driver *driver;
    bool duplex, may_record, recording;
    bool partly_ran; /* recording ended early, and some of the step ran */
    uint64_t steps;
    replayed_call *calls; /* of a step */
    size_t n_calls, calls_capacity;
    bool replays;     /* the calls are all of a step */
    cu_event *events; /* two for each copy of a step, and one for each copy stream */
    size_t n_events, n_used;
    uint64_t first_number;           /* of this step's events */
    bool busy[CUDA_N_STREAMS];       /* the copy streams that this step has used */
    uint64_t waited[CUDA_N_STREAMS]; /* the last copy of each that computation waits for */
    cu_event *marks; /* the step's begin; begin and end of each step of the plan; or NULL */
    size_t n_timed;
    void *cell; /* on the device: the seed of the step */
    void *seed; /* the same, pinned */
    uint64_t stress;
    neap_status status; /* the first error of the step */
    neap_diag diag;
} cuda_queue;

/* Where the calls of a step put their errors: the first is kept. */
#define GIVE(q, call)                                                                              \
    do {                                                                                           \
        neap_diag *diag = (q)->status == NEAP_OK ? &(q)->diag : NULL;                              \
        neap_status status_ = call;                                                                \
        if ((q)->status == NEAP_OK)                                                                \
            (q)->status = status_;                                                                 \
    } while (0)

/* ---- Calls that are replayed ---- */

static neap_status perform(cuda_queue *q, const replayed_call *call, neap_diag *diag)
{
    switch (call->kind) {
    case LAUNCH:
        return neap_cuda_graph_launch(q->driver, call->graph, diag);
    case RECORD:
        return neap_cuda_record(q->driver, q->events[call->event], call->stream, diag);
    case WAIT:
        return neap_cuda_wait(q->driver, call->stream, q->events[call->event], diag);
    case COPY_OUT:
        return neap_cuda_copy_out(q->driver, call->to, call->from, call->amount, call->stream,
                                  diag);
    case COPY_IN:
        return neap_cuda_copy_in(q->driver, call->to, call->from, call->amount, call->stream, diag);
    case DELAY:
        return neap_cuda_delay(q->driver, call->amount, call->stream, diag);
    }
    return NEAP_OK;
}

static neap_status keep(cuda_queue *q, const replayed_call *call, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE(q->base.allocator, q->n_calls + 1, &q->calls, &q->calls_capacity, diag));
    q->calls[q->n_calls++] = *call;
    return NEAP_OK;
}

/* What was recorded since the last cut becomes a graph. */
static neap_status cut(cuda_queue *q, neap_diag *diag)
{
    replayed_call launch = {.kind = LAUNCH};
    NEAP_TRY(neap_cuda_capture_end(q->driver, &launch.graph, diag));
    if (!launch.graph)
        return NEAP_OK;
    neap_status status = keep(q, &launch, diag);
    if (status != NEAP_OK)
        neap_cuda_graph_destroy(q->driver, launch.graph);
    return status;
}

/* Now, or in every step that is replayed. */
static neap_status give(cuda_queue *q, const replayed_call *call, neap_diag *diag)
{
    if (!q->recording)
        return perform(q, call, diag);
    if (q->status != NEAP_OK) /* this step will not be replayed */
        return q->status;
    neap_status status = cut(q, diag);
    if (status == NEAP_OK)
        status = keep(q, call, diag);
    neap_status begun = neap_cuda_capture_begin(q->driver, status == NEAP_OK ? diag : NULL);
    q->partly_ran |= begun != NEAP_OK;
    return status == NEAP_OK ? begun : status;
}

static void forget_calls(cuda_queue *q)
{
    for (size_t i = 0; i < q->n_calls; i++)
        neap_cuda_graph_destroy(q->driver, q->calls[i].graph);
    q->n_calls = 0;
}

/* ---- Delays ---- */

static int64_t draw_delay(cuda_queue *q)
{
    if (q->stress == 0)
        return 0;
    uint64_t draw = run_random(q->stress++, q->steps);
    return draw >> 62 == 0 ? (int64_t)(draw % MOST_DELAY) : 0; /* three of four are on time */
}

static void delay(run_queue *queue)
{
    cuda_queue *q = (cuda_queue *)queue;
    int64_t nanoseconds = draw_delay(q);
    if (nanoseconds > 0)
        GIVE(q, neap_cuda_delay(q->driver, nanoseconds, CUDA_COMPUTE, diag));
}

/* ---- Copies ---- */

static size_t record(cuda_queue *q, cuda_stream stream)
{
    const replayed_call call = {.kind = RECORD, .stream = stream, .event = q->n_used};
    GIVE(q, give(q, &call, diag));
    return q->n_used++;
}

static void wait_on(cuda_queue *q, cuda_stream stream, size_t event)
{
    const replayed_call call = {.kind = WAIT, .stream = stream, .event = event};
    GIVE(q, give(q, &call, diag));
}

/* What follows on one stream waits for what is on another. */
static void join(cuda_queue *q, cuda_stream from, cuda_stream to)
{
    wait_on(q, to, record(q, from));
}

static size_t event_of(const cuda_queue *q, run_ticket ticket)
{
    return (size_t)(ticket.number - q->first_number - 1);
}

static void wait_for(cuda_queue *q, run_ticket ticket, cuda_stream stream)
{
    if (ticket.number > q->first_number)
        wait_on(q, stream, event_of(q, ticket));
}

static run_ticket copy(run_queue *queue, run_direction direction, void *to, const void *from,
                       size_t bytes, run_ticket after)
{
    cuda_queue *q = (cuda_queue *)queue;
    cuda_stream stream = direction == RUN_OUT || !q->duplex ? CUDA_OUT : CUDA_IN;
    const replayed_call copying = {.kind = direction == RUN_OUT ? COPY_OUT : COPY_IN,
                                   .stream = stream,
                                   .to = to,
                                   .from = from,
                                   .amount = (int64_t)bytes};
    join(q, CUDA_COMPUTE, stream);
    if (after.lane != (unsigned)stream) /* copies of a stream are in order */
        wait_for(q, after, stream);
    q->busy[stream] = true;
    const replayed_call late = {.kind = DELAY, .stream = stream, .amount = draw_delay(q)};
    if (late.amount > 0)
        GIVE(q, give(q, &late, diag));
    if (q->marks)
        record(q, stream); /* the copy's begin, one before the ticket's event */
    GIVE(q, give(q, &copying, diag));
    return (run_ticket){.number = q->first_number + record(q, stream) + 1,
                        .lane = (unsigned)stream};
}

static bool wait(run_queue *queue, run_ticket ticket)
{
    cuda_queue *q = (cuda_queue *)queue;
    if (ticket.number > q->waited[ticket.lane]) { /* copies of a stream are in order */
        wait_for(q, ticket, CUDA_COMPUTE);
        q->waited[ticket.lane] = ticket.number;
    }
    return false; /* the device waits, not the caller */
}

static void fill(run_queue *queue, void *data, size_t bytes)
{
    cuda_queue *q = (cuda_queue *)queue;
    GIVE(q, neap_cuda_fill(q->driver, data, 0xff, (int64_t)bytes, CUDA_COMPUTE, diag));
}

static void move(run_queue *queue, run_direction direction, void *to, const void *from,
                 size_t bytes)
{
    cuda_queue *q = (cuda_queue *)queue;
    if (direction == RUN_OUT)
        GIVE(q, neap_cuda_copy_out(q->driver, to, from, (int64_t)bytes, CUDA_COMPUTE, diag));
    else
        GIVE(q, neap_cuda_copy_in(q->driver, to, from, (int64_t)bytes, CUDA_COMPUTE, diag));
}

static void shift(run_queue *queue, void *to, const void *from, size_t bytes)
{
    cuda_queue *q = (cuda_queue *)queue;
    GIVE(q, neap_cuda_copy_within(q->driver, to, from, (int64_t)bytes, CUDA_COMPUTE, diag));
}

/* ---- Times ---- */

static void mark(run_queue *queue, size_t step, bool ends)
{
    cuda_queue *q = (cuda_queue *)queue;
    GIVE(q, neap_cuda_record(q->driver, q->marks[2 * step + 1 + ends], CUDA_COMPUTE, diag));
}

static neap_step_time time_between(cuda_queue *q, cu_event begin, cu_event end)
{
    neap_step_time time = {0, 0};
    GIVE(q, neap_cuda_elapsed(q->driver, q->marks[0], begin, &time.begin, diag));
    GIVE(q, neap_cuda_elapsed(q->driver, q->marks[0], end, &time.end, diag));
    return time;
}

static neap_step_time copied(run_queue *queue, run_ticket ticket)
{
    cuda_queue *q = (cuda_queue *)queue;
    size_t end = event_of(q, ticket);
    return time_between(q, q->events[end - 1], q->events[end]);
}

/* ---- A step ---- */

static void replay(cuda_queue *q)
{
    for (size_t i = 0; i < q->n_calls && q->status == NEAP_OK; i++)
        GIVE(q, perform(q, &q->calls[i], diag));
}

static neap_status begin(run_queue *queue, uint64_t seed, bool *replayed, neap_diag *diag_out)
{
    cuda_queue *q = (cuda_queue *)queue;
    q->status = NEAP_OK;
    q->first_number += q->n_used;
    q->n_used = 0;
    q->steps++;
    queue->again = false;
    memset(q->busy, 0, sizeof q->busy);
    memcpy(q->seed, &seed, sizeof seed);
    GIVE(q, neap_cuda_copy_in(q->driver, q->cell, q->seed, sizeof seed, CUDA_COMPUTE, diag));
    *replayed = q->replays;
    q->recording = !q->replays && q->may_record && q->steps > 1;
    q->partly_ran = false;
    if (q->replays)
        replay(q);
    if (q->recording && q->status == NEAP_OK && neap_cuda_capture_begin(q->driver, NULL) != NEAP_OK)
        q->recording = q->may_record = false;
    if (q->marks)
        GIVE(q, neap_cuda_record(q->driver, q->marks[0], CUDA_COMPUTE, diag));
    return q->status == NEAP_OK ? NEAP_OK : neap_fail(diag_out, q->status, "%s", q->diag.message);
}

/* Ends the recording and runs it. If it failed, the step must be given again. */
static void end_recording(cuda_queue *q, bool whole)
{
    if (whole && q->status == NEAP_OK)
        GIVE(q, cut(q, diag));
    else
        neap_cuda_capture_abandon(q->driver);
    q->recording = false;
    q->replays = whole && q->status == NEAP_OK;
    if (q->replays) {
        replay(q);
        return;
    }
    forget_calls(q);
    q->may_record = false;
    if (q->partly_ran)
        return;
    q->status = NEAP_OK;
    q->base.again = true;
}

static neap_status end(run_queue *queue, bool whole, neap_diag *diag_out)
{
    cuda_queue *q = (cuda_queue *)queue;
    bool trouble = false;
    for (int s = 0; s < CUDA_N_STREAMS; s++)
        if (q->busy[s])
            join(q, (cuda_stream)s, CUDA_COMPUTE);
    if (q->recording)
        end_recording(q, whole);
    GIVE(q, neap_cuda_take_trouble(q->driver, &trouble, diag)); /* waits */
    if (q->status != NEAP_OK) /* not all that was given is joined */
        neap_cuda_synchronize_all(q->driver, NULL);
    for (size_t i = 0; i < q->n_timed && q->status == NEAP_OK; i++)
        queue->times[i] = time_between(q, q->marks[2 * i + 1], q->marks[2 * i + 2]);
    if (q->status != NEAP_OK)
        return neap_fail(diag_out, q->status, "%s", q->diag.message);
    if (trouble)
        return neap_fail(diag_out, NEAP_INVALID,
                         "an index among the inputs, a label or an id, is out of range");
    return NEAP_OK;
}

/* ---- Making one ---- */

static neap_status make_events(cuda_queue *q, size_t count, bool timing, cu_event **events,
                               neap_diag *diag)
{
    NEAP_TRY(NEAP_NEW(q->base.allocator, count, events, diag));
    for (size_t i = 0; i < count; i++)
        NEAP_TRY(neap_cuda_event_create(q->driver, timing, &(*events)[i], diag));
    return NEAP_OK;
}

static void delete_events(cuda_queue *q, size_t count, cu_event *events)
{
    for (size_t i = 0; events && i < count; i++)
        neap_cuda_event_destroy(q->driver, events[i]);
    NEAP_DELETE(q->base.allocator, count, events);
}

static void destroy(run_queue *queue)
{
    cuda_queue *q = (cuda_queue *)queue;
    neap_cuda_synchronize_all(q->driver, NULL);
    forget_calls(q);
    NEAP_DELETE(queue->allocator, q->calls_capacity, q->calls);
    delete_events(q, q->n_events, q->events);
    delete_events(q, q->n_timed > 0 ? 2 * q->n_timed + 1 : 0, q->marks);
    neap_cuda_free(q->driver, q->cell);
    neap_cuda_free_host(q->driver, q->seed);
    NEAP_DELETE(queue->allocator, q->n_timed, queue->times);
    NEAP_DELETE(queue->allocator, 1, q);
}

static neap_status prepare(cuda_queue *q, const run_queue_options *options, neap_diag *diag)
{
    bool timed = options->timed > 0;
    q->n_events = (timed ? 3 : 2) * options->transfers + CUDA_N_STREAMS;
    q->n_timed = options->timed;
    NEAP_TRY(make_events(q, q->n_events, timed, &q->events, diag));
    NEAP_TRY(neap_cuda_alloc(q->driver, sizeof(uint64_t), &q->cell, diag));
    NEAP_TRY(neap_cuda_alloc_host(q->driver, sizeof(uint64_t), &q->seed, diag));
    q->base.step_seed = q->cell;
    if (q->stress != 0) /* loads the kernel, which a recording cannot */
        NEAP_TRY(neap_cuda_delay(q->driver, 0, CUDA_COMPUTE, diag));
    if (!timed)
        return NEAP_OK;
    NEAP_TRY(make_events(q, 2 * q->n_timed + 1, true, &q->marks, diag));
    return NEAP_NEW(q->base.allocator, q->n_timed, &q->base.times, diag);
}

neap_status neap_cuda_queue_create(neap_backend *backend, const run_queue_options *options,
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
    cuda_queue *q;
    neap_status status = NEAP_NEW(backend->allocator, 1, &q, diag);
    if (status != NEAP_OK)
        return status;
    q->base = (run_queue){.type = &type, .allocator = backend->allocator};
    q->driver = neap_cuda_driver_of(((cuda_backend *)backend)->platform);
    q->duplex = options->duplex;
    q->stress = options->stress;
    q->may_record = options->timed == 0 && options->transfers <= MOST_RECORDED;
    status = prepare(q, options, diag);
    if (status == NEAP_OK)
        *queue = &q->base;
    else
        destroy(&q->base);
    return status;
}
