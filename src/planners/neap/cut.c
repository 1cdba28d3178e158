#include "planners/neap/cut.h"

#include "planners/neap/max_flow.h"
#include "planners/neap/price_master.h"

#include <math.h>
#include <string.h>

enum { UNTOUCHED = 0, NEEDED, DEMANDED, RESIDENT }; /* states of tensors, see build_network */
enum { MOST_PRICES = 40, MOST_LINES = 60 };

static const int64_t INFINITE = INT64_C(1) << 62;

static const double DOWN = 1 - 0x1p-50, UP = 1 + 0x1p-50; /* more than a product's rounding error */

/* A tensor that is kept (or offloaded), or a task that runs again, if the arc is cut. */
typedef struct cut_item {
    uint32_t id, arc;
} cut_item;

/* Cost of one cut: ticks of recomputation, bytes kept, copies of what is on the host. Without a
   link every plan takes at least least_ticks + ticks + price * (bytes - room), for every price. */
typedef struct cut_line {
    int64_t ticks, bytes;
    copy_sums copies;
} cut_line;

/* The price per byte, and the weights of the inequalities, which sum to at most 1; from these, the
   prices of ticks. */
typedef struct cut_prices {
    double bytes, weights[MASTER_TIMES];
    double again;
    double in_before, out_before, in_after, out_after, in_either, out_either;
} cut_prices;

/* State at the task: kept, or absent at the lower of two costs. */
typedef struct state_choice {
    int64_t bytes;
    copy_sums from_device, from_host;
} state_choice;

struct cut {
    const problem *x;
    int64_t budget;
    cut_choices choices;
    const time_row *rows;
    int n_rows;
    uint8_t *role;       /* by task */
    bool *is_over;       /* by task: it cannot run again after the task, because of an update */
    uint32_t *task_node; /* by task; NEAP_NONE: not in the network */
    uint8_t *state;      /* by tensor */
    uint32_t *tensor_node;
    uint8_t *fates;         /* of the cut that fits */
    uint8_t *loose;         /* of the cut that keeps slightly too much */
    uint32_t *stack, depth; /* tasks whose reads are to be demanded */
    max_flow flow;
    cut_item *kept, *reruns;
    uint32_t n_kept, n_reruns;
    state_choice *states;
    uint32_t n_states;
    const cut_watch *watch;
    /* of the present network */
    copy_sums certain;          /* copies of state that begins on the host, present or absent */
    int64_t base[MASTER_TIMES]; /* least ticks of the inequalities */
    int64_t room;               /* for tensors that need not be resident */
    int64_t bytes;              /* kept if nothing runs again and nothing is offloaded */
    int shift;                  /* capacities are ticks * 2^shift */
    int64_t limit;              /* of a capacity */
    uint64_t work;
};

/* ---- Creation ---- */

cut *neap_cut_create(neap_arena *arena, const problem *x, int64_t budget, const neap_link *link)
{
    cut *c;
    size_t tasks = x->n_tasks, tensors = x->n_tensors;
    if (!NEAP_TAKE(arena, 1, c) || !neap_cut_choices_init(&c->choices, arena, x, link) ||
        !NEAP_TAKE(arena, tasks, c->role) || !NEAP_TAKE(arena, tasks, c->is_over) ||
        !NEAP_TAKE(arena, tasks, c->task_node) || !NEAP_TAKE(arena, tensors, c->state) ||
        !NEAP_TAKE(arena, tensors, c->tensor_node) || !NEAP_TAKE(arena, tensors, c->fates) ||
        !NEAP_TAKE(arena, tensors, c->loose) || !NEAP_TAKE(arena, tasks, c->stack) ||
        !NEAP_TAKE(arena, tensors, c->kept) || !NEAP_TAKE(arena, tasks, c->reruns) ||
        !NEAP_TAKE(arena, c->choices.moving.n, c->states) ||
        !neap_max_flow_init(&c->flow, arena, FLOW_FIRST_FREE + tasks + tensors,
                            tasks + tensors + x->reads.start[tasks]))
        return NULL;
    c->x = x;
    c->budget = budget;
    c->rows = neap_cut_time_rows(&c->choices, &c->n_rows);
    return c;
}

