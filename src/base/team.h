/* A few threads that do one job in step. */
#ifndef NEAP_BASE_TEAM_H
#define NEAP_BASE_TEAM_H

#include <neap/allocator.h>
#include <pthread.h>

typedef struct neap_team neap_team;
typedef struct neap_job neap_job;

/* Embedded in what the job works on. */
struct neap_job {
    /* Run by every member, 0 being the caller of neap_team_run. */
    void (*run)(neap_job *self, neap_team *team, unsigned member);
};

/* Threads for a wish of `wanted` (0: as many as the process may use processors), at most `most`. */
unsigned neap_team_size(int wanted, unsigned most);

/* Runs the job on up to `members` threads; on fewer, down to the caller's alone, where no more can
 * be had. */
void neap_team_run(neap_job *job, unsigned members);
/* How many there are. */
unsigned neap_team_members(const neap_team *team);
/* Waits until every member has come here. What each did before is seen by all after. */
void neap_team_meet(neap_team *team);

/* An allocator that several members may use at once, over one that need not be made for threads. */
typedef struct neap_shared_allocator {
    neap_allocator base;
    neap_allocator *inner;
    pthread_mutex_t lock;
} neap_shared_allocator;

/* False if a lock cannot be created. */
int neap_shared_allocator_init(neap_shared_allocator *shared, neap_allocator *inner);
/* All its blocks must have been released. */
void neap_shared_allocator_clear(neap_shared_allocator *shared);

#endif
