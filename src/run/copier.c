/* Threads that copy between device and host memory. */
#include "run/copier.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

typedef struct job {
    void *to;
    const void *from;
    size_t bytes;
    run_direction direction;
    run_ticket after;
} job;

typedef struct lane {
    run_copier *copier;
    unsigned index;
    pthread_t thread;
    bool running;
    job *jobs;             /* a ring */
    neap_step_time *times; /* of the jobs */
    uint64_t given, done;
} lane;

struct run_copier {
    neap_allocator *allocator;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a copy was added or has ended, or the copier is closing */
    bool over;
    unsigned n_lanes;
    size_t capacity;
    neap_link pace;  /* all zero: as fast as the machine copies */
    uint64_t stress; /* seed of random delays; 0: none */
    lane lanes[2];
};

static bool has_ended(const run_copier *copier, run_ticket ticket)
{
    return copier->lanes[ticket.lane].done >= ticket.number;
}

/* The next job of a lane, once it can start; false when the copier is closing. Holds the lock. */
static bool next_job(lane *l, job *next)
{
    run_copier *copier = l->copier;
    for (;;) {
        if (l->done < l->given) {
            *next = l->jobs[l->done % copier->capacity];
            if (has_ended(copier, next->after))
                return true;
        } else if (copier->over) {
            return false;
        }
        pthread_cond_wait(&copier->changed, &copier->lock);
    }
}

static void sleep_until(double moment)
{
    for (double rest; (rest = moment - neap_clock_seconds()) > 0;) {
        struct timespec time = {.tv_sec = (time_t)rest};
        time.tv_nsec = (long)(1e9 * (rest - (double)time.tv_sec));
        nanosleep(&time, NULL);
    }
}

/* Up to a millisecond: longer than most kernels of tests. */
static void dawdle(const run_copier *copier, const lane *l)
{
    uint64_t draw = (copier->stress + l->done) * UINT64_C(0x9e3779b97f4a7c15);
    if (copier->stress != 0 && draw >> 63)
        sleep_until(neap_clock_seconds() + 1e-3 * (double)(draw >> 40 & 0xffff) / 0x10000);
}

static void copy(const run_copier *copier, const job *j)
{
    const neap_link *pace = &copier->pace;
    double rate = j->direction == RUN_OUT ? pace->out_bandwidth : pace->in_bandwidth;
    if (!(rate > 0)) {
        memcpy(j->to, j->from, j->bytes);
        return;
    }
    double begin = neap_clock_seconds(), time = pace->latency + (double)j->bytes / rate;
    sleep_until(begin + time / 2);
    memcpy(j->to, j->from, j->bytes);
    sleep_until(begin + time);
}

static void *run_lane(void *context)
{
    lane *l = context;
    run_copier *copier = l->copier;
    job next;
    pthread_mutex_lock(&copier->lock);
    while (next_job(l, &next)) {
        pthread_mutex_unlock(&copier->lock);
        dawdle(copier, l);
        double begin = neap_clock_seconds();
        copy(copier, &next);
        double end = neap_clock_seconds();
        pthread_mutex_lock(&copier->lock);
        l->times[l->done % copier->capacity] = (neap_step_time){begin, end};
        l->done++;
        pthread_cond_broadcast(&copier->changed);
    }
    pthread_mutex_unlock(&copier->lock);
    return NULL;
}

