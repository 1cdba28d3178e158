#include "planners/neap/cut.h"

#include "planners/neap/max_flow.h"
#include "planners/neap/price_master.h"

#include "base/fail.h"
#include "base/memory.h"

#include <math.h>

enum { UNTOUCHED = 0, NEEDED, DEMANDED, RESIDENT }; /* tensors, see build_network */
enum { MOST_PRICES = 40, MOST_LINES = 60 };

static const int64_t INFINITE = INT64_C(1) << 62;

static const double DOWN = 1 - 0x1p-50, UP = 1 + 0x1p-50; /* beyond the roundings of a product */

/* A tensor that is kept (or moved) where its arc is cut. */
typedef struct cut_item {
    uint32_t tensor, arc, from, to;
} cut_item;

/* A task that runs again where its arc is cut. */
typedef struct cut_rerun {
    uint32_t task, arc, node;
} cut_rerun;

/* Of one cut: ticks of what runs again, bytes kept, ticks of copies of what is on the host. Without
   a link the time is then at least least ticks + ticks + price * (bytes - room), whatever the
   price. */
typedef struct cut_line {
    int64_t ticks, bytes, in, out;
} cut_line;

/* Of bytes, and the shares of the inequalities that bound the time: all computation; computation up
   to the task, then copies in; copies out, then computation from the task on; copies out, the task,
   copies in. The shares add up to 1 at most. */
typedef struct cut_prices {
    double bytes, weights[MASTER_TIMES];
} cut_prices;

enum { BY_ALL = 0, BY_COPIES_IN, BY_COPIES_OUT, BY_COPIES };

struct cut {
    neap_allocator *allocator;
    neap_arena arena;
    const problem *x;
    int64_t budget;
    bool *can_recompute; /* by tensor */
    int64_t *in, *out;   /* by tensor: ticks of a copy; NULL without a link, -1: it may not leave */
    uint8_t *role;       /* by task */
    uint32_t *task_node; /* by task; NEAP_NONE: not in the network */
    uint8_t *state;      /* by tensor */
    uint32_t *tensor_node;
    uint8_t *fates;  /* of the cut that fits, */
    uint8_t *loose;  /* and of the one that keeps a little too much */
    uint32_t *stack; /* of tensors or tasks */
    max_flow flow;
    cut_item *items;
    cut_rerun *reruns;
    size_t n_items, item_capacity, n_reruns, rerun_capacity;
    /* of the present network */
    int64_t base[MASTER_TIMES]; /* least ticks of the inequalities */
    int64_t room;               /* for what is not certainly resident */
    int64_t bytes;              /* of all that is wanted: what is kept if nothing runs again */
    int shift;                  /* capacities are ticks * 2^shift */
    int64_t limit;              /* of a capacity */
    uint64_t work;
};

/* ---- Whole life ---- */

/* Views that cost something pin their storage, and their task, for the method's sake only. */
static void find_recomputable(cut *c)
{
    const problem *x = c->x;
    bool *pinned_by_views = (bool *)c->role; /* by task, for the moment */
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        uint32_t root = neap_graph_value(x->graph, x->tensor_value[s])->storage;
        if (root == x->tensor_value[s])
            continue;
        pinned_by_views[x->producer[s]] = true;
        if (x->tensor_of_value[root] != NEAP_NONE)
            pinned_by_views[x->producer[x->tensor_of_value[root]]] = true;
    }
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        bool by_views = pinned_by_views[x->producer[s]];
        c->can_recompute[s] = tensor_can_recompute(x, s) || by_views;
        if (c->in && !tensor_can_offload(x, s) && !by_views)
            c->in[s] = c->out[s] = -1;
    }
}

/* Less than the truth where it is past all reason: sums must not overflow. */
static int64_t copy_ticks(const cut *c, const neap_link *link, bool out, uint32_t tensor)
{
    static const int64_t most = INT64_C(1) << 40;
    int64_t ticks = neap_link_ticks(link, c->x->graph, out, c->x->bytes[tensor]);
    return ticks < c->x->least_ticks + most ? ticks : c->x->least_ticks + most;
}

