#include "planners/neap/search.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Beginning and end ---- */

neap_status search_init(search *s, neap_allocator *allocator, const problem *x, int64_t budget,
                        uint64_t seed, neap_diag *diag)
{
    *s = (search){.allocator = allocator,
                  .x = x,
                  .budget = budget - x->base_bytes,
                  .random = seed,
                  .most_ticks = INT64_MAX};
    neap_status status = sequence_init(&s->q, allocator, x, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, x->n_tensors, &s->droppable, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, x->n_tasks, &s->best_choice, diag);
    if (status != NEAP_OK)
        return status;
    for (uint32_t t = 0; t < x->n_tensors; t++)
        if (x->bytes[t] > 0 && tensor_can_recompute(x, t))
            s->droppable[s->n_droppable++] = t;
    return NEAP_OK;
}

void search_clear(search *s)
{
    neap_allocator *a = s->allocator;
    sequence_clear(&s->q);
    if (s->x) {
        NEAP_DELETE(a, s->x->n_tensors, s->droppable);
        NEAP_DELETE(a, s->x->n_tasks, s->best_choice);
    }
    NEAP_DELETE(a, s->all_capacity, s->all);
    NEAP_DELETE(a, s->drop_capacity, s->drops);
    NEAP_DELETE(a, s->rank_capacity, s->ranks);
    NEAP_DELETE(a, s->best_capacity, s->best);
    *s = (search){0};
}

static neap_status keep_if_better(search *s, neap_diag *diag)
{
    if (s->found && s->q.ticks >= s->best_ticks)
        return NEAP_OK;
    neap_status status =
        NEAP_RESERVE(s->allocator, (size_t)s->q.length, &s->best, &s->best_capacity, diag);
    if (status != NEAP_OK)
        return status;
    sequence_list(&s->q, s->best, NULL);
    s->n_best = s->q.length;
    memcpy(s->best_choice, s->q.choice, s->x->n_tasks * sizeof *s->best_choice);
    s->best_ticks = s->q.ticks;
    s->found = true;
    return NEAP_OK;
}

/* ---- The first schedule ---- */

neap_status search_construct(search *s, neap_diag *diag)
{
    s->noise = 0;
    s->most_ticks = INT64_MAX;
    bool fits = search_repair(s);
    if (s->q.out_of_memory)
        return neap_fail_no_memory(diag);
    if (!fits)
        return NEAP_OK;
    search_prune(s);
    sequence_commit(&s->q);
    s->current_ticks = s->q.ticks;
    return keep_if_better(s, diag);
}

static double P(const char*n,double d){const char*v=getenv(n);return v?atof(v):d;}
/* ---- Ruin ---- */

/* Some run of a task that runs more than once; NEAP_NONE: there is none. */
static uint32_t random_rerun(search *s)
{
    const sequence *q = &s->q;
    uint32_t from = neap_random_below(&s->random, q->n_items);
    for (uint32_t k = 0; k < q->n_items; k++) {
        uint32_t id = (from + k) % q->n_items, task = q->items[id].task;
        if (task != NEAP_NONE && q->runs[task] > 1 && sequence_can_remove(q, id))
            return id;
    }
    return NEAP_NONE;
}

/* Takes out runs around one of them. */
static void ruin_window(search *s, uint32_t center)
{
    sequence *q = &s->q;
    uint32_t width = 1 + neap_random_below(&s->random, 1 + q->length / 8);
    double share = 0.3 + 0.7 * neap_random_real(&s->random);
    uint32_t id = center, most = 1 + neap_random_below(&s->random, (uint32_t)P("RR",12));
    for (uint32_t k = 0; k < width / 2 && sequence_previous(q, id) != NEAP_NONE; k++)
        id = sequence_previous(q, id);
    for (uint32_t k = 0; k < width && id != q->end && most > 0; k++) {
        uint32_t next = sequence_next(q, id), task = q->items[id].task;
        bool chosen = id == center || neap_random_real(&s->random) < share;
        if (q->runs[task] > 1 && chosen && sequence_can_remove(q, id)) {
            sequence_remove(q, id);
            most--;
        }
        id = next;
    }
}

/* Takes out runs without which a tensor would wait at some place. */
static void ruin_across(search *s, uint32_t center)
{
    sequence *q = &s->q;
    uint32_t place = sequence_place(q, center), most = 1 + neap_random_below(&s->random, (uint32_t)P("RR2",8));
    uint32_t from = neap_random_below(&s->random, q->n_items);
    if (place == 0)
        return;
    place = neap_random_below(&s->random, place);
    for (uint32_t k = 0; k < q->n_items && most > 0; k++) {
        uint32_t id = (from + k) % q->n_items, task = q->items[id].task;
        if (task == NEAP_NONE || q->runs[task] < 2 || !sequence_can_remove(q, id))
            continue;
        uint32_t tensor = s->x->makes.items[s->x->makes.start[task]];
        uint32_t at = sequence_find_ref(q, tensor, sequence_place(q, id));
        if (at == 0 || sequence_place(q, q->refs[tensor].refs[at - 1].item) > place ||
            sequence_place(q, id) < place)
            continue;
        sequence_remove(q, id);
        most--;
    }
}

/* ---- Iterations ---- */

static bool iterate(search *s)
{
    uint32_t center = random_rerun(s);
    if (center == NEAP_NONE)
        return false;
    static double TT=-1,NN; if(TT<0){TT=P("TT",2e-5);NN=P("NN",0.6);}
    double temperature = TT * (double)s->current_ticks;
    double slack = -log(1 - neap_random_real(&s->random)) * temperature;
    int64_t accepted = s->current_ticks + (int64_t)slack;
    s->most_ticks = accepted + s->current_ticks / 50;
    s->noise = NN * neap_random_real(&s->random);
    s->moods=neap_random_bits(&s->random); s->persistent = neap_random_real(&s->random) < P("PP",0.5);
 s->focus = neap_random_real(&s->random) < P("FF",0) ? (int) neap_random_below(&s->random,3)+1:0;
    if (neap_random_below(&s->random, 3) > 0)
        ruin_window(s, center);
    else
        ruin_across(s, center);
    bool fits = search_repair(s);
    if (fits)
        search_prune(s);
    if (!fits || s->q.ticks > accepted || s->q.out_of_memory) {
        sequence_undo(&s->q, 0);
        return true;
    }
    sequence_commit(&s->q);
    s->current_ticks = s->q.ticks;
    return true;
}

neap_status search_iterate(search *s, uint32_t iterations, bool (*stop)(void *context),
                           void *context, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; i < iterations && status == NEAP_OK && !stop(context); i++) {
        s->iterations++;
        if (!iterate(s))
            break;
        if (s->q.out_of_memory)
            return neap_fail_no_memory(diag);
        status = keep_if_better(s, diag);
    }
    return status;
}
