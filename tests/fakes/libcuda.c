#include "fake_cuda.h"

#include "run/backends/cuda/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(library, result, name, parameters) X_##library(result, name, parameters)
#define X_DRIVER(result, name, parameters)   result name parameters;
#define X_NVRTC(result, name, parameters)
#define X_CUDNN(result, name, parameters)
#define X_CUBLASLT(result, name, parameters)
#define X_NVML(result, name, parameters)
#include "run/backends/cuda/api.def"
#undef X

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_UNJOINED = 904,
    MOST_STREAMS = 256,
};

/* ---- State ---- */

typedef enum op_kind { COPY, FILL, LAUNCH, RECORD, WAIT, GRAPH } op_kind;

typedef struct op {
    op_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    const struct cu_function *function;
    unsigned blocks[3], threads, shared;
    unsigned char *params;
    struct cu_event *event;
    uint64_t record; /* of the event */
    struct cu_graph *graph;
} op;

typedef struct queue {
    op *ops;
    size_t first, count, capacity;
} queue;

struct cu_stream {
    queue work;
    struct cu_graph *capture; /* what records it, or NULL */
    int index;                /* its queue in a graph */
};

struct cu_event {
    uint64_t recorded, done; /* records queued, and executed */
    struct cu_graph *capture;
    uint64_t captured, replayed;
    bool timing;
    double time;
};

struct cu_module {
    int bf16;
};

struct cu_function {
    const struct cu_module *module;
    char name[64];
    struct cu_function *next;
    int dynamic;
};

struct cu_graph {
    queue queues[MOST_STREAMS];
    bool joined[MOST_STREAMS], used[MOST_STREAMS];
    int references;
};

struct cu_context {
    int unused;
};

static struct {
    fake_cuda_hooks hooks;
    uint64_t random;
    fake_cuda_usage usage;
    char fails[64];
    int error, skips;
    struct cu_context context, *current;
    cu_stream streams[MOST_STREAMS];
    struct cu_function *functions;
    int sticky; /* an error that every later call reports */
    double clock;
} fake = {.random = 1};

static uint64_t next_random(uint64_t below)
{
    fake.random = fake.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (fake.random >> 33) % below;
}

void neap_fake_cuda_set_hooks(const fake_cuda_hooks *hooks, uint64_t seed)
{
    fake.hooks = *hooks;
    fake.random = seed;
    fake.sticky = 0;
}

void neap_fake_cuda_usage(fake_cuda_usage *usage)
{
    *usage = fake.usage;
}

void neap_fake_cuda_fail(const char *function, int error, int skips)
{
    snprintf(fake.fails, sizeof fake.fails, "%s", function);
    fake.error = error;
    fake.skips = skips;
}

/* The error that a call begins with, or 0. */
static int begin(const char *function)
{
    if (fake.error && strcmp(fake.fails, function) == 0 && fake.skips-- == 0) {
        int error = fake.error;
        fake.error = 0;
        return error;
    }
    return fake.sticky;
}

#define BEGIN()                                                                                    \
    do {                                                                                           \
        int begun = begin(__func__);                                                               \
        if (begun)                                                                                 \
            return begun;                                                                          \
    } while (0)
/* The same for calls that need the context. */
#define ENTER()                                                                                    \
    do {                                                                                           \
        BEGIN();                                                                                   \
        if (!fake.current)                                                                         \
            return INVALID_CONTEXT;                                                                \
    } while (0)

/* ---- Queues ---- */

static void push(queue *q, const op *o)
{
    if (q->count == q->capacity) {
        q->capacity = 2 * q->capacity + 8;
        q->ops = realloc(q->ops, q->capacity * sizeof *q->ops);
    }
    q->ops[q->count++] = *o;
}

static void clear_queue(queue *q)
{
    for (size_t i = q->first; i < q->count; i++)
        free(q->ops[i].params);
    free(q->ops);
    *q = (queue){.ops = NULL};
}

static int replay(const struct cu_graph *graph);