static neap_status start_lane(run_copier *copier, unsigned index, neap_diag *diag)
{
    lane *l = &copier->lanes[index];
    *l = (lane){.copier = copier, .index = index};
    neap_status status = NEAP_NEW(copier->allocator, copier->capacity, &l->jobs, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(copier->allocator, copier->capacity, &l->times, diag);
    if (status != NEAP_OK)
        return status;
    if (pthread_create(&l->thread, NULL, run_lane, l) != 0)
        return neap_fail(diag, NEAP_NO_MEMORY,
                         "out of memory: cannot start a thread for copies to the host");
    l->running = true;
    return NEAP_OK;
}

neap_status neap_run_copier_create(neap_allocator *allocator, bool duplex, size_t capacity,
                                   run_copier **result, neap_diag *diag)
{
    run_copier *copier;
    neap_status status = NEAP_NEW(allocator, 1, &copier, diag);
    if (status != NEAP_OK)
        return status;
    copier->allocator = allocator;
    copier->n_lanes = duplex ? 2 : 1;
    copier->capacity = capacity ? capacity : 1;
    pthread_mutex_init(&copier->lock, NULL); /* neither fails on Linux */
    pthread_cond_init(&copier->changed, NULL);
    for (unsigned i = 0; i < copier->n_lanes && status == NEAP_OK; i++)
        status = start_lane(copier, i, diag);
    if (status == NEAP_OK)
        *result = copier;
    else
        neap_run_copier_destroy(copier);
    return status;
}

void neap_run_copier_pace(run_copier *copier, const neap_link *link)
{
    pthread_mutex_lock(&copier->lock);
    copier->pace = *link;
    pthread_mutex_unlock(&copier->lock);
}

void neap_run_copier_stress(run_copier *copier, uint64_t seed)
{
    pthread_mutex_lock(&copier->lock);
    copier->stress = seed;
    pthread_mutex_unlock(&copier->lock);
}

void neap_run_copier_finish(run_copier *copier)
{
    pthread_mutex_lock(&copier->lock);
    for (unsigned i = 0; i < copier->n_lanes; i++)
        while (copier->lanes[i].done < copier->lanes[i].given)
            pthread_cond_wait(&copier->changed, &copier->lock);
    pthread_mutex_unlock(&copier->lock);
}

void neap_run_copier_destroy(run_copier *copier)
{
    if (!copier)
        return;
    pthread_mutex_lock(&copier->lock);
    copier->over = true;
    pthread_cond_broadcast(&copier->changed);
    pthread_mutex_unlock(&copier->lock);
    for (unsigned i = 0; i < copier->n_lanes; i++) {
        if (copier->lanes[i].running)
            pthread_join(copier->lanes[i].thread, NULL);
        NEAP_DELETE(copier->allocator, copier->capacity, copier->lanes[i].jobs);
        NEAP_DELETE(copier->allocator, copier->capacity, copier->lanes[i].times);
    }
    pthread_cond_destroy(&copier->changed);
    pthread_mutex_destroy(&copier->lock);
    NEAP_DELETE(copier->allocator, 1, copier);
}

run_ticket neap_run_copier_start(run_copier *copier, run_direction direction, void *to,
                                 const void *from, size_t bytes, run_ticket after)
{
    lane *l = &copier->lanes[copier->n_lanes == 2 ? direction : 0];
    pthread_mutex_lock(&copier->lock);
    while (l->given - l->done >= copier->capacity)
        pthread_cond_wait(&copier->changed, &copier->lock);
    l->jobs[l->given++ % copier->capacity] = (job){to, from, bytes, direction, after};
    run_ticket ticket = {.number = l->given, .lane = l->index};
    pthread_cond_broadcast(&copier->changed);
    pthread_mutex_unlock(&copier->lock);
    return ticket;
}

bool neap_run_copier_wait(run_copier *copier, run_ticket ticket)
{
    if (ticket.number == 0)
        return false;
    pthread_mutex_lock(&copier->lock);
    bool waits = !has_ended(copier, ticket);
    while (!has_ended(copier, ticket))
        pthread_cond_wait(&copier->changed, &copier->lock);
    pthread_mutex_unlock(&copier->lock);
    return waits;
}

neap_step_time neap_run_copier_time(run_copier *copier, run_ticket ticket)
{
    pthread_mutex_lock(&copier->lock);
    neap_step_time time = copier->lanes[ticket.lane].times[(ticket.number - 1) % copier->capacity];
    pthread_mutex_unlock(&copier->lock);
    return time;
}
