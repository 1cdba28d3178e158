#define _GNU_SOURCE /* sched_getaffinity */
#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define MOST_MEMBERS 64

struct neap_team {
    neap_job *job;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool open; /* members are counted: go */
    unsigned members, waiting;
    uint64_t round;
};

typedef struct member {
    neap_team *team;
    unsigned number;
} member;

/* Processors that this process may use: a container or taskset may allow fewer than there are. */
static long count_processors(void)
{
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return CPU_COUNT(&allowed);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

unsigned neap_team_size(int wanted, unsigned most)
{
    long processors = wanted > 0 ? wanted : count_processors();
    unsigned size = processors < 1              ? 1
                    : processors > MOST_MEMBERS ? MOST_MEMBERS
                                                : (unsigned)processors;
    return size < most ? size : most;
}

unsigned neap_team_members(const neap_team *team)
{
    return team->members;
}

void neap_team_meet(neap_team *team)
{
    if (team->members == 1)
        return;
    pthread_mutex_lock(&team->lock);
    uint64_t round = team->round;
    if (++team->waiting == team->members) {
        team->waiting = 0;
        team->round++;
        pthread_cond_broadcast(&team->turn);
    }
    while (team->round == round)
        pthread_cond_wait(&team->turn, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void *join_in(void *argument)
{
    member *self = argument;
    neap_team *team = self->team;
    pthread_mutex_lock(&team->lock);
    while (!team->open)
        pthread_cond_wait(&team->turn, &team->lock);
    pthread_mutex_unlock(&team->lock);
    team->job->run(team->job, team, self->number);
    return NULL;
}

void neap_team_run(neap_job *job, unsigned members)
{
    neap_team team = {.job = job, .members = 1};
    member numbered[MOST_MEMBERS];
    pthread_t threads[MOST_MEMBERS];
    if (members > MOST_MEMBERS)
        members = MOST_MEMBERS;
    if (members <= 1 || pthread_mutex_init(&team.lock, NULL) != 0) {
        job->run(job, &team, 0);
        return;
    }
    if (pthread_cond_init(&team.turn, NULL) != 0) {
        pthread_mutex_destroy(&team.lock);
        job->run(job, &team, 0);
        return;
    }
    unsigned started = 0;
    for (; started + 1 < members; started++) {
        numbered[started] = (member){&team, started + 1};
        if (pthread_create(&threads[started], NULL, join_in, &numbered[started]) != 0)
            break;
    }
    pthread_mutex_lock(&team.lock);
    team.members = started + 1;
    team.open = true;
    pthread_cond_broadcast(&team.turn);
    pthread_mutex_unlock(&team.lock);
    job->run(job, &team, 0);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&team.turn);
    pthread_mutex_destroy(&team.lock);
}

static void *shared_resize(neap_allocator *self, void *block, size_t old_size, size_t new_size)
{
    neap_shared_allocator *shared = (neap_shared_allocator *)self;
    pthread_mutex_lock(&shared->lock);
    void *result = shared->inner->resize(shared->inner, block, old_size, new_size);
    pthread_mutex_unlock(&shared->lock);
    return result;
}

int neap_shared_allocator_init(neap_shared_allocator *shared, neap_allocator *inner)
{
    shared->base.resize = shared_resize;
    shared->inner = inner;
    return pthread_mutex_init(&shared->lock, NULL) == 0;
}

void neap_shared_allocator_clear(neap_shared_allocator *shared)
{
    pthread_mutex_destroy(&shared->lock);
}