static int execute(const op *o)
{
    switch (o->kind) {
    case COPY:
        memmove(o->to, o->from, o->bytes);
        return 0;
    case FILL:
        memset(o->to, o->byte, o->bytes);
        return 0;
    case LAUNCH:
        return fake.hooks.launch(&(fake_cuda_launch){o->function->name,
                                                     o->function->module->bf16,
                                                     {o->blocks[0], o->blocks[1], o->blocks[2]},
                                                     o->threads,
                                                     o->shared,
                                                     o->params});
    case RECORD:
        o->event->time = fake.clock;
        return 0;
    case WAIT:
        return 0;
    case GRAPH:
        return replay(o->graph);
    }
    return INVALID_VALUE;
}

/* One step of a queue; false if it is empty or must wait. */
static bool step(queue *q, bool replaying)
{
    if (q->first == q->count)
        return false;
    op *o = &q->ops[q->first];
    if (o->kind == WAIT && (replaying ? o->event->replayed : o->event->done) < o->record)
        return false;
    int error = execute(o);
    fake.clock += 1e-6;
    if (o->kind == RECORD && replaying)
        o->event->replayed = o->record;
    else if (o->kind == RECORD)
        o->event->done = o->record;
    if (error)
        fake.sticky = error;
    if (!replaying) {
        free(o->params);
        if (o->kind == GRAPH && --o->graph->references == 0)
            free(o->graph);
    }
    q->first++;
    return true;
}

/* Steps of all queues in any order until `until` is true of them or no step can be done. */
static void turn(queue **queues, size_t count, bool replaying, const queue *until,
                 const struct cu_event *event, uint64_t record)
{
    bool any = true;
    while (any && !fake.sticky) {
        if (until && until->first == until->count)
            return;
        if (event && event->done >= record)
            return;
        any = false;
        size_t offset = next_random(count);
        for (size_t i = 0; i < count && !any; i++)
            any = step(queues[(i + offset) % count], replaying);
    }
}

static int replay(const struct cu_graph *graph)
{
    queue *queues[MOST_STREAMS];
    struct cu_graph copy = *graph;
    for (int i = 0; i < MOST_STREAMS; i++) {
        queues[i] = &copy.queues[i];
        for (size_t k = 0; k < copy.queues[i].count; k++)
            if (copy.queues[i].ops[k].event)
                copy.queues[i].ops[k].event->replayed = 0;
    }
    turn(queues, MOST_STREAMS, true, NULL, NULL, 0);
    for (int i = 0; i < MOST_STREAMS; i++)
        if (copy.queues[i].first < copy.queues[i].count && !fake.sticky)
            return LAUNCH_FAILED;
    return fake.sticky;
}

static int drain(const queue *until, const struct cu_event *event, uint64_t record)
{
    queue *queues[MOST_STREAMS];
    size_t count = 0;
    for (int i = 0; i < MOST_STREAMS; i++)
        if (fake.streams[i])
            queues[count++] = &fake.streams[i]->work;
    if (count > 0)
        turn(queues, count, false, until, event, record);
    return fake.sticky;
}

static void drain_all(void)
{
    drain(NULL, NULL, 0);
}

/* Queues or records an op. */
static int submit(cu_stream stream, op *o)
{
    if (!stream)
        return INVALID_VALUE;
    if (stream->capture) {
        stream->capture->used[stream->index] = true;
        if (o->kind != RECORD && o->kind != WAIT)
            stream->capture->joined[stream->index] = false;
        push(&stream->capture->queues[stream->index], o);
    } else {
        push(&stream->work, o);
    }
    return 0;
}

/* ---- Devices ---- */

int cuGetErrorName(int error, const char **name)
{
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return 0;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == OUT_OF_MEMORY ? "out of memory" : "an error of the fake driver";
    return 0;
}

int cuInit(unsigned flags)
{
    BEGIN();
    return flags ? INVALID_VALUE : 0;
}

int cuDriverGetVersion(int *version)
{
    BEGIN();
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    BEGIN();
    *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    BEGIN();
    *device = 7;
    return ordinal == 0 ? 0 : INVALID_VALUE;
}

int cuDeviceGetName(char *name, int length, int device)
{
    BEGIN();
    snprintf(name, (size_t)length, "Fake GPU");
    return device == 7 ? 0 : INVALID_VALUE;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    BEGIN();
    *bytes = FAKE_CUDA_MEMORY;
    return device == 7 ? 0 : INVALID_VALUE;
}