const cut_choices *neap_cut_choices(const cut *c)
{
    return &c->choices;
}

uint64_t neap_cut_work(const cut *c)
{
    return c->work + c->flow.total_work;
}

void neap_cut_fates(const cut *c, uint8_t *fates, uint8_t *loose)
{
    memcpy(fates, c->fates, c->x->n_tensors);
    memcpy(loose, c->loose, c->x->n_tensors);
}

/* ---- The network ---- */

static bool can_leave(const cut *c, uint32_t tensor)
{
    return c->choices.in[tensor] >= 0;
}

/* A task of which it is not known whether it has run may run afterwards for the first time. */
static bool can_run(const cut *c, uint32_t tensor)
{
    uint32_t p = c->x->producer[tensor];
    return (c->choices.can_recompute[tensor] && !c->is_over[p]) || c->role[p] == ROLE_UNKNOWN;
}

/* Ticks of running the task after the moment, beyond those of its first run. */
static int64_t again_ticks(const cut *c, uint32_t task)
{
    return c->role[task] == ROLE_UNKNOWN ? 0 : task_ticks(c->x, task);
}

/* Adds a tensor to the network or, if it can only be kept, subtracts it from the room. */
static void demand(cut *c, uint32_t tensor)
{
    const problem *x = c->x;
    uint32_t p = x->producer[tensor], from = FLOW_SOURCE, to = FLOW_SINK;
    bool certain = c->state[tensor] == NEEDED;
    if (!certain)
        c->state[tensor] = DEMANDED;
    if (x->bytes[tensor] == 0)
        return;
    if (can_run(c, tensor)) {
        if (c->task_node[p] == NEAP_NONE) {
            c->task_node[p] = neap_max_flow_add_node(&c->flow);
            c->stack[c->depth++] = p;
        }
        to = c->task_node[p];
    } else if (certain && !can_leave(c, tensor)) {
        c->room -= x->bytes[tensor];
        return;
    }
    if (certain)
        c->bytes += x->bytes[tensor];
    else
        from = c->tensor_node[tensor] = neap_max_flow_add_node(&c->flow);
    uint32_t arc = neap_max_flow_add_arc(&c->flow, from, to, 0);
    c->kept[c->n_kept++] = (cut_item){tensor, arc};
}

/* What the task reads when it runs again. */
static void demand_reads(cut *c, uint32_t task)
{
    const problem *x = c->x;
    uint32_t node = c->task_node[task];
    uint32_t arc = neap_max_flow_add_arc(&c->flow, node, FLOW_SINK, 0);
    c->reruns[c->n_reruns++] = (cut_item){task, arc};
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t s = x->reads.items[i];
        if (c->state[s] == UNTOUCHED)
            demand(c, s);
        if (c->state[s] == DEMANDED && x->bytes[s] > 0)
            neap_max_flow_add_arc(&c->flow, node, c->tensor_node[s], INFINITE);
    }
}

/* Needed: outputs, and tensors that a task of the future reads, unless the future makes them. What
   the task may write over need not be there afterwards. */
static void mark_needed(cut *c, uint32_t task)
{
    const problem *x = c->x;
    uint32_t over = cut_tensor_over(&c->choices, x, task);
    for (uint32_t s = 0; s < x->n_tensors; s++)
        c->state[s] =
            c->role[x->producer[s]] != ROLE_FUTURE && x->is_output[s] ? NEEDED : UNTOUCHED;
    for (uint32_t k = 0; k < x->n_tasks; k++)
        if (c->role[k] == ROLE_FUTURE)
            for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
                if (c->role[x->producer[x->reads.items[i]]] != ROLE_FUTURE && k != task)
                    c->state[x->reads.items[i]] = NEEDED;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        if (x->reads.items[i] != over)
            c->state[x->reads.items[i]] = RESIDENT;
}

