#include "base/left_behind.h"

#include <neap/progress.h>

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fewer = PTHREAD_COND_INITIALIZER;
static unsigned n_left;
static bool waits_at_exit;

static void wait_for_all(void)
{
    pthread_mutex_lock(&lock);
    while (n_left > 0)
        pthread_cond_wait(&fewer, &lock);
    pthread_mutex_unlock(&lock);
}

void neap_left_thread_begin(void)
{
    pthread_mutex_lock(&lock);
    n_left++;
    if (!waits_at_exit)
        waits_at_exit = atexit(wait_for_all) == 0;
    pthread_mutex_unlock(&lock);
}

void neap_left_thread_end(void)
{
    pthread_mutex_lock(&lock);
    n_left--;
    pthread_cond_broadcast(&fewer);
    pthread_mutex_unlock(&lock);
}

bool neap_has_left_threads(void)
{
    pthread_mutex_lock(&lock);
    bool any = n_left > 0;
    pthread_mutex_unlock(&lock);
    return any;
}
