#include "planners/neap/bound_thread.h"

#include <string.h>

static bool is_over(void *context)
{
    bound_thread *t = context;
    return atomic_load(&t->leaves) || t->stop(t->context);
}

static void publish(bound_thread *t, neap_status status)
{
    const bound_figures *figures = neap_bound_state(t->bound);
    pthread_mutex_lock(&t->lock);
    if (figures->position != NEAP_NONE && figures->order_ticks > t->figures.order_ticks) {
        memcpy(t->fates, figures->fates, t->n_tensors);
        memcpy(t->loose, figures->loose, t->n_tensors);
        t->has_cut = true;
    }
    t->figures = *figures;
    t->status = status;
    pthread_mutex_unlock(&t->lock);
}

static void *improve(void *argument)
{
    bound_thread *t = argument;
    neap_status status = NEAP_OK;
    while (status == NEAP_OK && !neap_bound_state(t->bound)->done && !is_over(t)) {
        status = neap_bound_improve(t->bound, is_over, t, &t->diag);
        publish(t, status);
    }
    return NULL;
}

void neap_bound_thread_begin(bound_thread *t, bound *b, const problem *x, uint8_t *fates,
                             uint8_t *loose, bool (*stop)(void *context), void *context)
{
    *t = (bound_thread){.bound = b,
                        .n_tensors = x->n_tensors,
                        .fates = fates,
                        .loose = loose,
                        .stop = stop,
                        .context = context,
                        .figures = *neap_bound_state(b)};
    if (pthread_mutex_init(&t->lock, NULL) != 0)
        return;
    t->runs = pthread_create(&t->thread, NULL, improve, t) == 0;
    if (!t->runs)
        pthread_mutex_destroy(&t->lock);
}

bound_figures neap_bound_thread_look(bound_thread *t, uint8_t *fates, uint8_t *loose, bool *has_cut)
{
    pthread_mutex_lock(&t->lock);
    bound_figures figures = t->figures;
    *has_cut = t->has_cut;
    if (t->has_cut) {
        memcpy(fates, t->fates, t->n_tensors);
        memcpy(loose, t->loose, t->n_tensors);
    }
    t->has_cut = false;
    pthread_mutex_unlock(&t->lock);
    return figures;
}

neap_status neap_bound_thread_end(bound_thread *t, neap_diag *diag)
{
    if (!t->runs)
        return NEAP_OK;
    atomic_store(&t->leaves, true);
    pthread_join(t->thread, NULL);
    pthread_mutex_destroy(&t->lock);
    t->runs = false;
    if (t->status != NEAP_OK)
        *diag = t->diag;
    return t->status;
}
