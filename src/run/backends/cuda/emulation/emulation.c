/* Threads as loops or as fibers. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "run/backends/cuda/emulation/emulation.h"

#include "base/fail.h"
#include "base/memory.h"
#include "run/backends/cuda/emulation/device.h"
#include "run/backends/cuda/emulation/fiber.h"

#include <string.h>
#include <sys/mman.h>

#if defined __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif
#if HAS_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES    (64 * 1024)
#define MOST_THREADS   1024
#define SHARED_BYTES   (228 * 1024)
#define EXCHANGE_BYTES 64

_Thread_local emulated_dims neap_emulated_thread, neap_emulated_block, neap_emulated_dims,
    neap_emulated_grid;
_Thread_local unsigned char *neap_emulated_shared;

typedef enum fiber_state { READY, AT_BARRIER, AT_EXCHANGE, ENDED } fiber_state;

typedef struct fiber {
    emulated_stack stack;
    bool begun; /* it has been on its stack, where it waits for the next block once it has ended */
    fiber_state state;
    void *fake_stack; /* AddressSanitizer's */
} fiber;

typedef struct emulation {
    cuda_platform base;
    fiber *fibers;
    unsigned char *stacks; /* MOST_THREADS of STACK_BYTES */
    unsigned char *shared;
    unsigned char *exchanged; /* EXCHANGE_BYTES of each thread */
    emulated_stack scheduler;
    void *fake_stack;
    const void *scheduler_stack; /* as AddressSanitizer knows it */
    size_t scheduler_stack_bytes;
    unsigned current; /* the fiber that runs */
    bool closing;
    const emulated_kernel *kernel;
    const void *params;
    uint64_t launches; /* changes the order of threads */
    int32_t trouble;
} emulation;

static _Thread_local emulation *running; /* fibers cannot take a pointer with them */

/* ---- Switching ---- */

static void to_scheduler(fiber_state state)
{
    emulation *e = running;
    fiber *f = &e->fibers[e->current];
    f->state = state;
#if HAS_ASAN
    __sanitizer_start_switch_fiber(e->closing ? NULL : &f->fake_stack, e->scheduler_stack,
                                   e->scheduler_stack_bytes);
#endif
    neap_emulated_stack_switch(&f->stack, &e->scheduler);
#if HAS_ASAN
    __sanitizer_finish_switch_fiber(f->fake_stack, &e->scheduler_stack, &e->scheduler_stack_bytes);
#endif
}

/* Stays for all blocks: making and releasing what AddressSanitizer keeps of a stack is slow. */
static void run_fiber(void)
{
    emulation *e = running;
#if HAS_ASAN
    __sanitizer_finish_switch_fiber(NULL, &e->scheduler_stack, &e->scheduler_stack_bytes);
#endif
    for (;;) {
        if (!e->closing)
            e->kernel->enter(e->params);
        to_scheduler(ENDED);
    }
}

static void to_fiber(emulation *e, unsigned thread)
{
    e->current = thread;
    neap_emulated_thread = (emulated_dims){thread, 0, 0};
#if HAS_ASAN
    __sanitizer_start_switch_fiber(&e->fake_stack, e->stacks + (size_t)thread * STACK_BYTES,
                                   STACK_BYTES);
#endif
    neap_emulated_stack_switch(&e->scheduler, &e->fibers[thread].stack);
#if HAS_ASAN
    __sanitizer_finish_switch_fiber(e->fake_stack, NULL, NULL);
#endif
}

void neap_emulated_barrier(void)
{
    to_scheduler(AT_BARRIER);
}

void neap_emulated_exchange(const void *mine, size_t bytes, void *all)
{
    emulation *e = running;
    unsigned first = e->current / 32 * 32;
    memcpy(e->exchanged + e->current * EXCHANGE_BYTES, mine, bytes);
    to_scheduler(AT_EXCHANGE);
    for (unsigned lane = 0; lane < 32; lane++)
        memcpy((unsigned char *)all + lane * bytes, e->exchanged + (first + lane) * EXCHANGE_BYTES,
               bytes);
    to_scheduler(AT_EXCHANGE); /* nobody overwrites what others have not read */
}

/* ---- A block ---- */

/* Releases `count` threads from `first` on if all wait alike; false if none can go on. */
static bool release(emulation *e, unsigned first, unsigned count, fiber_state state)
{
    for (unsigned i = first; i < first + count; i++)
        if (e->fibers[i].state != state)
            return false;
    for (unsigned i = first; i < first + count; i++)
        e->fibers[i].state = READY;
    return true;
}

/* The least power of two that is not below `threads`. */
static unsigned places(unsigned threads)
{
    unsigned count = 32;
    while (count < threads)
        count *= 2;
    return count;
}

/* Threads in an order of the launch: a stride that is odd visits all of a power of two, and others
   are skipped. */
static unsigned nth_thread(const emulation *e, unsigned i, unsigned count)
{
    unsigned mask = count - 1, stride = (unsigned)(e->launches * 2 + 1) & mask;
    return (i * stride + (unsigned)e->launches) & mask;
}

static void begin_fiber(emulation *e, unsigned thread)
{
    fiber *f = &e->fibers[thread];
    if (!f->begun)
        neap_emulated_stack_init(&f->stack, e->stacks + (size_t)thread * STACK_BYTES, STACK_BYTES,
                                 run_fiber);
    f->begun = true;
    f->state = READY;
}