int cuDeviceGetPCIBusId(char *id, int length, int device)
{
    BEGIN();
    snprintf(id, (size_t)length, "0000:07:00.0");
    return device == 7 ? 0 : INVALID_VALUE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    BEGIN();
    *value = attribute == 75   ? 9
             : attribute == 76 ? 0
             : attribute == 16 ? 2
             : attribute == 97 ? 232448
             : attribute == 38 ? 1 << 20
                               : -1;
    return device == 7 && *value >= 0 ? 0 : INVALID_VALUE;
}

int cuDevicePrimaryCtxRetain(cu_context *context, int device)
{
    BEGIN();
    *context = &fake.context;
    fake.usage.contexts++;
    return device == 7 ? 0 : INVALID_VALUE;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    fake.usage.contexts--;
    return device == 7 ? 0 : INVALID_VALUE;
}

int cuCtxSetCurrent(cu_context context)
{
    fake.current = context;
    return 0;
}

/* ---- Memory ---- */

#define HEAD 256 /* bytes before a block that hold its size */

int cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    ENTER();
    *total = FAKE_CUDA_MEMORY;
    *unused = FAKE_CUDA_MEMORY - fake.usage.bytes;
    return 0;
}

int cuMemAlloc_v2(cu_address *address, size_t bytes)
{
    ENTER();
    size_t rounded = (bytes + 255) / 256 * 256;
    if (rounded > FAKE_CUDA_MEMORY - fake.usage.bytes)
        return OUT_OF_MEMORY;
    unsigned char *block = aligned_alloc(HEAD, HEAD + rounded);
    memset(block, 0xEE, HEAD + rounded);
    memcpy(block, &rounded, sizeof rounded);
    fake.usage.allocations++;
    fake.usage.bytes += rounded;
    *address = (cu_address)(uintptr_t)(block + HEAD);
    return 0;
}

int cuMemFree_v2(cu_address address)
{
    size_t bytes;
    drain_all();
    unsigned char *block = (unsigned char *)(uintptr_t)address - HEAD;
    memcpy(&bytes, block, sizeof bytes);
    fake.usage.allocations--;
    fake.usage.bytes -= bytes;
    free(block);
    return 0;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    ENTER();
    *memory = malloc(bytes);
    fake.usage.host_allocations++;
    return flags ? INVALID_VALUE : 0;
}

int cuMemFreeHost(void *memory)
{
    drain_all();
    free(memory);
    fake.usage.host_allocations--;
    return 0;
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    ENTER();
    fake.usage.host_allocations++;
    return memory && bytes && !flags ? 0 : INVALID_VALUE;
}

int cuMemHostUnregister(void *memory)
{
    drain_all();
    fake.usage.host_allocations--;
    return memory ? 0 : INVALID_VALUE;
}

int cuMemsetD8Async(cu_address to, unsigned char byte, size_t bytes, cu_stream stream)
{
    ENTER();
    return submit(stream,
                  &(op){.kind = FILL, .to = (void *)(uintptr_t)to, .byte = byte, .bytes = bytes});
}

static int copy(cu_stream stream, void *to, const void *from, size_t bytes)
{
    return submit(stream, &(op){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}

int cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t bytes, cu_stream stream)
{
    ENTER();
    return copy(stream, (void *)(uintptr_t)to, from, bytes);
}

int cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t bytes, cu_stream stream)
{
    ENTER();
    return copy(stream, to, (const void *)(uintptr_t)from, bytes);
}

int cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, cu_stream stream)
{
    ENTER();
    return copy(stream, (void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}

/* ---- Streams and events ---- */

int cuStreamCreate(cu_stream *stream, unsigned flags)
{
    ENTER();
    int i = 0;
    while (i < MOST_STREAMS && fake.streams[i])
        i++;
    if (i == MOST_STREAMS || flags != 1)
        return INVALID_VALUE;
    *stream = fake.streams[i] = calloc(1, sizeof **stream);
    (*stream)->index = i;
    fake.usage.streams++;
    return 0;
}

int cuStreamDestroy_v2(cu_stream stream)
{
    drain(&stream->work, NULL, 0);
    fake.streams[stream->index] = NULL;
    fake.usage.streams--;
    clear_queue(&stream->work);
    free(stream);
    return 0;
}

int cuStreamSynchronize(cu_stream stream)
{
    ENTER();
    if (stream->capture)
        return CAPTURE_UNSUPPORTED;
    return drain(&stream->work, NULL, 0);
}

int cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags)
{
    ENTER();
    if (flags)
        return INVALID_VALUE;
    if (event->capture) {
        if (!stream->capture)
            stream->capture = event->capture;
        for (int i = 0; i < MOST_STREAMS;
             i++) /* the event's stream, if it has done nothing since */
            for (size_t k = stream->capture->queues[i].count; k > 0; k--) {
                const op *o = &stream->capture->queues[i].ops[k - 1];
                if (o->kind != RECORD && o->kind != WAIT)
                    break;
                if (o->kind == RECORD && o->event == event)
                    stream->capture->joined[i] = true;
            }
        return submit(stream, &(op){.kind = WAIT, .event = event, .record = event->captured});
    }
    if (stream->capture)
        return CAPTURE_UNSUPPORTED;
    return submit(stream, &(op){.kind = WAIT, .event = event, .record = event->recorded});
}

int cuEventCreate(cu_event *event, unsigned flags)
{
    ENTER();
    *event = calloc(1, sizeof **event);
    (*event)->timing = flags == 0;
    fake.usage.events++;
    return 0;
}

int cuEventDestroy_v2(cu_event event)
{
    drain_all();
    free(event);
    fake.usage.events--;
    return 0;
}

int cuEventRecord(cu_event event, cu_stream stream)
{
    ENTER();
    event->capture = stream->capture;
    uint64_t record = stream->capture ? ++event->captured : ++event->recorded;
    return submit(stream, &(op){.kind = RECORD, .event = event, .record = record});
}

int cuEventQuery(cu_event event)
{
    ENTER();
    if (event->capture)
        return CAPTURE_UNSUPPORTED;
    return event->done >= event->recorded ? 0 : NOT_READY;
}

int cuEventSynchronize(cu_event event)
{
    ENTER();
    if (event->capture)
        return CAPTURE_UNSUPPORTED;
    return drain(NULL, event, event->recorded);
}

int cuEventElapsedTime(float *milliseconds, cu_event from, cu_event to)
{
    ENTER();
    if (!from->timing || !to->timing)
        return INVALID_VALUE;
    if (from->done < from->recorded || to->done < to->recorded)
        return NOT_READY;
    *milliseconds = (float)(1e3 * (to->time - from->time));
    return 0;
}

/* ---- Graphs ---- */

int cuStreamBeginCapture_v2(cu_stream stream, int mode)
{
    ENTER();
    if (stream->capture || mode != 1)
        return INVALID_VALUE;
    stream->capture = calloc(1, sizeof *stream->capture);
    fake.usage.graphs++;
    return 0;
}

int cuStreamEndCapture(cu_stream stream, cu_graph *graph)
{
    ENTER();
    *graph = stream->capture;
    if (!*graph)
        return INVALID_VALUE;
    bool joined = true;
    for (int i = 0; i < MOST_STREAMS; i++) {
        joined &= i == stream->index || !(*graph)->used[i] || (*graph)->joined[i];
        if (fake.streams[i] && fake.streams[i]->capture == *graph)
            fake.streams[i]->capture = NULL;
    }
    (*graph)->references = 1;
    if (joined)
        return 0;
    cuGraphDestroy(*graph);
    *graph = NULL;
    return CAPTURE_UNJOINED;
}

int cuGraphInstantiateWithFlags(cu_graph_exec *exec, cu_graph graph, unsigned long long flags)
{
    ENTER();
    cu_graph made = calloc(1, sizeof *made);
    for (int i = 0; i < MOST_STREAMS; i++)
        for (size_t k = 0; k < graph->queues[i].count; k++) {
            op o = graph->queues[i].ops[k];
            if (o.params) {
                size_t bytes = fake.hooks.params_bytes(o.function->name, o.function->module->bf16);
                o.params = memcpy(malloc(bytes), graph->queues[i].ops[k].params, bytes);
            }
            push(&made->queues[i], &o);
        }
    made->references = 1;
    fake.usage.graphs++;
    *exec = (cu_graph_exec)(void *)made;
    return flags ? INVALID_VALUE : 0;
}

int cuGraphGetNodes(cu_graph graph, void *nodes, size_t *count)
{
    ENTER();
    *count = 0;
    for (int i = 0; i < MOST_STREAMS; i++)
        *count += graph->queues[i].count;
    return nodes ? INVALID_VALUE : 0;
}

int cuGraphUpload(cu_graph_exec exec, cu_stream stream)
{
    ENTER();
    return exec && stream && !stream->capture ? 0 : INVALID_VALUE;
}

int cuGraphLaunch(cu_graph_exec exec, cu_stream stream)
{
    ENTER();
    cu_graph graph = (cu_graph)(void *)exec;
    if (stream->capture)
        return CAPTURE_UNSUPPORTED;
    graph->references++;
    return submit(stream, &(op){.kind = GRAPH, .graph = graph});
}

int cuGraphDestroy(cu_graph graph)
{
    drain_all();
    for (int i = 0; i < MOST_STREAMS; i++)
        clear_queue(&graph->queues[i]);
    fake.usage.graphs--;
    if (--graph->references <= 0)
        free(graph);
    return 0;
}

int cuGraphExecDestroy(cu_graph_exec exec)
{
    return cuGraphDestroy((cu_graph)(void *)exec);
}

/* ---- Kernels ---- */

/* What the fake NVRTC makes: "fake " and the options. */
int cuModuleLoadData(cu_module *module, const void *code)
{
    ENTER();
    const char *text = code;
    if (strncmp(text, "fake ", 5) != 0)
        return INVALID_VALUE;
    *module = calloc(1, sizeof **module);
    (*module)->bf16 = strstr(text, "BF16_ELEMENTS=1") != NULL;
    fake.usage.modules++;
    return 0;
}

int cuModuleUnload(cu_module module)
{
    drain_all();
    for (struct cu_function **f = &fake.functions; *f;) {
        struct cu_function *function = *f;
        if (function->module == module) {
            *f = function->next;
            free(function);
        } else {
            f = &function->next;
        }
    }
    free(module);
    fake.usage.modules--;
    return 0;
}

int cuModuleGetFunction(cu_function *function, cu_module module, const char *name)
{
    ENTER();
    if (fake.hooks.params_bytes(name, module->bf16) == 0)
        return NOT_FOUND;
    *function = calloc(1, sizeof **function);
    (*function)->module = module;
    (*function)->dynamic = 48 * 1024;
    (*function)->next = fake.functions;
    fake.functions = *function;
    snprintf((*function)->name, sizeof(*function)->name, "%s", name);
    return 0;
}

int cuFuncGetAttribute(int *value, int attribute, cu_function function)
{
    ENTER();
    *value = 448;
    return function && attribute == 1 ? 0 : INVALID_VALUE;
}

int cuFuncSetAttribute(cu_function function, int attribute, int value)
{
    ENTER();
    function->dynamic = value;
    return attribute == 8 && value <= 232448 - 448 ? 0 : INVALID_VALUE;
}

int cuLaunchKernel(cu_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                   unsigned threads_x, unsigned threads_y, unsigned threads_z,
                   unsigned shared_bytes, cu_stream stream, const void *const *parameters,
                   const void *const *extra)
{
    ENTER();
    if (!blocks_x || !blocks_y || !blocks_z || blocks_y > 65535 || blocks_z > 65535 ||
        threads_x == 0 || threads_x > 1024 || threads_y != 1 || threads_z != 1 || extra ||
        shared_bytes > (unsigned)function->dynamic)
        return INVALID_VALUE;
    size_t bytes = fake.hooks.params_bytes(function->name, function->module->bf16);
    op o = {.kind = LAUNCH,
            .function = function,
            .blocks = {blocks_x, blocks_y, blocks_z},
            .threads = threads_x,
            .shared = shared_bytes,
            .params = memcpy(malloc(bytes), parameters[0], bytes)};
    int error = submit(stream, &o);
    if (error)
        free(o.params);
    return error;
}
