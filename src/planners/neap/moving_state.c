#include "planners/neap/moving_state.h"

int64_t neap_copy_ticks(const problem *x, const neap_link *link, bool out, int64_t bytes)
{
    int64_t most = x->least_ticks + (INT64_C(1) << 40);
    int64_t ticks = neap_link_ticks(link, x->graph, out, bytes);
    return ticks < most ? ticks : most;
}

/* ---- Which storages ---- */

bool neap_moving_state_exists(const problem *x, const neap_link *link)
{
    return link && link->in_bandwidth > 0 && link->out_bandwidth > 0 &&
           x->state_place != NEAP_STATE_DEVICE;
}

/* Writes the number of each storage that moves to `number`, NEAP_NONE for other values. */
static void number_storages(moving_state *m, const problem *x, bool exists, uint32_t *number)
{
    uint32_t n_values = neap_graph_value_count(x->graph);
    for (uint32_t v = 0; v < n_values; v++) {
        const neap_value *value = neap_graph_value(x->graph, v);
        number[v] = NEAP_NONE;
        if (exists && value->storage == v && value->state && value->bytes > 0)
            number[v] = 0;
    }
    for (uint32_t v = 0; v < n_values; v++) { /* an input that is no state keeps it in memory */
        const neap_value *value = neap_graph_value(x->graph, v);
        if (x->pinned_input[v] || (value->producer == NEAP_NONE && !value->state))
            number[value->storage] = NEAP_NONE;
    }
    for (uint32_t v = 0; v < n_values; v++)
        if (number[v] != NEAP_NONE)
            number[v] = m->n++;
}

/* ---- Readers ---- */

/* The number of the storage of the i-th input, if it moves and no earlier input has it. */
static uint32_t reads_storage(const problem *x, const neap_op *op, uint32_t i,
                              const uint32_t *number)
{
    uint32_t storage = neap_graph_value(x->graph, op->inputs[i])->storage;
    for (uint32_t j = 0; j < i && number[storage] != NEAP_NONE; j++)
        if (neap_graph_value(x->graph, op->inputs[j])->storage == storage)
            return NEAP_NONE;
    return number[storage];
}

static bool list_readers(moving_state *m, neap_arena *arena, const problem *x,
                         const uint32_t *number)
{
    uint32_t *start, s;
    if (!NEAP_TAKE(arena, (size_t)m->n + 1, start))
        return false;
    for (uint32_t k = 0; k < x->n_tasks; k++) {
        const neap_op *op = neap_graph_op(x->graph, x->task_op[k]);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            if ((s = reads_storage(x, op, i, number)) != NEAP_NONE)
                start[s]++;
    }
    for (uint32_t i = 0; i < m->n; i++) /* the ends of the lists, which fill backwards */
        start[i + 1] += start[i];
    m->readers.start = start;
    if (!NEAP_TAKE(arena, start[m->n], m->readers.items))
        return false;
    for (uint32_t k = x->n_tasks; k-- > 0;) {
        const neap_op *op = neap_graph_op(x->graph, x->task_op[k]);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            if ((s = reads_storage(x, op, i, number)) != NEAP_NONE)
                m->readers.items[--start[s]] = k;
    }
    return true;
}

bool neap_moving_state_init(moving_state *m, neap_arena *arena, const problem *x,
                            const neap_link *link)
{
    uint32_t n_values = neap_graph_value_count(x->graph), *number;
    *m = (moving_state){0};
    if (!NEAP_TAKE(arena, n_values, number))
        return false;
    number_storages(m, x, neap_moving_state_exists(x, link), number);
    if (!NEAP_TAKE(arena, m->n, m->storage) || !NEAP_TAKE(arena, m->n, m->bytes) ||
        !NEAP_TAKE(arena, m->n, m->in) || !NEAP_TAKE(arena, m->n, m->out) ||
        !NEAP_TAKE(arena, m->n, m->updater) || !NEAP_TAKE(arena, m->n, m->may_stay) ||
        !list_readers(m, arena, x, number))
        return false;
    for (uint32_t v = 0; v < n_values; v++) {
        uint32_t i = number[v];
        if (i == NEAP_NONE)
            continue;
        m->storage[i] = v;
        m->bytes[i] = neap_graph_value(x->graph, v)->bytes;
        m->in[i] = neap_copy_ticks(x, link, false, m->bytes[i]);
        m->out[i] = neap_copy_ticks(x, link, true, m->bytes[i]);
        m->updater[i] = x->updater[v];
        /* What the method cannot put on the host stays on the device. */
        m->may_stay[i] = x->state_place != NEAP_STATE_HOST || x->state_of_value[v] == NEAP_NONE;
        m->all_bytes += m->bytes[i];
    }
    return true;
}

bool neap_moving_state_is_read(const moving_state *m, uint32_t i, uint32_t task)
{
    for (uint32_t r = m->readers.start[i]; r < m->readers.start[i + 1]; r++)
        if (m->readers.items[r] == task)
            return true;
    return false;
}

int64_t neap_moving_state_least_ticks(const moving_state *m, bool duplex)
{
    int64_t in = 0, out = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        bool is_read = m->readers.start[i] < m->readers.start[i + 1];
        in += !m->may_stay[i] && is_read ? m->in[i] : 0;
        out += !m->may_stay[i] && m->updater[i] != NEAP_NONE ? m->out[i] : 0;
    }
    if (!duplex)
        return in + out;
    return in > out ? in : out;
}

/* ---- Absent at a task ---- */

copy_sums neap_moving_state_from_device(const moving_state *m, uint32_t i)
{
    return (copy_sums){.out_before = m->out[i], .in_after = m->in[i]};
}

copy_sums neap_moving_state_from_host(const moving_state *m, uint32_t i, uint32_t task,
                                      const uint8_t *role)
{
    copy_sums c = {0};
    for (uint32_t r = m->readers.start[i]; r < m->readers.start[i + 1]; r++) {
        uint8_t side = role[m->readers.items[r]];
        if (side == ROLE_PAST || m->readers.items[r] == task)
            c.in_before = m->in[i];
        else if (side == ROLE_FUTURE)
            c.in_after = m->in[i];
    }
    if (m->readers.start[i] < m->readers.start[i + 1] && c.in_before == 0 && c.in_after == 0)
        c.in_either = m->in[i];
    if (m->updater[i] == NEAP_NONE)
        return c;
    if (role[m->updater[i]] == ROLE_PAST)
        c.out_before = m->out[i];
    else if (role[m->updater[i]] == ROLE_FUTURE)
        c.out_after = m->out[i];
    else
        c.out_either = m->out[i];
    return c;
}