/* Nothing that reads what an update overwrites runs after the update. */
static void mark_over(cut *c, uint32_t task)
{
    const problem *x = c->x;
    memset(c->is_over, 0, x->n_tasks);
    for (uint32_t k = 0; k < x->n_tasks; k++)
        for (uint32_t i = x->before.start[k]; i < x->before.start[k + 1]; i++)
            if (k == task || c->role[k] == ROLE_PAST)
                c->is_over[x->before.items[i]] = true;
}

/* What the copies add to an inequality. */
static int64_t ticks_of_copies(const time_row *r, const copy_sums *k)
{
    bool in_before = busy_with_in(r->before), in_after = busy_with_in(r->after);
    bool out_before = busy_with_out(r->before), out_after = busy_with_out(r->after);
    return (in_before ? k->in_before : 0) + (in_after ? k->in_after : 0) +
           (out_before ? k->out_before : 0) + (out_after ? k->out_after : 0) +
           (in_before && in_after ? k->in_either : 0) +
           (out_before && out_after ? k->out_either : 0);
}

static void add_copies(copy_sums *sum, const copy_sums *more)
{
    sum->in_before += more->in_before;
    sum->out_before += more->out_before;
    sum->in_after += more->in_after;
    sum->out_after += more->out_after;
    sum->in_either += more->in_either;
    sum->out_either += more->out_either;
}

/* What begins on the host comes before the first op that reads it, and goes back after its update,
   also if it is there during the task. */
static void split_certain(cut *c, copy_sums *from_host)
{
    copy_sums certain = {.in_before = from_host->in_before, .out_after = from_host->out_after};
    add_copies(&c->certain, &certain);
    from_host->in_before = from_host->out_after = 0;
}

/* State that the task reads is there; all other state may be absent. */
static void add_states(cut *c, uint32_t task)
{
    const moving_state *m = &c->choices.moving;
    c->n_states = 0;
    c->certain = (copy_sums){0};
    for (uint32_t i = 0; i < m->n; i++) {
        state_choice choice = {.bytes = m->bytes[i],
                               .from_device = neap_moving_state_from_device(m, i),
                               .from_host = neap_moving_state_from_host(m, i, task, c->role)};
        if (!m->may_stay[i]) {
            split_certain(c, &choice.from_host);
            choice.from_device = choice.from_host;
        }
        if (m->storage[i] != c->choices.over[task] && neap_moving_state_is_read(m, i, task)) {
            c->room -= m->bytes[i];
            continue;
        }
        c->states[c->n_states++] = choice;
        c->bytes += choice.bytes;
    }
}

/* The least ticks of the inequalities. */
static void add_bases(cut *c, uint32_t task)
{
    const problem *x = c->x;
    int64_t before = 0, own = task_ticks(x, task), after = -own;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        before += c->role[k] == ROLE_PAST ? task_ticks(x, k) : 0;
        after += c->role[k] == ROLE_FUTURE ? task_ticks(x, k) : 0;
    }
    c->base[0] = x->least_ticks;
    for (int r = 1; r < c->n_rows; r++)
        c->base[r] = own + ticks_of_copies(&c->rows[r], &c->certain) +
                     (c->rows[r].before == COMPUTING ? before : 0) +
                     (c->rows[r].after == COMPUTING ? after : 0);
}

/*
 * A node on the source's side is a tensor that is demanded or a task that runs again. Needed
 * tensors are always demanded: the source stands for them. The arc from a tensor to its task is cut
 * if the tensor is kept, the arc from a task to the sink if the task runs again; a task that runs
 * again demands what it reads.
 */
static void build_network(cut *c, uint32_t task, cut_scope scope)
{
    const problem *x = c->x;
    uint32_t over = cut_tensor_over(&c->choices, x, task);
    neap_problem_mark_roles(x, task, scope, c->role);
    mark_over(c, task);
    mark_needed(c, task);
    neap_max_flow_reset(&c->flow);
    c->n_kept = c->n_reruns = 0;
    c->work += x->n_tasks + x->n_tensors + x->reads.start[x->n_tasks];
    c->bytes = 0;
    c->room = c->budget - c->choices.fixed_bytes - x->made_bytes[task] - x->read_bytes[task];
    if (over != NEAP_NONE)
        c->room += x->bytes[over];
    add_states(c, task);
    add_bases(c, task);
    for (uint32_t k = 0; k < x->n_tasks; k++)
        c->task_node[k] = NEAP_NONE;
    for (uint32_t s = 0; s < x->n_tensors; s++)
        if (c->state[s] == NEEDED) {
            demand(c, s);
            while (c->depth > 0)
                demand_reads(c, c->stack[--c->depth]);
        }
}

