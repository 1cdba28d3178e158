/*
 * The lists of all problems so far.
 *
 * Several threads make lists at once, each with a handle of its own, as cuDNN demands. A plan is
 * run with the handle that it was made with, so these live as long as the lists.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/team.h"
#include "run/backends/cuda/cudnn_conv.h"
#include "run/backends/cuda/driver.h"
#include "run/specs.h"

#include <stdatomic.h>
#include <string.h>

/* ---- Lists ---- */

static void delete_list(cuda_libraries *libraries, cudnn_conv_list *list)
{
    neap_cudnn_bag_clear(&list->bag);
    NEAP_DELETE(libraries->allocator, list->capacity, list->items);
    NEAP_DELETE(libraries->allocator, list->sign_bytes, list->sign);
    NEAP_DELETE(libraries->allocator, 1, list);
}

void neap_cudnn_conv_clear(cuda_libraries *libraries)
{
    while (libraries->convolutions) {
        cudnn_conv_list *list = libraries->convolutions;
        libraries->convolutions = list->next;
        delete_list(libraries, list);
    }
    for (size_t i = 0; i < libraries->n_workers; i++)
        libraries->api->cudnnDestroy(libraries->workers[i].cudnn);
    NEAP_DELETE(libraries->allocator, libraries->worker_capacity, libraries->workers);
    libraries->workers = NULL;
    libraries->n_workers = libraries->worker_capacity = 0;
}

static neap_status new_list(cuda_backend *backend, const neap_text *sign,
                            const conv_problem *problem, cudnn_conv_list **list, neap_diag *diag)
{
    cuda_libraries *libraries = backend->libraries;
    cudnn_conv_list *made;
    NEAP_TRY(NEAP_NEW(libraries->allocator, 1, &made, diag));
    neap_cudnn_bag_init(&made->bag, libraries);
    made->problem = *problem;
    neap_status status = NEAP_NEW(libraries->allocator, sign->length + 1, &made->sign, diag);
    if (status == NEAP_OK) {
        made->sign_bytes = sign->length + 1;
        memcpy(made->sign, neap_text_get(sign), made->sign_bytes);
        made->made = !libraries->cudnn;
    }
    if (status == NEAP_OK && libraries->cudnn)
        status = neap_cudnn_list_read(backend, made, &made->made, diag);
    if (status != NEAP_OK) {
        delete_list(libraries, made);
        return status;
    }
    made->next = libraries->convolutions;
    libraries->convolutions = made;
    *list = made;
    return NEAP_OK;
}

/* The list of a spec, which may have to be made yet. */
static neap_status find_list(cuda_backend *backend, const run_spec *spec,
                             const conv_problem *problem, cudnn_conv_list **list, neap_diag *diag)
{
    neap_text sign;
    neap_text_init(&sign, backend->libraries->allocator);
    neap_run_spec_sign(spec, &sign);
    neap_status status = sign.status == NEAP_OK ? NEAP_OK : neap_fail_no_memory(diag);
    *list = NULL;
    for (cudnn_conv_list *l = backend->libraries->convolutions; l && status == NEAP_OK && !*list;
         l = l->next)
        if (strcmp(l->sign, neap_text_get(&sign)) == 0)
            *list = l;
    if (status == NEAP_OK && !*list)
        status = new_list(backend, &sign, problem, list, diag);
    neap_text_clear(&sign);
    return status;
}

/* Makes a list with the handle of `libraries`: all of it, or nothing if that fails or is
   cancelled. */
static neap_status make_list(cuda_backend *backend, cuda_libraries *libraries,
                             cudnn_conv_list *list, neap_progress *progress, neap_diag *diag)
{
    neap_cudnn_bag_init(&list->bag, libraries);
    neap_status status = neap_cudnn_conv_search(backend, &list->problem, progress, list, diag);
    list->made = status == NEAP_OK && !neap_progress_is_cancelled(progress);
    if (list->made && list->count > 0 && !list->bag.lacked_memory) /* else better next time */
        neap_cudnn_list_write(backend, list);
    if (!list->made) {
        neap_cudnn_bag_clear(&list->bag);
        list->count = 0;
    }
    return status;
}

neap_status neap_cudnn_conv_list(cuda_backend *backend, const run_spec *spec,
                                 const conv_problem *problem, cudnn_conv_list **list,
                                 neap_diag *diag)
{
    NEAP_TRY(find_list(backend, spec, problem, list, diag));
    return (*list)->made ? NEAP_OK : make_list(backend, backend->libraries, *list, NULL, diag);
}

