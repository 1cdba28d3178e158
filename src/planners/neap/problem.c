#include "planners/neap/problem.h"

#include "base/fail.h"
#include "base/name_pattern.h"
#include "planners/neap/task_order.h"

#include <neap/split.h>

#include <stdlib.h>
#include <string.h>

/* ---- Which ops are tasks ---- */

static bool costs_nothing(const neap_op *op)
{
    for (uint32_t i = 0; i < op->n_variants; i++)
        if (op->variants[i].ticks == 0 && op->variants[i].workspace == 0)
            return true;
    return false;
}

/* A view that a task makes on another op's storage. */
static bool is_costly_view(const problem *x, uint32_t value)
{
    const neap_value *v = neap_graph_value(x->graph, value);
    return v->storage != value && v->producer != NEAP_NONE &&
           x->task_of_op[v->producer] != NEAP_NONE &&
           neap_graph_value(x->graph, v->storage)->producer != v->producer;
}

/* Whether a value must be there when its storage has been overwritten. */
static bool is_used_after_update(const problem *x, uint32_t value)
{
    uint32_t n_readers;
    const uint32_t *readers = neap_graph_readers(x->graph, value, &n_readers);
    if (neap_graph_is_output(x->graph, value))
        return true;
    for (uint32_t i = 0; i < n_readers; i++)
        if (neap_graph_op(x->graph, readers[i])->n_updates > 0)
            return true;
    return false;
}

/* Whether the op makes only views on one storage, from that storage and inputs alone. A view of a
   costly view cannot be recomputed wherever it is needed: it is costly too. So is a view of state
   that is needed when the state has been updated, or one that needs other state. */
static bool is_free_view(const problem *x, const neap_op *op)
{
    if (op->n_outputs == 0 || op->n_updates > 0 || !costs_nothing(op))
        return false;
    uint32_t storage = neap_graph_value(x->graph, op->outputs[0])->storage;
    for (uint32_t i = 0; i < op->n_outputs && x->updater[storage] != NEAP_NONE; i++)
        if (is_used_after_update(x, op->outputs[i]))
            return false;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (storage == op->outputs[i] ||
            neap_graph_value(x->graph, op->outputs[i])->storage != storage)
            return false;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        uint32_t root = neap_graph_value(x->graph, op->inputs[i])->storage;
        bool is_input = neap_graph_value(x->graph, root)->producer == NEAP_NONE;
        bool is_state = neap_graph_value(x->graph, root)->state;
        if ((root != storage && (!is_input || is_state)) || is_costly_view(x, op->inputs[i]))
            return false;
    }
    return true;
}

/* ---- Tasks and tensors ---- */

static bool number_tasks(problem *x, bool in_graph_order)
{
    uint32_t n_ops = neap_graph_op_count(x->graph), *order;
    if (!NEAP_TAKE(&x->arena, n_ops, x->task_of_op) || !NEAP_TAKE(&x->arena, n_ops, x->task_op) ||
        !NEAP_TAKE(&x->arena, n_ops, x->is_update) || !NEAP_TAKE(&x->arena, n_ops, order) ||
        !neap_find_updaters(x->graph, &x->arena, &x->updater))
        return false;
    /* An op is known to be a task, or not, before those that read its views. */
    for (uint32_t o = 0; o < n_ops; o++) {
        order[o] = o;
        x->task_of_op[o] = is_free_view(x, neap_graph_op(x->graph, o)) ? NEAP_NONE : o;
    }
    if (!in_graph_order && !neap_task_order(x->graph, x->updater, x->arena.allocator, order))
        return false;
    for (uint32_t i = 0; i < n_ops; i++) {
        uint32_t o = order[i];
        if (x->task_of_op[o] == NEAP_NONE)
            continue;
        x->is_update[x->n_tasks] = neap_graph_op(x->graph, o)->n_updates > 0;
        x->has_updates = x->has_updates || x->is_update[x->n_tasks];
        x->task_of_op[o] = x->n_tasks;
        x->task_op[x->n_tasks++] = o;
    }
    for (uint32_t v = 0; v < neap_graph_value_count(x->graph); v++)
        if (x->updater[v] != NEAP_NONE)
            x->updater[v] = x->task_of_op[x->updater[v]];
    return true;
}

static void add_tensor(problem *x, uint32_t value)
{
    const neap_value *v = neap_graph_value(x->graph, value);
    uint32_t t = x->n_tensors++;
    x->tensor_of_value[value] = t;
    x->tensor_value[t] = value;
    x->bytes[t] = v->storage == value ? v->bytes : 0;
    x->producer[t] = x->task_of_op[v->producer];
}

