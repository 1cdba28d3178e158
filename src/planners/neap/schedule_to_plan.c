/*
 * neap_schedule_to_plan: one backward scan over the list finds the last touches of tensors, one
 * forward scan writes the steps.
 *
 * The resident values of a tensor (its owner, views made with it, views made since) are in one list
 * and are freed together, so that either all or none of an op's outputs are resident. A view that
 * no task and no output needs is made once, as soon as its tensor is made for the first time; of an
 * input, at the end, or at the beginning if the input is updated.
 *
 * It decides which values are resident, so it does not use plan/residency.h, which follows given
 * steps.
 *
 * Cost: O(values read and made by the list, the graph, the transfers).
 */
#include "planners/neap/plan_conversion.h"

#include "base/fail.h"

#include <inttypes.h>
#include <stdlib.h>

/* A step of a transfer. */
typedef struct event {
    uint32_t place, turn; /* just before the computation at this position */
    neap_step_kind kind;
    uint32_t transfer;
} event;

typedef struct emission {
    const problem *x;
    const compute_list *list;
    neap_arena arena;
    neap_plan *plan;
    neap_diag *diag;
    bool *resident;             /* by value */
    uint32_t *on_tensor, *next; /* by tensor, by value: the list of resident values */
    bool *ran;                  /* by op: only of views that are not tasks */
    bool *needed;               /* by value: by a task or an output */
    uint32_t *idle, *idle_next; /* by tensor, by op: the list of views that nothing needs */
    uint32_t *left, *left_end;  /* tensors that are freed after each position, the last first */
    bool *in_place;             /* by position */
    uint32_t *ops;              /* a stack: each op is needed by the one below it */
    uint32_t *on_host;          /* values, at the start and at the end */
    uint32_t n_on_host;
    event *events; /* in the order of the plan */
    uint32_t n_events, next_event;
} emission;

static void fill_none(uint32_t *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i] = NEAP_NONE;
}

/* ---- Where tensors are freed: a backward scan meets the last touch first ---- */

static bool find_last_touches(emission *e)
{
    const problem *x = e->x;
    const compute_list *list = e->list;
    const id_lists *touches[2] = {&x->makes, &x->reads};
    size_t n_touches = 0;
    uint32_t n_left = 0;
    bool *needed;
    for (uint32_t p = 0; p < list->n; p++)
        for (int k = 0; k < 2; k++)
            n_touches += touches[k]->start[list->tasks[p] + 1] - touches[k]->start[list->tasks[p]];
    if (n_touches > UINT32_MAX || !NEAP_TAKE(&e->arena, n_touches, e->left) ||
        !NEAP_TAKE(&e->arena, (size_t)list->n + 1, e->left_end) ||
        !NEAP_TAKE(&e->arena, list->n, e->in_place) || !NEAP_TAKE(&e->arena, x->n_tensors, needed))
        return false;
    for (uint32_t t = 0; t < x->n_tensors; t++)
        needed[t] = x->is_output[t];
    for (uint32_t p = list->n; p-- > 0;) {
        uint32_t task = list->tasks[p], passed_on = x->in_place[task];
        e->in_place[p] = passed_on != NEAP_NONE && !needed[passed_on];
        for (int k = 0; k < 2; k++)
            for (uint32_t i = touches[k]->start[task]; i < touches[k]->start[task + 1]; i++) {
                uint32_t t = touches[k]->items[i];
                if (!needed[t] && !(e->in_place[p] && t == passed_on))
                    e->left[n_left++] = t;
                needed[t] = k > 0; /* a make ends the need, a read begins it */
            }
        e->left_end[p] = n_left;
    }
    for (uint32_t i = 0; i < list->n_transfers; i++)
        if (list->transfers[i].over && !list->transfers[i].stays)
            e->in_place[list->transfers[i].after] = true;
    return true;
}

/* ---- Views that no task and no output needs ---- */

static bool makes_needed(const neap_op *op, const bool *needed)
{
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (needed[op->outputs[i]])
            return true;
    return false;
}