neap_status neap_cudnn_conv_announce(cuda_backend *backend, const run_spec *spec,
                                     const conv_problem *problem, neap_diag *diag)
{
    cudnn_conv_list *list;
    return find_list(backend, spec, problem, &list, diag);
}

/* ---- All announced lists at once ---- */

typedef struct list_job {
    neap_job base;
    cuda_backend *backend;
    cudnn_conv_list **lists;
    size_t count;
    atomic_size_t next, done;
    neap_progress *progress;
    double begun;
    atomic_int status;  /* the first failure, */
    atomic_flag failed; /* which has */
    neap_diag diag;     /* its message here */
} list_job;

static void note_failure(list_job *job, neap_status status, const neap_diag *diag)
{
    if (atomic_flag_test_and_set(&job->failed))
        return;
    job->diag = *diag;
    atomic_store(&job->status, (int)status);
}

static void make_some(neap_job *self, neap_team *team, unsigned member)
{
    list_job *job = (list_job *)self;
    cuda_libraries *own = job->backend->libraries;
    (void)team;
    if (member > 0) {
        neap_cuda_enter_device(job->backend);
        own = &own->workers[member - 1];
    }
    for (;;) {
        neap_diag diag = {.message = ""};
        size_t i = atomic_fetch_add(&job->next, 1);
        if (i >= job->count || atomic_load(&job->status) != NEAP_OK ||
            neap_progress_is_cancelled(job->progress))
            return;
        neap_status status = make_list(job->backend, own, job->lists[i], job->progress, &diag);
        if (status != NEAP_OK)
            note_failure(job, status, &diag);
        size_t done = atomic_fetch_add(&job->done, 1) + 1;
        if (member == 0) /* the caller's thread, which reports are for */
            neap_progress_tell(job->progress, "finding algorithms",
                               (double)done / (double)job->count,
                               neap_clock_seconds() - job->begun);
    }
}

/* Handles for so many threads beside the caller's; fewer if cuDNN gives no more. */
static neap_status add_workers(cuda_libraries *libraries, size_t count, neap_diag *diag)
{
    if (libraries->worker_capacity == 0) {
        NEAP_TRY(NEAP_NEW(libraries->allocator, count, &libraries->workers, diag));
        libraries->worker_capacity = count;
    }
    while (libraries->n_workers < libraries->worker_capacity) {
        cuda_libraries *worker = &libraries->workers[libraries->n_workers];
        *worker = (cuda_libraries){
            .api = libraries->api, .allocator = libraries->allocator, .stream = libraries->stream};
        if (libraries->api->cudnnCreate(&worker->cudnn) != 0)
            return NEAP_OK;
        if (libraries->api->cudnnSetStream(worker->cudnn, worker->stream) != 0) {
            libraries->api->cudnnDestroy(worker->cudnn);
            return NEAP_OK;
        }
        libraries->n_workers++;
    }
    return NEAP_OK;
}

static size_t count_missing(const cuda_libraries *libraries, cudnn_conv_list **lists)
{
    size_t count = 0;
    for (cudnn_conv_list *list = libraries->convolutions; list; list = list->next) {
        if (!list->made && lists)
            lists[count] = list;
        count += !list->made;
    }
    return count;
}

neap_status neap_cudnn_conv_make_lists(cuda_backend *backend, neap_progress *progress,
                                       neap_diag *diag)
{
    cuda_libraries *libraries = backend->libraries;
    list_job job = {.base = {make_some},
                    .backend = backend,
                    .failed = ATOMIC_FLAG_INIT,
                    .progress = progress,
                    .begun = neap_clock_seconds()};
    job.count = libraries ? count_missing(libraries, NULL) : 0;
    if (job.count == 0)
        return NEAP_OK;
    NEAP_TRY(NEAP_NEW(libraries->allocator, job.count, &job.lists, diag));
    count_missing(libraries, job.lists);
    unsigned members = neap_team_size(0, (unsigned)(job.count < 64 ? job.count : 64));
    neap_status status = NEAP_OK;
    if (members > 1)
        status = add_workers(libraries, members - 1, diag);
    if (members > libraries->n_workers + 1)
        members = (unsigned)libraries->n_workers + 1;
    if (status == NEAP_OK) {
        neap_team_run(&job.base, members);
        status = (neap_status)atomic_load(&job.status);
        if (status != NEAP_OK && diag)
            *diag = job.diag;
    }
    NEAP_DELETE(libraries->allocator, job.count, job.lists);
    return status;
}