/* Roots and costly views are tensors; free views and an op's views of its own storages are not. */
static bool number_tensors(problem *x)
{
    const neap_graph *graph = x->graph;
    uint32_t n_values = neap_graph_value_count(graph);
    if (!NEAP_TAKE(&x->arena, n_values, x->tensor_of_value) ||
        !NEAP_TAKE(&x->arena, n_values, x->tensor_value) ||
        !NEAP_TAKE(&x->arena, n_values, x->bytes) || !NEAP_TAKE(&x->arena, n_values, x->producer) ||
        !NEAP_TAKE(&x->arena, n_values, x->is_output) || !NEAP_TAKE(&x->arena, n_values, x->pins))
        return false;
    for (uint32_t v = 0; v < n_values; v++)
        x->tensor_of_value[v] = NEAP_NONE;
    for (uint32_t v = 0; v < n_values; v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if ((value->storage == v && value->producer != NEAP_NONE) || is_costly_view(x, v))
            add_tensor(x, v);
    }
    for (uint32_t v = 0; v < n_values; v++) {
        const neap_value *value = neap_graph_value(graph, v);
        uint32_t root = x->tensor_of_value[value->storage];
        if (value->storage == v)
            continue;
        if (x->tensor_of_value[v] == NEAP_NONE) {
            x->tensor_of_value[v] = root;
        } else {
            x->pins[x->tensor_of_value[v]] = TENSOR_NO_RECOMPUTE | TENSOR_NO_OFFLOAD;
            if (root != NEAP_NONE)
                x->pins[root] = TENSOR_NO_RECOMPUTE | TENSOR_NO_OFFLOAD;
        }
        /* A prefetch restores the owner only, not a view that the same op made. */
        if (value->producer != NEAP_NONE &&
            value->producer == neap_graph_value(graph, value->storage)->producer)
            x->pins[x->tensor_of_value[v]] |= TENSOR_NO_OFFLOAD;
    }
    return true;
}

static int ascending(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

uint32_t neap_problem_sort_unique(uint32_t *items, uint32_t from, uint32_t end)
{
    if (end - from < 2)
        return end;
    qsort(items + from, end - from, sizeof *items, ascending);
    uint32_t kept = from + 1;
    for (uint32_t i = from + 1; i < end; i++)
        if (items[i] != items[kept - 1])
            items[kept++] = items[i];
    return kept;
}

/* The tensors of a value: its own and, for a costly view, the storage's. */
static uint32_t tensors_of(const problem *x, uint32_t value, uint32_t found[2])
{
    uint32_t n = 0, own = x->tensor_of_value[value];
    if (own != NEAP_NONE)
        found[n++] = own;
    uint32_t root = x->tensor_of_value[neap_graph_value(x->graph, value)->storage];
    if (root != NEAP_NONE && root != own)
        found[n++] = root;
    return n;
}

static bool list_tensors(problem *x)
{
    size_t n_items = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        const neap_op *op = neap_graph_op(x->graph, x->task_op[k]);
        n_items += 2 * ((size_t)op->n_inputs + op->n_outputs);
    }
    if (!NEAP_TAKE(&x->arena, (size_t)x->n_tasks + 1, x->makes.start) ||
        !NEAP_TAKE(&x->arena, (size_t)x->n_tasks + 1, x->reads.start) ||
        !NEAP_TAKE(&x->arena, n_items, x->makes.items) ||
        !NEAP_TAKE(&x->arena, n_items, x->reads.items) ||
        !NEAP_TAKE(&x->arena, x->n_tasks, x->made_bytes) ||
        !NEAP_TAKE(&x->arena, x->n_tasks, x->read_bytes))
        return false;
    uint32_t n_makes = 0, n_reads = 0, found[2];
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        const neap_op *op = neap_graph_op(x->graph, x->task_op[k]);
        for (uint32_t i = 0; i < op->n_outputs; i++)
            for (uint32_t j = tensors_of(x, op->outputs[i], found); j-- > 0;) {
                if (x->producer[found[j]] == k)
                    x->makes.items[n_makes++] = found[j];
                else
                    x->reads.items[n_reads++] = found[j];
            }
        for (uint32_t i = 0; i < op->n_inputs; i++)
            for (uint32_t j = tensors_of(x, op->inputs[i], found); j-- > 0;)
                x->reads.items[n_reads++] = found[j];
        x->makes.start[k + 1] = n_makes =
            neap_problem_sort_unique(x->makes.items, x->makes.start[k], n_makes);
        x->reads.start[k + 1] = n_reads =
            neap_problem_sort_unique(x->reads.items, x->reads.start[k], n_reads);
        for (uint32_t i = x->makes.start[k]; i < n_makes; i++)
            x->made_bytes[k] += x->bytes[x->makes.items[i]];
        for (uint32_t i = x->reads.start[k]; i < n_reads; i++)
            x->read_bytes[k] += x->bytes[x->reads.items[i]];
    }
    return true;
}