static bool find_copies(cut *c, const neap_link *link)
{
    if (!link || !(link->in_bandwidth > 0) || !(link->out_bandwidth > 0))
        return true;
    if (!NEAP_TAKE(&c->arena, c->x->n_tensors, c->in) ||
        !NEAP_TAKE(&c->arena, c->x->n_tensors, c->out))
        return false;
    for (uint32_t s = 0; s < c->x->n_tensors; s++) {
        c->in[s] = copy_ticks(c, link, false, s);
        c->out[s] = copy_ticks(c, link, true, s);
    }
    return true;
}

neap_status neap_cut_create(neap_allocator *allocator, const problem *x, int64_t budget,
                            const neap_link *link, cut **result, neap_diag *diag)
{
    cut *c;
    *result = NULL;
    neap_status status = NEAP_NEW(allocator, 1, &c, diag);
    if (status != NEAP_OK)
        return status;
    c->allocator = allocator;
    c->x = x;
    c->budget = budget;
    neap_arena_init(&c->arena, allocator);
    neap_max_flow_init(&c->flow, allocator);
    size_t most = x->n_tasks > x->n_tensors ? x->n_tasks : x->n_tensors;
    if (!NEAP_TAKE(&c->arena, x->n_tensors, c->can_recompute) ||
        !NEAP_TAKE(&c->arena, x->n_tasks, c->role) ||
        !NEAP_TAKE(&c->arena, x->n_tasks, c->task_node) ||
        !NEAP_TAKE(&c->arena, x->n_tensors, c->state) ||
        !NEAP_TAKE(&c->arena, x->n_tensors, c->tensor_node) ||
        !NEAP_TAKE(&c->arena, x->n_tensors, c->fates) ||
        !NEAP_TAKE(&c->arena, x->n_tensors, c->loose) || !NEAP_TAKE(&c->arena, most, c->stack) ||
        !find_copies(c, link)) {
        neap_cut_destroy(c);
        return neap_fail_no_memory(diag);
    }
    find_recomputable(c);
    *result = c;
    return NEAP_OK;
}

void neap_cut_destroy(cut *c)
{
    if (!c)
        return;
    neap_max_flow_clear(&c->flow);
    NEAP_DELETE(c->allocator, c->item_capacity, c->items);
    NEAP_DELETE(c->allocator, c->rerun_capacity, c->reruns);
    neap_arena_clear(&c->arena);
    NEAP_DELETE(c->allocator, 1, c);
}

const bool *neap_cut_recomputable(const cut *c)
{
    return c->can_recompute;
}

uint64_t neap_cut_work(const cut *c)
{
    return c->work + c->flow.total_work;
}

void neap_cut_fates(const cut *c, uint8_t *fates, uint8_t *loose)
{
    for (uint32_t s = 0; s < c->x->n_tensors; s++) {
        fates[s] = c->fates[s];
        loose[s] = c->loose[s];
    }
}

/* ---- The network ---- */

static bool can_leave(const cut *c, uint32_t tensor)
{
    return c->in && c->in[tensor] >= 0;
}

/* Demanded: in the network, or (without a choice) out of the room. */
static neap_status demand(cut *c, uint32_t tensor, uint32_t *depth, neap_diag *diag)
{
    const problem *x = c->x;
    c->state[tensor] = c->state[tensor] == NEEDED ? NEEDED : DEMANDED;
    if (x->bytes[tensor] == 0)
        return NEAP_OK;
    uint32_t p = x->producer[tensor];
    bool certain = c->state[tensor] == NEEDED;
    c->bytes += certain ? x->bytes[tensor] : 0;
    uint32_t from = FLOW_SOURCE, to = FLOW_SINK, arc;
    if (c->can_recompute[tensor]) {
        if (c->task_node[p] == NEAP_NONE) {
            NEAP_TRY(neap_max_flow_add_node(&c->flow, &c->task_node[p], diag));
            c->stack[(*depth)++] = p;
        }
        to = c->task_node[p];
    } else if (certain && !can_leave(c, tensor)) {
        c->room -= x->bytes[tensor];
        c->bytes -= x->bytes[tensor];
        return NEAP_OK;
    }
    if (!certain) {
        NEAP_TRY(neap_max_flow_add_node(&c->flow, &c->tensor_node[tensor], diag));
        from = c->tensor_node[tensor];
    }
    NEAP_TRY(neap_max_flow_add_arc(&c->flow, from, to, 0, &arc, diag));
    NEAP_TRY(NEAP_RESERVE(c->allocator, c->n_items + 1, &c->items, &c->item_capacity, diag));
    c->items[c->n_items++] = (cut_item){tensor, arc, from, to};
    return NEAP_OK;
}