/* Keeps sums of capacities below 2^62, and sums of ticks exact if possible. */
static void choose_scale(cut *c)
{
    int64_t ticks = c->x->least_ticks + 1;
    int bits = 2;
    for (size_t n = c->flow.n_arcs + c->n_states; n > 0; n /= 2)
        bits++;
    c->limit = INT64_C(1) << (62 - bits);
    c->shift = 0;
    while (c->shift < 10 && ticks << (c->shift + 1) < c->limit)
        c->shift++;
    while (c->shift <= 0 && ticks >> -c->shift > c->limit)
        c->shift--;
}

/* ---- Prices ---- */

static int64_t scaled_down(const cut *c, double ticks)
{
    double scaled = floor(ldexp(ticks, c->shift) * DOWN);
    return scaled < (double)c->limit ? (int64_t)scaled : c->limit;
}

/* Sums of weights are exact. */
static void price_ticks(const cut *c, cut_prices *p)
{
    p->again = p->in_before = p->out_before = p->in_after = p->out_after = 0;
    p->in_either = p->out_either = 0;
    for (int r = 0; r < c->n_rows; r++) {
        double w = p->weights[r];
        busy before = c->rows[r].before, after = c->rows[r].after;
        p->again += after == COMPUTING ? w : 0;
        p->in_before += busy_with_in(before) ? w : 0;
        p->out_before += busy_with_out(before) ? w : 0;
        p->in_after += busy_with_in(after) ? w : 0;
        p->out_after += busy_with_out(after) ? w : 0;
        p->in_either += busy_with_in(before) && busy_with_in(after) ? w : 0;
        p->out_either += busy_with_out(before) && busy_with_out(after) ? w : 0;
    }
}

static double cost_of_copies(const cut_prices *p, const copy_sums *k)
{
    return p->in_after * (double)k->in_after + p->out_before * (double)k->out_before +
           p->in_before * (double)k->in_before + p->out_after * (double)k->out_after +
           p->in_either * (double)k->in_either + p->out_either * (double)k->out_either;
}

/* Of a tensor that leaves before the task and returns after it. */
static copy_sums copies_of(const cut *c, uint32_t tensor)
{
    return (copy_sums){.out_before = c->choices.out[tensor], .in_after = c->choices.in[tensor]};
}

/* Cost of having the tensor on the host; infinite if it may not be offloaded. */
static double leaving_cost(const cut *c, const cut_prices *prices, uint32_t tensor)
{
    if (!can_leave(c, tensor))
        return HUGE_VAL;
    copy_sums copies = copies_of(c, tensor);
    return cost_of_copies(prices, &copies);
}

static double keeping_cost(const cut *c, const cut_prices *prices, uint32_t tensor)
{
    return prices->bytes * (double)c->x->bytes[tensor];
}

static bool leaves(const cut *c, const cut_prices *prices, uint32_t tensor)
{
    return leaving_cost(c, prices, tensor) < keeping_cost(c, prices, tensor);
}

static void set_capacities(cut *c, const cut_prices *prices)
{
    double again = prices->again;
    for (uint32_t i = 0; i < c->n_kept; i++) {
        uint32_t s = c->kept[i].id;
        double cost = fmin(keeping_cost(c, prices, s), leaving_cost(c, prices, s));
        c->flow.capacity[c->kept[i].arc] = scaled_down(c, cost);
    }
    for (uint32_t i = 0; i < c->n_reruns; i++) {
        int64_t ticks = again_ticks(c, c->reruns[i].id);
        int64_t exact = c->shift >= 0 ? ticks << c->shift : ticks >> -c->shift;
        c->flow.capacity[c->reruns[i].arc] =
            again == 1 ? exact : scaled_down(c, again * (double)ticks);
    }
}