static bool find_idle_views(emission *e)
{
    const problem *x = e->x;
    const neap_graph *graph = x->graph;
    uint32_t n_ops = neap_graph_op_count(graph), n_outputs;
    if (!NEAP_TAKE(&e->arena, neap_graph_value_count(graph), e->needed) ||
        !NEAP_TAKE(&e->arena, x->n_tensors, e->idle) || !NEAP_TAKE(&e->arena, n_ops, e->idle_next))
        return false;
    bool *needed = e->needed;
    fill_none(e->idle, x->n_tensors);
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    for (uint32_t i = 0; i < n_outputs; i++)
        needed[outputs[i]] = true;
    for (uint32_t o = n_ops; o-- > 0;) {
        const neap_op *op = neap_graph_op(graph, o);
        if (x->task_of_op[o] != NEAP_NONE || makes_needed(op, needed)) {
            for (uint32_t i = 0; i < op->n_inputs; i++)
                needed[op->inputs[i]] = true;
        } else if (x->tensor_of_value[op->outputs[0]] != NEAP_NONE) {
            uint32_t t = x->tensor_of_value[op->outputs[0]];
            e->idle_next[o] = e->idle[t];
            e->idle[t] = o;
        }
    }
    return true;
}

/* ---- Steps of the transfers, by position ---- */

static int by_turn(const void *left, const void *right)
{
    static const int order[] = {[NEAP_OFFLOAD] = 0, [NEAP_FREE] = 1, [NEAP_PREFETCH] = 2};
    const event *a = left, *b = right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    if (a->kind != b->kind)
        return order[a->kind] - order[b->kind];
    return (a->transfer > b->transfer) - (a->transfer < b->transfer);
}

static void add_event(emission *e, event new)
{
    e->events[e->n_events++] = new;
}

/* A transfer does not copy out a tensor that an earlier one has copied, unless that one stays, or
   the tensor has been updated since. */
static bool list_events(emission *e)
{
    uint8_t *on_host; /* by tensor: 0 not at all, 1 a copy, 2 one of the updated state */
    if (e->list->n_transfers == 0)
        return true;
    if (!NEAP_TAKE(&e->arena, problem_n_all(e->x), on_host) ||
        !NEAP_TAKE(&e->arena, 3 * (size_t)e->list->n_transfers, e->events))
        return false;
    for (uint32_t i = 0; i < e->list->n_transfers; i++) {
        const transfer *t = &e->list->transfers[i];
        if (t->stays)
            continue;
        uint8_t version = 1 + t->updated;
        if (!t->leads && (t->copies_out || on_host[t->tensor] < version))
            add_event(e, (event){t->copied + 1, t->copy_turn, NEAP_OFFLOAD, i});
        on_host[t->tensor] = version;
        if (!t->leads && !t->over)
            add_event(e, (event){t->freed, t->free_turn, NEAP_FREE, i});
        if (!t->ends)
            add_event(e, (event){t->fetched, t->fetch_turn, NEAP_PREFETCH, i});
    }
    qsort(e->events, e->n_events, sizeof *e->events, by_turn);
    return true;
}

/* ---- Steps ---- */

static void set_resident(emission *e, uint32_t value)
{
    uint32_t state = e->x->state_of_value[value],
             t = state != NEAP_NONE ? state : e->x->tensor_of_value[value];
    e->resident[value] = true;
    if (t == NEAP_NONE)
        return;
    e->next[value] = e->on_tensor[t];
    e->on_tensor[t] = value;
}

static neap_status write_compute(emission *e, uint32_t o, uint32_t variant, bool in_place)
{
    const neap_op *op = neap_graph_op(e->x->graph, o);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        set_resident(e, op->outputs[i]);
    return neap_plan_append(e->plan, (neap_step){NEAP_COMPUTE, o, variant, in_place}, e->diag);
}

/* Frees the values of a tensor; one of them may be left out (or NEAP_NONE), because the next step
   writes over it. */