static void mark_outputs(problem *x)
{
    uint32_t n_outputs, found[2];
    const uint32_t *outputs = neap_graph_outputs(x->graph, &n_outputs);
    for (uint32_t i = 0; i < n_outputs; i++)
        for (uint32_t j = tensors_of(x, outputs[i], found); j-- > 0;)
            x->is_output[found[j]] = true;
}

/* ---- Updates ---- */

/* `updated_by`, from what tasks without updates read. */
static bool list_updates(problem *x)
{
    size_t n_items = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < x->n_tasks && x->has_updates; k++)
        n_items += neap_graph_op(x->graph, x->task_op[k])->n_inputs;
    if (!NEAP_TAKE(&x->arena, (size_t)x->n_tasks + 1, x->updated_by.start) ||
        !NEAP_TAKE(&x->arena, n_items, x->updated_by.items))
        return false;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        const neap_op *op = neap_graph_op(x->graph, x->task_op[k]);
        for (uint32_t i = 0; i < op->n_inputs && !x->is_update[k]; i++) {
            uint32_t by = x->updater[neap_graph_value(x->graph, op->inputs[i])->storage];
            if (by != NEAP_NONE)
                x->updated_by.items[n++] = by;
        }
        n = neap_problem_sort_unique(x->updated_by.items, x->updated_by.start[k], n);
        x->updated_by.start[k + 1] = n;
    }
    return true;
}

/* The inverse of lists by task: where[item] has the tasks whose lists have it. */
static bool invert(problem *x, const id_lists *lists, uint32_t n_lists, id_lists *where)
{
    uint32_t n_items = lists->start[x->n_tasks];
    if (!NEAP_TAKE(&x->arena, (size_t)n_lists + 1, where->start) ||
        !NEAP_TAKE(&x->arena, n_items, where->items))
        return false;
    for (uint32_t i = 0; i < n_items; i++)
        where->start[lists->items[i]]++;
    for (uint32_t t = 0; t < n_lists; t++) /* the ends of the lists, which fill backwards */
        where->start[t + 1] += where->start[t];
    for (uint32_t k = x->n_tasks; k-- > 0;)
        for (uint32_t i = lists->start[k]; i < lists->start[k + 1]; i++)
            where->items[--where->start[lists->items[i]]] = k;
    return true;
}

/* ---- Runs in place ---- */

/* The tensor that an op may write over. Before the request's pins are applied, only costly views
   pin tensors: a plan may run an op again while such a view of its output is resident. */
static uint32_t find_in_place(const problem *x, const neap_op *op)
{
    if (op->in_place_input == NEAP_NONE)
        return NEAP_NONE;
    const neap_value *from = neap_graph_value(x->graph, op->in_place_input);
    const neap_value *to = neap_graph_value(x->graph, op->in_place_output);
    uint32_t storage = from->storage, tensor = x->tensor_of_value[storage];
    if (tensor == NEAP_NONE || x->tensor_of_value[op->in_place_input] != tensor ||
        to->storage != op->in_place_output || x->bytes[tensor] != to->bytes || to->bytes == 0)
        return NEAP_NONE;
    if ((x->pins[tensor] | x->pins[x->tensor_of_value[op->in_place_output]]) & TENSOR_NO_RECOMPUTE)
        return NEAP_NONE;
    for (uint32_t i = 0; i < op->n_outputs; i++)
        if (neap_graph_value(x->graph, op->outputs[i])->storage == storage)
            return NEAP_NONE;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (op->inputs[i] != op->in_place_input &&
            neap_graph_value(x->graph, op->inputs[i])->storage == storage)
            return NEAP_NONE;
    return tensor;
}

static bool mark_in_place(problem *x)
{
    if (!NEAP_TAKE(&x->arena, x->n_tasks, x->in_place) ||
        !NEAP_TAKE(&x->arena, neap_graph_value_count(x->graph), x->may_pass_on))
        return false;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        x->in_place[k] = find_in_place(x, neap_graph_op(x->graph, x->task_op[k]));
        if (x->in_place[k] == NEAP_NONE)
            continue;
        x->may_pass_on[x->in_place[k]] = true;
        x->n_in_place++;
    }
    return true;
}