/* What the task reads when it runs again. */
static neap_status demand_reads(cut *c, uint32_t task, uint32_t *depth, neap_diag *diag)
{
    const problem *x = c->x;
    uint32_t node = c->task_node[task], arc;
    NEAP_TRY(neap_max_flow_add_arc(&c->flow, node, FLOW_SINK, 0, &arc, diag));
    NEAP_TRY(NEAP_RESERVE(c->allocator, c->n_reruns + 1, &c->reruns, &c->rerun_capacity, diag));
    c->reruns[c->n_reruns++] = (cut_rerun){task, arc, node};
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++) {
        uint32_t s = x->reads.items[i];
        if (c->state[s] == UNTOUCHED)
            NEAP_TRY(demand(c, s, depth, diag));
        if (c->state[s] == DEMANDED && x->bytes[s] > 0)
            NEAP_TRY(
                neap_max_flow_add_arc(&c->flow, node, c->tensor_node[s], INFINITE, NULL, diag));
    }
    return NEAP_OK;
}

/* Tensors of the past that the future, or the end, reads. */
static void mark_needed(cut *c, uint32_t task)
{
    const problem *x = c->x;
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        c->state[s] = UNTOUCHED;
        if (c->role[x->producer[s]] == ROLE_PAST && x->is_output[s])
            c->state[s] = NEEDED;
    }
    for (uint32_t k = 0; k < x->n_tasks; k++)
        if (c->role[k] == ROLE_FUTURE)
            for (uint32_t i = x->reads.start[k]; i < x->reads.start[k + 1]; i++)
                if (c->role[x->producer[x->reads.items[i]]] == ROLE_PAST)
                    c->state[x->reads.items[i]] = NEEDED;
    for (uint32_t i = x->reads.start[task]; i < x->reads.start[task + 1]; i++)
        c->state[x->reads.items[i]] = RESIDENT;
}

/*
 * A node on the source's side: a tensor that is demanded, a task that runs again. Needed tensors
 * are demanded in any case: they are the source itself. An arc from a tensor to its task is cut
 * when the tensor is kept; an arc from a task to the sink when it runs again; and a task that runs
 * again demands what it reads.
 */
static neap_status build_network(cut *c, uint32_t task, cut_scope scope, neap_diag *diag)
{
    const problem *x = c->x;
    uint32_t depth = 0;
    neap_problem_mark_roles(x, task, scope, c->role);
    mark_needed(c, task);
    c->n_items = c->n_reruns = 0;
    c->work += x->n_tasks + x->n_tensors + x->reads.start[x->n_tasks];
    c->bytes = 0;
    c->room = c->budget - x->base_bytes - x->made_bytes[task] - x->read_bytes[task];
    c->base[BY_ALL] = c->x->least_ticks;
    c->base[BY_COPIES_IN] = c->base[BY_COPIES] = task_ticks(x, task);
    c->base[BY_COPIES_OUT] = 0;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        c->base[BY_COPIES_IN] += c->role[k] == ROLE_PAST ? task_ticks(x, k) : 0;
        c->base[BY_COPIES_OUT] += c->role[k] == ROLE_FUTURE ? task_ticks(x, k) : 0;
    }
    for (uint32_t k = 0; k < x->n_tasks; k++)
        c->task_node[k] = NEAP_NONE;
    neap_status status = neap_max_flow_reset(&c->flow, diag);
    for (uint32_t s = 0; s < x->n_tensors && status == NEAP_OK; s++)
        if (c->state[s] == NEEDED) {
            status = demand(c, s, &depth, diag);
            while (depth > 0 && status == NEAP_OK)
                status = demand_reads(c, c->stack[--depth], &depth, diag);
        }
    return status;
}