static bool is_cut(const cut *c, const cut_item *item)
{
    return neap_max_flow_before_cut(&c->flow, c->flow.to[item->arc ^ 1]) &&
           !neap_max_flow_before_cut(&c->flow, c->flow.to[item->arc]);
}

static void add_tensor(const cut *c, uint32_t tensor, bool leaves, cut_line *line)
{
    copy_sums copies = copies_of(c, tensor);
    if (leaves)
        add_copies(&line->copies, &copies);
    else
        line->bytes += c->x->bytes[tensor];
}

/* ---- State, which depends on nothing but the prices ---- */

static const copy_sums *copies_of_state(const cut_prices *prices, const state_choice *state)
{
    double from_device = cost_of_copies(prices, &state->from_device);
    return cost_of_copies(prices, &state->from_host) < from_device ? &state->from_host
                                                                   : &state->from_device;
}

static bool state_leaves(const cut_prices *prices, const state_choice *state)
{
    return cost_of_copies(prices, copies_of_state(prices, state)) <
           prices->bytes * (double)state->bytes;
}

/* The least cost of all state, scaled. */
static int64_t cost_of_states(const cut *c, const cut_prices *prices)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < c->n_states; i++) {
        const state_choice *state = &c->states[i];
        double absent = cost_of_copies(prices, copies_of_state(prices, state));
        sum += scaled_down(c, fmin(absent, prices->bytes * (double)state->bytes));
    }
    return sum;
}

static void add_states_to_line(const cut *c, const cut_prices *prices, cut_line *line)
{
    for (uint32_t i = 0; i < c->n_states; i++) {
        const state_choice *state = &c->states[i];
        if (state_leaves(prices, state))
            add_copies(&line->copies, copies_of_state(prices, state));
        else
            line->bytes += state->bytes;
    }
}

static cut_line read_cut(const cut *c, const cut_prices *prices)
{
    cut_line line = {0};
    for (uint32_t i = 0; i < c->n_kept; i++)
        if (is_cut(c, &c->kept[i]))
            add_tensor(c, c->kept[i].id, leaves(c, prices, c->kept[i].id), &line);
    for (uint32_t i = 0; i < c->n_reruns; i++)
        if (is_cut(c, &c->reruns[i]))
            line.ticks += again_ticks(c, c->reruns[i].id);
    add_states_to_line(c, prices, &line);
    return line;
}

static void note_fates(cut *c, const cut_prices *prices, uint8_t *fates)
{
    const problem *x = c->x;
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        uint32_t node = c->task_node[x->producer[s]];
        bool again = node != NEAP_NONE && neap_max_flow_before_cut(&c->flow, node);
        fates[s] = again && c->state[s] != RESIDENT ? FATE_RECOMPUTE : FATE_KEEP;
    }
    for (uint32_t i = 0; i < c->n_kept; i++)
        if (is_cut(c, &c->kept[i]) && leaves(c, prices, c->kept[i].id))
            fates[c->kept[i].id] = FATE_OFFLOAD;
}

/* Ticks of a flow minus the cost of the room; never negative. */
static int64_t proven_ticks(const cut *c, int64_t flow, double price, int64_t room)
{
    double paid = ceil(ldexp(price * (double)room, c->shift) * UP);
    if (!(paid < (double)flow))
        return 0;
    int64_t rest = flow - (int64_t)paid;
    return c->shift < 0 ? rest << -c->shift : (rest + (INT64_C(1) << c->shift) - 1) >> c->shift;
}

/* The same with the base of each inequality, less the least ticks; never negative. */
static int64_t proven_with_link(const cut *c, int64_t flow, const cut_prices *prices, int64_t room)
{
    int64_t most = INT64_C(1) << 61, sum = flow < most ? flow : most;
    for (int i = 0; i < c->n_rows; i++)
        sum += scaled_down(c, prices->weights[i] * (double)c->base[i]);
    int64_t ticks = proven_ticks(c, sum, prices->bytes, room);
    return ticks > c->x->least_ticks ? ticks - c->x->least_ticks : 0;
}