void neap_problem_forget_in_place(problem *x)
{
    x->n_in_place = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        x->in_place[k] = NEAP_NONE;
    for (uint32_t t = 0; t < x->n_tensors; t++)
        x->may_pass_on[t] = false;
}

/* ---- Variants ---- */

static int faster(const void *left, const void *right)
{
    const task_variant *a = left, *b = right;
    if (a->ticks != b->ticks)
        return a->ticks < b->ticks ? -1 : 1;
    if (a->workspace != b->workspace)
        return a->workspace < b->workspace ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static bool list_variants(problem *x)
{
    size_t n_items = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        n_items += neap_graph_op(x->graph, x->task_op[k])->n_variants;
    if (!NEAP_TAKE(&x->arena, n_items, x->variants) ||
        !NEAP_TAKE(&x->arena, (size_t)x->n_tasks + 1, x->variant_start))
        return false;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        const neap_op *op = neap_graph_op(x->graph, x->task_op[k]);
        task_variant *all = &x->variants[n];
        for (uint32_t i = 0; i < op->n_variants; i++)
            all[i] = (task_variant){op->variants[i].ticks, op->variants[i].workspace, i};
        qsort(all, op->n_variants, sizeof *all, faster);
        uint32_t kept = 1;
        for (uint32_t i = 1; i < op->n_variants; i++)
            if (all[i].workspace < all[kept - 1].workspace)
                all[kept++] = all[i];
        n += kept;
        x->variant_start[k + 1] = n;
        x->least_ticks += task_ticks(x, k);
    }
    return true;
}

void neap_problem_forget_variants(problem *x, int64_t budget)
{
    uint32_t n = 0, begin = 0;
    x->least_ticks = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        uint32_t end = x->variant_start[k + 1], v = begin;
        int64_t room = budget - x->base_bytes - x->made_bytes[k] - x->read_bytes[k] -
                       x->state_read_bytes[k] + task_in_place_bytes(x, k);
        while (v + 1 < end && x->variants[v].workspace > room)
            v++;
        for (; v < end; v++)
            x->variants[n++] = x->variants[v];
        begin = end;
        x->variant_start[k + 1] = n;
        x->least_ticks += task_ticks(x, k);
    }
}

/* ---- Pins ---- */

/* The name of the value that a value is a piece of. */
static const char *whole_name(const neap_graph *graph, uint32_t value)
{
    return neap_graph_value(neap_graph_whole(graph), neap_graph_whole_value(graph, value))->name;
}

/* A free view is recomputed whenever its storage returns from the host. If it may be computed only
   once, the storage must stay. */
static void pin_value(problem *x, uint32_t value, uint8_t flags)
{
    uint32_t producer = neap_graph_value(x->graph, value)->producer;
    if (x->tensor_of_value[value] == NEAP_NONE) {
        x->pinned_input[value] = x->pinned_input[value] || (flags & TENSOR_NO_OFFLOAD) != 0;
        return;
    }
    if ((flags & TENSOR_NO_RECOMPUTE) && x->task_of_op[producer] == NEAP_NONE)
        flags |= TENSOR_NO_OFFLOAD;
    x->pins[x->tensor_of_value[value]] |= flags;
}

static neap_status apply_pin(problem *x, const neap_pin *pin, neap_diag *diag)
{
    static const struct {
        const char *name;
        uint8_t flags;
    } kinds[] = {[NEAP_PIN_KEEP] = {"keep", TENSOR_NO_RECOMPUTE | TENSOR_NO_OFFLOAD},
                 [NEAP_PIN_NO_RECOMPUTE] = {"never recompute", TENSOR_NO_RECOMPUTE},
                 [NEAP_PIN_NO_OFFLOAD] = {"never offload", TENSOR_NO_OFFLOAD}};
    const neap_graph *graph = x->graph;
    unsigned kind = pin->kind <= NEAP_PIN_NO_OFFLOAD ? pin->kind : NEAP_PIN_KEEP;
    bool any = false;
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_name_matches(pin->pattern, neap_graph_value(graph, v)->name) ||
            neap_name_matches(pin->pattern, whole_name(graph, v))) {
            any = true;
            pin_value(x, v, kinds[kind].flags);
        }
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++) {
        const neap_op *op = neap_graph_op(graph, o);
        if (!neap_name_matches(pin->pattern, op->name))
            continue;
        any = true;
        for (uint32_t i = 0; i < op->n_outputs; i++)
            pin_value(x, op->outputs[i], kinds[kind].flags);
    }
    if (!any)
        return neap_fail(diag, NEAP_INVALID,
                         "%s \"%s\": no op or value has such a name; `*` and `?` stand for any "
                         "characters",
                         kinds[kind].name, pin->pattern);
    return NEAP_OK;
}