static neap_status write_free(emission *e, uint32_t tensor, uint32_t written_over)
{
    for (uint32_t v = e->on_tensor[tensor]; v != NEAP_NONE; v = e->next[v]) {
        e->resident[v] = false;
        if (v != written_over)
            NEAP_TRY(neap_plan_append(e->plan, (neap_step){NEAP_FREE, v, 0, false}, e->diag));
    }
    e->on_tensor[tensor] = NEAP_NONE;
    return NEAP_OK;
}

static uint32_t free_variant(const neap_op *op)
{
    uint32_t i = 0;
    while (op->variants[i].ticks != 0 || op->variants[i].workspace != 0)
        i++;
    return i;
}

static uint32_t missing_input(const emission *e, const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (!e->resident[op->inputs[i]])
            return op->inputs[i];
    return NEAP_NONE;
}

/* Runs an op that makes a free view, and before it those that it needs. */
static neap_status make_view(emission *e, uint32_t o)
{
    const problem *x = e->x;
    uint32_t depth = 0;
    e->ops[depth++] = o;
    while (depth > 0) {
        uint32_t top = e->ops[depth - 1];
        const neap_op *op = neap_graph_op(x->graph, top);
        if (x->task_of_op[top] != NEAP_NONE)
            return neap_fail(e->diag, NEAP_INVALID,
                             "an output of op %" PRIu32 " \"%s\" is needed but not resident", top,
                             op->name);
        uint32_t missing = missing_input(e, op);
        if (missing != NEAP_NONE) {
            e->ops[depth++] = neap_graph_value(x->graph, missing)->producer;
            continue;
        }
        NEAP_TRY(write_compute(e, top, free_variant(op), false));
        e->ran[top] = true;
        depth--;
    }
    return NEAP_OK;
}

static neap_status need_value(emission *e, uint32_t value)
{
    const neap_value *v = neap_graph_value(e->x->graph, value);
    return e->resident[value] ? NEAP_OK : make_view(e, v->producer);
}

static neap_status write_task(emission *e, uint32_t p)
{
    const problem *x = e->x;
    uint32_t task = e->list->tasks[p];
    const neap_op *op = neap_graph_op(x->graph, x->task_op[task]);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        NEAP_TRY(need_value(e, op->inputs[i]));
    uint32_t choice = e->list->choice ? e->list->choice[task] : 0;
    uint32_t variant = x->variants[x->variant_start[task] + choice].index;
    if (e->in_place[p])
        NEAP_TRY(write_free(e, x->in_place[task], op->in_place_input));
    NEAP_TRY(write_compute(e, x->task_op[task], variant, e->in_place[p]));
    for (uint32_t i = x->makes.start[task]; i < x->makes.start[task + 1]; i++) {
        uint32_t t = x->makes.items[i], o = e->idle[t];
        e->idle[t] = NEAP_NONE;
        for (; o != NEAP_NONE; o = e->idle_next[o])
            NEAP_TRY(make_view(e, o));
    }
    return NEAP_OK;
}

/* The steps of transfers just before a position. */
static neap_status write_events(emission *e, uint32_t p)
{
    for (; e->next_event < e->n_events && e->events[e->next_event].place <= p; e->next_event++) {
        const event *now = &e->events[e->next_event];
        uint32_t tensor = e->list->transfers[now->transfer].tensor,
                 value = e->x->tensor_value[tensor];
        if (now->kind == NEAP_FREE) {
            NEAP_TRY(write_free(e, tensor, NEAP_NONE));
            continue;
        }
        NEAP_TRY(neap_plan_append(e->plan, (neap_step){now->kind, value, 0, false}, e->diag));
        if (now->kind == NEAP_PREFETCH)
            set_resident(e, value);
    }
    return NEAP_OK;
}