static int64_t solve_flow(cut *c, bool *stopped)
{
    return neap_max_flow_solve(&c->flow, c->watch->stop, c->watch->context, stopped);
}

/* Improves the answer by the cut for these prices; false: stopped. */
static bool try_prices(cut *c, const cut_prices *prices, int64_t room, cut_answer *answer,
                       cut_line *line)
{
    set_capacities(c, prices);
    int64_t flow = solve_flow(c, &answer->stopped) + cost_of_states(c, prices);
    int64_t ticks = c->choices.has_link ? proven_with_link(c, flow, prices, room)
                                        : proven_ticks(c, flow, prices->bytes, room);
    if (ticks > answer->ticks) {
        answer->ticks = ticks;
        answer->price = prices->bytes;
    }
    if (answer->stopped)
        return false;
    *line = read_cut(c, prices);
    note_fates(c, prices, line->bytes <= room ? c->fates : c->loose);
    return true;
}

/* Whether better prices may still improve the answer enough. */
static bool is_promising(const cut_answer *answer, int64_t worthless)
{
    return answer->estimate > (double)answer->ticks && answer->estimate >= (double)worthless;
}

/* Recomputes everything possible; offloads the rest if possible. */
static cut_line all_again(const cut *c)
{
    cut_line line = {0};
    for (uint32_t i = 0; i < c->n_kept; i++)
        if (c->flow.to[c->kept[i].arc] == FLOW_SINK)
            add_tensor(c, c->kept[i].id, can_leave(c, c->kept[i].id), &line);
    for (uint32_t i = 0; i < c->n_reruns; i++)
        line.ticks += again_ticks(c, c->reruns[i].id);
    for (uint32_t i = 0; i < c->n_states; i++)
        add_copies(&line.copies, &c->states[i].from_host);
    return line;
}

/* Keeps the least bytes possible, at any cost in time. */
static cut_line least_bytes(cut *c, bool *stopped)
{
    static const cut_prices prices = {.bytes = 1};
    for (uint32_t i = 0; i < c->n_kept; i++)
        c->flow.capacity[c->kept[i].arc] =
            can_leave(c, c->kept[i].id) ? 0 : c->x->bytes[c->kept[i].id];
    for (uint32_t i = 0; i < c->n_reruns; i++)
        c->flow.capacity[c->reruns[i].arc] = 0;
    solve_flow(c, stopped);
    return *stopped ? (cut_line){.bytes = INT64_MAX} : read_cut(c, &prices);
}

/* The price for which two lines cost the same, one above the room and one within it. */
static double meeting_price(const cut_line *over, const cut_line *under)
{
    return (double)(under->ticks - over->ticks) / (double)(over->bytes - under->bytes);
}

/*
 * The best price without a link: the price where a line above the room and one within it meet,
 * until no line is below that point (Newton's method on a concave function).
 */
static void search_prices(cut *c, int64_t room, cut_line under, double price, int64_t worthless,
                          cut_answer *answer)
{
    cut_line line, over = {.bytes = c->bytes};
    if (!(price > 0))
        price = meeting_price(&over, &under);
    for (int i = 0; i < MOST_PRICES; i++) {
        const cut_prices prices = {.bytes = price, .weights = {1}, .again = 1};
        if (!try_prices(c, &prices, room, answer, &line))
            return;
        cut_line *side = line.bytes > room ? &over : &under;
        if (line.bytes == side->bytes && line.ticks == side->ticks && i > 0)
            return;
        *side = line;
        price = meeting_price(&over, &under);
        answer->estimate = (double)under.ticks + price * (double)(under.bytes - room);
        if (!is_promising(answer, worthless))
            return;
    }
}

/* ---- With a link ---- */

static master_line master_line_of(const cut *c, const cut_line *line)
{
    master_line column = {.bytes = line->bytes};
    for (int r = 0; r < c->n_rows; r++)
        column.ticks[r] = ticks_of_copies(&c->rows[r], &line->copies) +
                          (c->rows[r].after == COMPUTING ? line->ticks : 0);
    return column;
}