static neap_status run_fibers(emulation *e, unsigned threads, neap_diag *diag)
{
    unsigned count = places(threads);
    for (unsigned i = 0; i < threads; i++)
        begin_fiber(e, i);
    for (;;) {
        unsigned ended = 0;
        bool any = false;
        for (unsigned i = 0; i < count; i++) {
            unsigned thread = nth_thread(e, i, count);
            if (thread < threads && e->fibers[thread].state == READY)
                to_fiber(e, thread);
        }
        for (unsigned i = 0; i < threads; i++)
            ended += e->fibers[i].state == ENDED;
        if (ended == threads)
            return NEAP_OK;
        for (unsigned warp = 0; warp < threads; warp += 32)
            any |= release(e, warp, 32, AT_EXCHANGE);
        if (!any && !release(e, 0, threads, AT_BARRIER)) {
            for (unsigned i = 0; i < threads; i++)
                e->fibers[i].begun = false; /* those that wait are given up */
            return neap_fail(diag, NEAP_INTERNAL,
                             "kernel %s: some threads wait at a barrier that others never reach",
                             e->kernel->name);
        }
    }
}

static neap_status run_block(emulation *e, unsigned threads, neap_diag *diag)
{
    if (e->kernel->sync)
        return run_fibers(e, threads, diag);
    for (unsigned i = 0, count = places(threads); i < count; i++) {
        unsigned thread = nth_thread(e, i, count);
        if (thread >= threads)
            continue;
        neap_emulated_thread = (emulated_dims){thread, 0, 0};
        e->kernel->enter(e->params);
    }
    return NEAP_OK;
}

static unsigned at_least_one(unsigned count)
{
    return count ? count : 1;
}

static neap_status launch(cuda_platform *platform, const cuda_function *function,
                          const cuda_dims *dims, const void *params, size_t bytes, neap_diag *diag)
{
    emulation *e = (emulation *)platform;
    e->kernel = (const emulated_kernel *)(const void *)function;
    e->params = params;
    e->launches++;
    emulated_dims grid = {dims->blocks, at_least_one(dims->blocks_y), at_least_one(dims->blocks_z)};
    if (bytes != (size_t)e->kernel->bytes || grid.x == 0 || grid.y > 65535 || grid.z > 65535 ||
        dims->threads == 0 || dims->threads % 32 != 0 || dims->threads > MOST_THREADS ||
        dims->dynamic_shared > e->base.shared_bytes)
        return neap_fail(diag, NEAP_INTERNAL,
                         "kernel %s cannot be launched with %u x %u x %u blocks of %u threads",
                         e->kernel->name, grid.x, grid.y, grid.z, dims->threads);
    neap_status status = NEAP_OK;
    running = e;
    neap_emulated_shared = e->shared + (SHARED_BYTES - (dims->dynamic_shared + 15u) / 16 * 16);
    neap_emulated_dims = (emulated_dims){dims->threads, 1, 1};
    neap_emulated_grid = grid;
    for (unsigned z = 0; z < grid.z && status == NEAP_OK; z++)
        for (unsigned y = 0; y < grid.y && status == NEAP_OK; y++)
            for (unsigned x = 0; x < grid.x && status == NEAP_OK; x++) {
                neap_emulated_block = (emulated_dims){x, y, z};
                memset(neap_emulated_shared, 0xff, dims->dynamic_shared);
                status = run_block(e, dims->threads, diag);
            }
    return status;
}

/* ---- The platform ---- */

static neap_status find(cuda_platform *platform, const char *name, neap_dtype type,
                        const cuda_function **function, neap_diag *diag)
{
    (void)platform;
    const emulated_kernel *k =
        type == NEAP_BF16 ? neap_emulated_kernels_bf16 : neap_emulated_kernels_f32;
    while (k->name && strcmp(k->name, name) != 0)
        k++;
    *function = (const cuda_function *)(const void *)k;
    return k->name ? NEAP_OK : neap_fail(diag, NEAP_INTERNAL, "there is no kernel %s", name);
}

static void close_emulation(cuda_platform *platform)
{
    emulation *e = (emulation *)platform;
    e->closing = true;
    running = e;
    for (unsigned i = 0; HAS_ASAN && e->fibers && i < MOST_THREADS; i++)
        if (e->fibers[i].begun)
            to_fiber(e, i);
    if (e->stacks)
        munmap(e->stacks, (size_t)MOST_THREADS * STACK_BYTES);
    NEAP_DELETE(platform->allocator, SHARED_BYTES, e->shared);
    NEAP_DELETE(platform->allocator, MOST_THREADS, e->fibers);
    NEAP_DELETE(platform->allocator, MOST_THREADS * EXCHANGE_BYTES, e->exchanged);
    NEAP_DELETE(platform->allocator, 1, e);
}

static void enter_emulation(cuda_platform *platform)
{
    (void)platform; /* it is in every thread */
}

static const cuda_platform_type type = {
    .find = find, .launch = launch, .enter = enter_emulation, .close = close_emulation};

neap_status neap_cuda_emulation_open(neap_allocator *allocator, cuda_platform **platform,
                                     neap_diag *diag)
{
    emulation *e;
    neap_status status = NEAP_NEW(allocator, 1, &e, diag);
    if (status != NEAP_OK)
        return status;
    e->base = (cuda_platform){.type = &type,
                              .allocator = allocator,
                              .multiprocessors = 2,
                              .shared_bytes = SHARED_BYTES,
                              .trouble = &e->trouble,
                              .immediate = true};
    status = NEAP_NEW(allocator, SHARED_BYTES, &e->shared, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, MOST_THREADS, &e->fibers, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, MOST_THREADS * EXCHANGE_BYTES, &e->exchanged, diag);
    if (status == NEAP_OK) {
        void *stacks = mmap(NULL, (size_t)MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stacks == MAP_FAILED)
            status = neap_fail_no_memory(diag);
        else
            e->stacks = stacks;
    }
    if (status == NEAP_OK)
        *platform = &e->base;
    else
        close_emulation(&e->base);
    return status;
}