/* Sums of capacities must stay below 2^62, and those of ticks are exact where they can be. */
static void choose_scale(cut *c)
{
    int64_t ticks = c->x->least_ticks + 1;
    int bits = 2;
    for (size_t n = c->flow.n_arcs; n > 0; n /= 2)
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

/* What it costs to have the tensor on the host; infinite if it may not leave. */
static double leaving_cost(const cut *c, const cut_prices *prices, uint32_t tensor)
{
    const double *w = prices->weights;
    if (!can_leave(c, tensor))
        return HUGE_VAL;
    return (w[BY_COPIES_IN] + w[BY_COPIES]) * (double)c->in[tensor] +
           (w[BY_COPIES_OUT] + w[BY_COPIES]) * (double)c->out[tensor];
}

static bool leaves(const cut *c, const cut_prices *prices, uint32_t tensor)
{
    return leaving_cost(c, prices, tensor) < prices->bytes * (double)c->x->bytes[tensor];
}

static void set_capacities(cut *c, const cut_prices *prices)
{
    double again = prices->weights[BY_ALL] + prices->weights[BY_COPIES_OUT];
    for (size_t i = 0; i < c->n_items; i++) {
        uint32_t s = c->items[i].tensor;
        double keep = prices->bytes * (double)c->x->bytes[s], leave = leaving_cost(c, prices, s);
        c->flow.capacity[c->items[i].arc] = scaled_down(c, keep < leave ? keep : leave);
    }
    for (size_t i = 0; i < c->n_reruns; i++) {
        int64_t ticks = task_ticks(c->x, c->reruns[i].task);
        int64_t exact = c->shift >= 0 ? ticks << c->shift : ticks >> -c->shift;
        c->flow.capacity[c->reruns[i].arc] =
            again == 1 ? exact : scaled_down(c, again * (double)ticks);
    }
}

/* What it costs to keep a tensor, or to have it on the host. */
static void add_tensor(const cut *c, uint32_t tensor, bool leaves, cut_line *line)
{
    line->in += leaves ? c->in[tensor] : 0;
    line->out += leaves ? c->out[tensor] : 0;
    line->bytes += leaves ? 0 : c->x->bytes[tensor];
}

/* Whether the arc of an item is cut. */
static bool is_cut(const cut *c, const cut_item *item)
{
    return neap_max_flow_before_cut(&c->flow, item->from) &&
           !neap_max_flow_before_cut(&c->flow, item->to);
}

static cut_line read_cut(const cut *c, const cut_prices *prices)
{
    cut_line line = {0};
    for (size_t i = 0; i < c->n_items; i++) {
        uint32_t s = c->items[i].tensor;
        if (is_cut(c, &c->items[i]))
            add_tensor(c, s, leaves(c, prices, s), &line);
    }
    for (size_t i = 0; i < c->n_reruns; i++)
        if (neap_max_flow_before_cut(&c->flow, c->reruns[i].node))
            line.ticks += task_ticks(c->x, c->reruns[i].task);
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
    for (size_t i = 0; i < c->n_items; i++)
        if (is_cut(c, &c->items[i]) && leaves(c, prices, c->items[i].tensor))
            fates[c->items[i].tensor] = FATE_OFFLOAD;
}

/* Ticks of a flow beyond what a room costs at a price; never negative. */
static int64_t proven_ticks(const cut *c, int64_t flow, double price, int64_t room)
{
    double paid = ceil(ldexp(price * (double)room, c->shift) * UP);
    if (!(paid < (double)flow))
        return 0;
    int64_t rest = flow - (int64_t)paid;
    return c->shift < 0 ? rest << -c->shift : (rest + (INT64_C(1) << c->shift) - 1) >> c->shift;
}

/* The line where all that can runs again, and the rest leaves where it can. */
static cut_line all_again(const cut *c)
{
    cut_line line = {0};
    for (size_t i = 0; i < c->n_items; i++) {
        uint32_t s = c->items[i].tensor;
        if (c->items[i].to == FLOW_SINK)
            add_tensor(c, s, can_leave(c, s), &line);
    }
    for (size_t i = 0; i < c->n_reruns; i++)
        line.ticks += task_ticks(c->x, c->reruns[i].task);
    return line;
}

/* The line of the least that must be kept, if time is worth nothing. */
static cut_line least_bytes(cut *c, const cut_watch *watch, bool *stopped)
{
    static const cut_prices prices = {.bytes = 1};
    for (size_t i = 0; i < c->n_items; i++)
        c->flow.capacity[c->items[i].arc] =
            can_leave(c, c->items[i].tensor) ? 0 : c->x->bytes[c->items[i].tensor];
    for (size_t i = 0; i < c->n_reruns; i++)
        c->flow.capacity[c->reruns[i].arc] = 0;
    neap_max_flow_solve(&c->flow, watch->stop, watch->context, stopped);
    return *stopped ? (cut_line){.bytes = INT64_MAX} : read_cut(c, &prices);
}

/* Where two lines, one of them over the room and one not, meet. */
static double meeting_price(const cut_line *over, const cut_line *under)
{
    return (double)(under->ticks - over->ticks) / (double)(over->bytes - under->bytes);
}

static double value_at(const cut_line *line, double price, int64_t room)
{
    return (double)line->ticks + price * (double)(line->bytes - room);
}

/*
 * The best price for a room: between a line that keeps too much and one that does not, where they
 * meet, until nothing lies below (Newton's method on a concave function).
 */
static void search_prices(cut *c, int64_t room, cut_line under, double price, int64_t worthless,
                          const cut_watch *watch, cut_answer *answer)
{
    cut_line over = {.bytes = c->bytes};
    if (!(price > 0))
        price = meeting_price(&over, &under);
    for (int i = 0; i < MOST_PRICES; i++) {
        const cut_prices prices = {.bytes = price, .weights = {1}};
        set_capacities(c, &prices);
        int64_t flow = neap_max_flow_solve(&c->flow, watch->stop, watch->context, &answer->stopped);
        int64_t ticks = proven_ticks(c, flow, price, room);
        if (ticks > answer->ticks) {
            answer->ticks = ticks;
            answer->price = price;
        }
        if (answer->stopped)
            return;
        cut_line line = read_cut(c, &prices);
        note_fates(c, &prices, line.bytes <= room ? c->fates : c->loose);
        cut_line *side = line.bytes > room ? &over : &under;
        if (line.bytes == side->bytes && line.ticks == side->ticks && i > 0)
            return; /* no line lies below the two */
        *side = line;
        price = meeting_price(&over, &under);
        answer->estimate = value_at(&under, price, room);
        if (answer->estimate <= (double)answer->ticks || answer->estimate < (double)worthless)
            return;
    }
}

/* ---- With a link ---- */

static master_line master_line_of(const cut_line *line)
{
    return (master_line){.ticks = {[BY_ALL] = line->ticks,
                                   [BY_COPIES_IN] = line->in,
                                   [BY_COPIES_OUT] = line->out + line->ticks,
                                   [BY_COPIES] = line->in + line->out},
                         .bytes = line->bytes};
}

/* Weights as multiples of 2^-30, rounded down: their exact sum is 1 at most. */
static cut_prices prices_of(const price_master *m)
{
    cut_prices prices = {.bytes = m->price};
    double sum = 0;
    for (int i = 0; i < MASTER_TIMES; i++) {
        prices.weights[i] = ldexp(floor(ldexp(fmin(m->weights[i], 1), 30)), -30);
        sum += prices.weights[i]; /* exact */
    }
    for (int i = 0; i < MASTER_TIMES && sum > 1; i++) {
        double less = fmin(prices.weights[i], sum - 1);
        prices.weights[i] -= less;
        sum -= less;
    }
    return prices;
}

/* What the prices prove beyond the least ticks; never negative. */
static int64_t proven_with_link(const cut *c, int64_t flow, const cut_prices *prices, int64_t room)
{
    int64_t most = INT64_C(1) << 61, sum = flow < most ? flow : most;
    for (int i = 0; i < MASTER_TIMES; i++)
        sum += scaled_down(c, prices->weights[i] * (double)c->base[i]);
    int64_t ticks = proven_ticks(c, sum, prices->bytes, room);
    return ticks > c->x->least_ticks ? ticks - c->x->least_ticks : 0;
}

static void search_with_link(cut *c, int64_t room, cut_line under, int64_t worthless,
                             const cut_watch *watch, cut_answer *answer)
{
    price_master master;
    master_line line = master_line_of(&under);
    bool better = neap_price_master_begin(&master, c->base, room, &line);
    for (int i = 0; i < MOST_LINES && better; i++) {
        cut_prices prices = prices_of(&master);
        set_capacities(c, &prices);
        int64_t flow = neap_max_flow_solve(&c->flow, watch->stop, watch->context, &answer->stopped);
        int64_t ticks = proven_with_link(c, flow, &prices, room);
        answer->ticks = ticks > answer->ticks ? ticks : answer->ticks;
        if (answer->stopped)
            return;
        cut_line next = read_cut(c, &prices);
        note_fates(c, &prices, next.bytes <= room ? c->fates : c->loose);
        line = master_line_of(&next);
        better = neap_price_master_add(&master, &line);
        answer->estimate = master.time - (double)c->x->least_ticks;
        better = better && answer->estimate > (double)answer->ticks &&
                 answer->estimate >= (double)worthless;
    }
}

/* Before there is any cut: make all again that can be, or keep all. */
static void forget_fates(cut *c)
{
    const problem *x = c->x;
    for (uint32_t s = 0; s < x->n_tensors; s++) {
        bool again = c->task_node[x->producer[s]] != NEAP_NONE && c->state[s] != RESIDENT &&
                     c->can_recompute[s];
        c->fates[s] = again ? FATE_RECOMPUTE : FATE_KEEP;
        c->loose[s] = FATE_KEEP;
    }
}

/* What a room for the task proves. */
static void search_room(cut *c, int64_t room, double price, int64_t worthless,
                        const cut_watch *watch, cut_answer *answer)
{
    *answer = (cut_answer){.price = price};
    if (c->bytes <= room) {
        answer->is_slack = true;
        for (uint32_t s = 0; s < c->x->n_tensors; s++)
            c->fates[s] = c->loose[s] = FATE_KEEP;
        return;
    }
    forget_fates(c);
    cut_line under = all_again(c);
    if (under.bytes > room) {
        under = least_bytes(c, watch, &answer->stopped);
        answer->infeasible = under.bytes > room && !answer->stopped;
        if (under.bytes > room)
            return;
    }
    if (c->in)
        search_with_link(c, room, under, worthless, watch, answer);
    else
        search_prices(c, room, under, price, worthless, watch, answer);
}

/* ---- A task ---- */

/* The slower variants of the task leave more room. */
static void search_variants(cut *c, uint32_t task, double price, int64_t worthless,
                            const cut_watch *watch, cut_answer *answer)
{
    const problem *x = c->x;
    int64_t fastest = task_ticks(x, task);
    *answer = (cut_answer){.ticks = INT64_MAX, .infeasible = true, .price = price};
    for (uint32_t v = x->variant_start[task]; v < x->variant_start[task + 1]; v++) {
        const task_variant *variant = &x->variants[v];
        int64_t room = c->room - variant->workspace, more = variant->ticks - fastest;
        cut_answer one;
        if (room < 0 || more >= answer->ticks)
            continue;
        search_room(c, room, price, worthless - more, watch, &one);
        if (one.infeasible)
            continue;
        one.ticks += more;
        one.estimate += (double)more;
        if (one.ticks < answer->ticks)
            *answer = one;
        if (answer->ticks <= worthless || one.stopped) {
            answer->ticks = v + 1 < x->variant_start[task + 1] ? 0 : answer->ticks;
            break; /* the others might prove less */
        }
    }
}

neap_status neap_cut_solve(cut *c, uint32_t task, cut_scope scope, double price, int64_t worthless,
                           const cut_watch *watch, cut_answer *answer, neap_diag *diag)
{
    NEAP_TRY(build_network(c, task, scope, diag));
    choose_scale(c);
    search_variants(c, task, price, worthless - c->x->least_ticks, watch, answer);
    if (!answer->infeasible) {
        answer->ticks += c->x->least_ticks;
        answer->estimate += (double)c->x->least_ticks;
    }
    return NEAP_OK;
}