/* Weights are rounded down to multiples of 2^-30: their exact sum is at most 1. */
static cut_prices prices_of(const cut *c, const price_master *m)
{
    cut_prices prices = {.bytes = m->price};
    double sum = 0;
    for (int i = 0; i < c->n_rows; i++) {
        prices.weights[i] = ldexp(floor(ldexp(fmin(m->weights[i], 1), 30)), -30);
        sum += prices.weights[i]; /* exact */
    }
    for (int i = 0; i < c->n_rows && sum > 1; i++) {
        double less = fmin(prices.weights[i], sum - 1);
        prices.weights[i] -= less;
        sum -= less;
    }
    price_ticks(c, &prices);
    return prices;
}

static void search_with_link(cut *c, int64_t room, cut_line line, int64_t worthless,
                             cut_answer *answer)
{
    price_master master;
    master_line column = master_line_of(c, &line);
    bool better = neap_price_master_begin(&master, c->n_rows, c->base, room, &column);
    for (int i = 0; i < MOST_LINES && better; i++) {
        cut_prices prices = prices_of(c, &master);
        if (!try_prices(c, &prices, room, answer, &line))
            return;
        column = master_line_of(c, &line);
        better = neap_price_master_add(&master, &column);
        answer->estimate = master.time - (double)c->x->least_ticks;
        better = better && is_promising(answer, worthless);
    }
}

/* ---- A task ---- */

/* Before the first cut: everything is kept or, if that does not fit, recomputed if possible. */
static void reset_fates(cut *c, bool keep)
{
    const problem *x = c->x;
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        bool again =
            c->task_node[x->producer[s]] != NEAP_NONE && c->state[s] != RESIDENT && can_run(c, s);
        c->fates[s] = again && !keep ? FATE_RECOMPUTE : FATE_KEEP;
        c->loose[s] = FATE_KEEP;
    }
}

/* The bound for one amount of room. */
static cut_answer search_room(cut *c, int64_t room, double price, int64_t worthless)
{
    cut_answer answer = {.price = price};
    bool is_slack = c->bytes <= room;
    for (int r = 0; r < c->n_rows && c->choices.has_link; r++)
        if (c->base[r] - c->x->least_ticks > answer.ticks)
            answer.ticks = c->base[r] - c->x->least_ticks;
    answer.estimate = (double)answer.ticks;
    reset_fates(c, is_slack);
    if (is_slack)
        return answer;
    cut_line under = all_again(c);
    if (under.bytes > room)
        under = least_bytes(c, &answer.stopped);
    if (under.bytes > room)
        answer.infeasible = !answer.stopped;
    else if (c->choices.has_link)
        search_with_link(c, room, under, worthless, &answer);
    else
        search_prices(c, room, under, price, worthless, &answer);
    return answer;
}

/* Slower variants of the task leave more room: the least of their bounds holds. */
cut_answer neap_cut_solve(cut *c, uint32_t task, cut_scope scope, double price, int64_t worthless,
                          const cut_watch *watch)
{
    const problem *x = c->x;
    cut_answer best = {.ticks = INT64_MAX, .infeasible = true, .price = price};
    c->watch = watch;
    worthless -= x->least_ticks;
    build_network(c, task, scope);
    choose_scale(c);
    for (uint32_t v = x->variant_start[task]; v < x->variant_start[task + 1]; v++) {
        int64_t room = c->room - x->variants[v].workspace;
        int64_t more = x->variants[v].ticks - task_ticks(x, task);
        if (room < 0 || more >= best.ticks)
            continue;
        cut_answer one = search_room(c, room, price, worthless - more);
        if (one.infeasible)
            continue;
        one.ticks += more;
        one.estimate += (double)more;
        if (one.ticks < best.ticks)
            best = one;
        if (best.ticks <= worthless || one.stopped) {
            if (v + 1 < x->variant_start[task + 1])
                best.ticks = 0; /* the other variants might prove less */
            break;
        }
    }
    if (!best.infeasible) {
        best.ticks += x->least_ticks;
        best.estimate += (double)x->least_ticks;
    }
    return best;
}