/* The outputs that are views, and the remaining views of inputs. */
static neap_status write_rest(emission *e)
{
    const problem *x = e->x;
    const neap_graph *graph = x->graph;
    uint32_t n_outputs;
    const uint32_t *outputs = neap_graph_outputs(graph, &n_outputs);
    for (uint32_t i = 0; i < n_outputs; i++)
        NEAP_TRY(need_value(e, outputs[i]));
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (x->task_of_op[o] == NEAP_NONE && !e->ran[o])
            NEAP_TRY(make_view(e, o));
    return NEAP_OK;
}

/* Views of what is updated later, if nothing needs them. */
static neap_status write_first_views(emission *e)
{
    const problem *x = e->x;
    for (uint32_t o = 0; o < neap_graph_op_count(x->graph) && x->has_updates; o++) {
        const neap_op *op = neap_graph_op(x->graph, o);
        if (x->task_of_op[o] == NEAP_NONE && !makes_needed(op, e->needed) &&
            x->state_of_value[op->outputs[0]] == NEAP_NONE &&
            x->updater[neap_graph_value(x->graph, op->outputs[0])->storage] != NEAP_NONE)
            NEAP_TRY(make_view(e, o));
    }
    return NEAP_OK;
}

static neap_status write_steps(emission *e)
{
    NEAP_TRY(write_first_views(e));
    for (uint32_t p = 0; p < e->list->n; p++) {
        NEAP_TRY(write_events(e, p));
        NEAP_TRY(write_task(e, p));
        for (uint32_t i = e->left_end[p + 1]; i < e->left_end[p]; i++)
            NEAP_TRY(write_free(e, e->left[i], NEAP_NONE));
    }
    NEAP_TRY(write_events(e, e->list->n));
    return write_rest(e);
}

/* ---- The whole plan ---- */

static bool prepare(emission *e)
{
    const problem *x = e->x;
    const neap_graph *graph = x->graph;
    uint32_t n_values = neap_graph_value_count(graph), n_ops = neap_graph_op_count(graph);
    if (!NEAP_TAKE(&e->arena, n_values, e->resident) || !NEAP_TAKE(&e->arena, n_values, e->next) ||
        !NEAP_TAKE(&e->arena, problem_n_all(x), e->on_tensor) ||
        !NEAP_TAKE(&e->arena, n_ops, e->ran) || !NEAP_TAKE(&e->arena, n_ops, e->ops) ||
        !NEAP_TAKE(&e->arena, x->n_states, e->on_host))
        return false;
    fill_none(e->on_tensor, problem_n_all(x));
    for (uint32_t i = 0; i < e->list->n_transfers; i++) {
        const transfer *t = &e->list->transfers[i];
        if (t->leads)
            e->on_host[e->n_on_host++] = x->tensor_value[t->tensor];
    }
    for (uint32_t v = 0; v < n_values; v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            set_resident(e, v);
    for (uint32_t i = 0; i < e->n_on_host; i++) {
        e->resident[e->on_host[i]] = false;
        e->on_tensor[x->state_of_value[e->on_host[i]]] = NEAP_NONE;
    }
    return find_last_touches(e) && find_idle_views(e) && list_events(e);
}

neap_status neap_schedule_to_plan(neap_allocator *allocator, const problem *x,
                                  const neap_request *request, const compute_list *list,
                                  neap_plan **plan, neap_diag *diag)
{
    emission e = {.x = x, .list = list, .diag = diag};
    neap_arena_init(&e.arena, allocator);
    neap_status status = prepare(&e) ? NEAP_OK : neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = neap_plan_create(allocator, neap_graph_name(x->graph), request->method,
                                  request->budget, &e.plan, diag);
    if (status == NEAP_OK && e.n_on_host > 0)
        status = neap_plan_set_host_at_start(e.plan, e.on_host, e.n_on_host, diag);
    if (status == NEAP_OK)
        status = write_steps(&e);
    *plan = status == NEAP_OK ? e.plan : NULL;
    if (status != NEAP_OK)
        neap_plan_destroy(e.plan);
    neap_arena_clear(&e.arena);
    return status;
}