/* A task that must not recompute one of its tensors recomputes none; nor does an update. */
static void spread_pins(problem *x)
{
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        uint8_t flags = 0;
        if (x->is_update[k])
            flags = TENSOR_NO_RECOMPUTE;
        for (uint32_t i = x->makes.start[k]; i < x->makes.start[k + 1]; i++)
            flags |= x->pins[x->makes.items[i]] & TENSOR_NO_RECOMPUTE;
        for (uint32_t i = x->makes.start[k]; i < x->makes.start[k + 1]; i++)
            x->pins[x->makes.items[i]] |= flags;
    }
}

/* ---- Interface ---- */

static neap_status init(problem *x, neap_allocator *allocator, const neap_request *request,
                        bool in_graph_order, neap_diag *diag)
{
    *x = (problem){.graph = request->graph,
                   .state_place = request->state,
                   .base_bytes = neap_graph_base_bytes(request->graph)};
    neap_arena_init(&x->arena, allocator);
    if (!number_tasks(x, in_graph_order) || !number_tensors(x) || !list_tensors(x) ||
        !invert(x, &x->reads, x->n_tensors, &x->readers) || !list_updates(x) ||
        !invert(x, &x->updated_by, x->n_tasks, &x->before) || !mark_in_place(x) ||
        !list_variants(x) || !neap_problem_begin_states(x))
        return neap_fail_no_memory(diag);
    mark_outputs(x);
    for (uint32_t i = 0; i < request->n_pins; i++)
        NEAP_TRY(apply_pin(x, &request->pins[i], diag));
    spread_pins(x);
    return NEAP_OK;
}

neap_status neap_problem_init(problem *x, neap_allocator *allocator, const neap_request *request,
                              neap_diag *diag)
{
    return init(x, allocator, request, false, diag);
}

neap_status neap_problem_init_in_graph_order(problem *x, neap_allocator *allocator,
                                             const neap_request *request, neap_diag *diag)
{
    return init(x, allocator, request, true, diag);
}

/* ---- Roles ---- */

/* What certainly runs before a task that does. */
static void mark_before(const problem *x, uint32_t task, uint8_t *role)
{
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        role[x->producer[x->reads.items[i]]] = ROLE_PAST;
    for (uint32_t i = x->before.start[task]; i < x->before.start[task + 1]; i++)
        role[x->before.items[i]] = ROLE_PAST;
}

static bool follows_future(const problem *x, uint32_t task, const uint8_t *role)
{
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        if (role[x->producer[x->reads.items[i]]] == ROLE_FUTURE)
            return true;
    for (uint32_t i = x->before.start[task]; i < x->before.start[task + 1]; i++)
        if (role[x->before.items[i]] == ROLE_FUTURE)
            return true;
    return false;
}

/* In the graph's order, the tasks that are not updates follow each other; `chained`: one of them is
   in the past, or the future, and so are the rest on that side. */
void neap_problem_mark_roles(const problem *x, uint32_t task, cut_scope scope, uint8_t *role)
{
    bool in_order = scope == CUT_GRAPH_ORDER, chained = false;
    memset(role, ROLE_UNKNOWN, x->n_tasks);
    role[task] = ROLE_PAST; /* temporarily; readers come after producers */
    for (uint32_t k = task + 1; k-- > 0;) {
        if (chained && !x->is_update[k])
            role[k] = ROLE_PAST;
        if (role[k] != ROLE_PAST)
            continue;
        mark_before(x, k, role);
        chained |= in_order && !x->is_update[k];
    }
    role[task] = ROLE_FUTURE;
    chained = in_order && !x->is_update[task];
    for (uint32_t k = task + 1; k < x->n_tasks; k++) {
        if ((chained && !x->is_update[k]) || follows_future(x, k, role))
            role[k] = ROLE_FUTURE;
        chained |= in_order && !x->is_update[k] && role[k] == ROLE_FUTURE;
    }
}

void neap_problem_clear(problem *x)
{
    neap_arena_clear(&x->arena);
}
