/* Compiles a plan into actions. */
#include "run/program.h"

#include "base/fail.h"
#include "base/hash.h"
#include "plan/residency.h"

#include <neap/split.h>

#include <string.h>

typedef struct compiler {
    const run_specs *specs;  /* of the whole graph */
    const neap_graph *graph; /* the plan's */
    run_kernels *kernels;
    run_program *program;
    unsigned char *base;
    const int64_t *offsets;
    size_t n_offsets, next_offset;
    int64_t fixed_bytes, arena_bytes; /* the plan places everything between these two */
    neap_residency residency;
    unsigned char **storages; /* by storage: its address while it is live */
    unsigned char **firsts;   /* by storage: its address before the first step, or NULL */
    bool *from_host;          /* by value: state that is on the host at the start */
    int64_t *hosts;           /* by value: offset of its copy on the host, or -1 */
    run_part *parts;          /* the pieces of a value; room for as many as any has */
    neap_diag *diag;
} compiler;

/* The next offset, checked for this many bytes. The judge checks for overlaps. */
static neap_status take_offset(compiler *c, int64_t bytes, unsigned char **address)
{
    if (c->next_offset == c->n_offsets)
        return neap_fail(c->diag, NEAP_INVALID, "plan: it has too few offsets");
    int64_t offset = c->offsets[c->next_offset];
    if (offset < c->fixed_bytes || offset > c->arena_bytes || bytes > c->arena_bytes - offset)
        return neap_fail(c->diag, NEAP_INVALID,
                         "plan: offset %zu puts %lld bytes outside the arena", c->next_offset,
                         (long long)bytes);
    *address = c->base + offset;
    c->next_offset++;
    return NEAP_OK;
}

/* Addresses for the storages that have become live. */
static neap_status place_storages(compiler *c)
{
    const neap_residency *r = &c->residency;
    for (uint32_t i = 0; i < r->n_began; i++) {
        uint32_t storage = r->began[i];
        int64_t bytes = neap_graph_value(c->graph, storage)->bytes;
        NEAP_TRY(take_offset(c, bytes, &c->storages[storage]));
    }
    return NEAP_OK;
}

/* The address of a value of the whole graph, whose pieces are all live. */
static neap_status find_address(compiler *c, uint32_t value, unsigned char **address)
{
    uint32_t storage = neap_graph_value(c->specs->graph, value)->storage, count;
    uint32_t first = neap_graph_pieces(c->graph, storage, &count);
    *address = c->storages[first];
    if (count > 1) {
        for (uint32_t i = 0; i < count; i++)
            c->parts[i] = (run_part){c->storages[first + i] - c->base,
                                     neap_graph_value(c->graph, first + i)->bytes};
        NEAP_TRY(neap_run_windows_find(&c->program->windows, storage, c->parts, count, address,
                                       c->diag));
    }
    *address += c->specs->arrays.begins[value];
    return NEAP_OK;
}

/*
 * A backward op draws the same numbers as its forward op; its name is that op's with the suffix
 * ".bw".
 */
static uint64_t salt_of(const neap_op *op)
{
    size_t length = strlen(op->name);
    if (length > 3 && strcmp(op->name + length - 3, ".bw") == 0)
        length -= 3;
    return neap_hash_bytes(NEAP_HASH_BEGIN, op->name, length);
}

static neap_status compile_operands(compiler *c, const neap_op *op, run_action *action)
{
    action->in = neap_arena_alloc(&c->program->memory, op->n_inputs, sizeof *action->in);
    action->out = neap_arena_alloc(&c->program->memory, op->n_outputs, sizeof *action->out);
    if (!action->in || !action->out)
        return neap_fail_no_memory(c->diag);
    unsigned char *address;
    for (uint32_t i = 0; i < op->n_inputs; i++) {
        NEAP_TRY(find_address(c, op->inputs[i], &address));
        action->in[i] = address;
    }
    for (uint32_t i = 0; i < op->n_outputs; i++) {
        NEAP_TRY(find_address(c, op->outputs[i], &address));
        action->out[i] = address;
    }
    return NEAP_OK;
}

/* The output takes over the address of the input. */
static neap_status compile_in_place(compiler *c, const neap_step *step, size_t at)
{
    if (!neap_run_specs_write_over(c->specs, neap_graph_whole_op(c->graph, step->id)))
        return neap_residency_fail(&c->residency, step, at,
                                   "no kernel of this type of op writes over that input");
    c->storages[neap_graph_op(c->graph, step->id)->in_place_output] =
        c->storages[c->residency.passed_on];
    return NEAP_OK;
}

static neap_status compile_compute(compiler *c, const neap_step *step, run_action *action)
{
    uint32_t id = neap_graph_whole_op(c->graph, step->id);
    const neap_op *op = neap_graph_op(c->specs->graph, id);
    int64_t bytes = neap_graph_op(c->graph, step->id)->variants[step->variant].workspace;
    unsigned char *workspace = NULL;
    if (bytes > 0)
        NEAP_TRY(take_offset(c, bytes, &workspace));
    if (neap_run_specs_is_view(c->specs, id))
        return NEAP_OK;
    action->workspace = workspace;
    action->bytes = bytes;
    action->in_place = step->in_place;
    action->salt = op->random ? salt_of(op) : 0;
    NEAP_TRY(c->kernels->find(c->kernels, id, step->variant, &action->kernel, c->diag));
    return compile_operands(c, op, action);
}

static void set_storage(const compiler *c, uint32_t storage, run_action *action)
{
    action->data = c->storages[storage];
    action->bytes = neap_graph_value(c->graph, storage)->bytes;
}

static int64_t take_host(compiler *c, int64_t bytes)
{
    int64_t offset = c->program->host_bytes;
    c->program->host_bytes += (bytes + 63) / 64 * 64;
    return offset;
}

/* Where the host has the copy of a value. Views of state share one: an update changes them all. */
static int64_t host_of(compiler *c, uint32_t value)
{
    const neap_value *v = neap_graph_value(c->graph, value);
    uint32_t owner = v->state ? v->storage : value;
    if (c->hosts[owner] < 0)
        c->hosts[owner] = take_host(c, neap_graph_value(c->graph, v->storage)->bytes);
    return c->hosts[owner];
}

static void compile_transfer(compiler *c, uint32_t value, run_action *action)
{
    set_storage(c, neap_graph_value(c->graph, value)->storage, action);
    action->host = host_of(c, value);
    c->program->n_transfers++;
}

static neap_status compile_step(compiler *c, const neap_step *step, size_t at, run_action *action)
{
    action->kind = step->kind;
    action->id = step->id;
    NEAP_TRY(neap_residency_step(&c->residency, step, at));
    NEAP_TRY(place_storages(c));
    if (step->kind == NEAP_COMPUTE && step->in_place)
        NEAP_TRY(compile_in_place(c, step, at));
    if (step->kind == NEAP_COMPUTE)
        return compile_compute(c, step, action);
    if (step->kind != NEAP_FREE)
        compile_transfer(c, step->id, action);
    else if (c->residency.ended != NEAP_NONE)
        set_storage(c, c->residency.ended, action);
    return NEAP_OK;
}

/* ---- Between the end of a step and the start of the next ---- */

/* What is on the host at the start, and where everything else is. */
static neap_status begin(compiler *c, const neap_plan *plan)
{
    size_t count;
    const uint32_t *values = neap_plan_host_at_start(plan, &count);
    NEAP_TRY(place_storages(c));
    for (uint32_t v = 0; v < neap_graph_value_count(c->graph); v++) {
        c->hosts[v] = -1;
        c->firsts[v] = c->storages[v];
    }
    for (size_t i = 0; i < count; i++) {
        c->from_host[values[i]] = true;
        host_of(c, values[i]);
    }
    return NEAP_OK;
}

/* Outputs are there, and state is where it was. */
static neap_status check_end(const compiler *c)
{
    const neap_residency *r = &c->residency;
    for (uint32_t v = 0; v < neap_graph_value_count(c->graph); v++) {
        const neap_value *value = neap_graph_value(c->graph, v);
        if (!r->resident[v] && neap_graph_is_output(c->graph, v))
            return neap_fail(c->diag, NEAP_INVALID,
                             "plan: output \"%s\" is not resident at the end", value->name);
        if (value->state && r->resident[v] == c->from_host[v])
            return neap_fail(c->diag, NEAP_INVALID,
                             "plan: state \"%s\" is %s at the end, not %s as at the start",
                             value->name, c->from_host[v] ? "on the device" : "on the host",
                             c->from_host[v] ? "on the host" : "on the device");
        if (c->from_host[v] && r->updated[value->storage] && !r->current[v])
            return neap_fail(c->diag, NEAP_INVALID,
                             "plan: the host's copy of \"%s\" is out of date at the end",
                             value->name);
    }
    return NEAP_OK;
}

/* Addresses of what is resident at the end, or on the host between steps; inputs and outputs are
   never in pieces. */
static neap_status find_finals(compiler *c)
{
    for (uint32_t v = 0; v < neap_graph_value_count(c->specs->graph); v++) {
        uint32_t count, first = neap_graph_pieces(c->graph, v, &count);
        c->program->homes[v] = -1;
        if (count == 1 && c->from_host[first])
            c->program->homes[v] = host_of(c, first) + c->specs->arrays.begins[v];
        else if (count == 1 && c->residency.resident[first])
            NEAP_TRY(find_address(c, v, &c->program->finals[v]));
    }
    return NEAP_OK;
}

/* State that was away and has come back to another address. */
static neap_status list_moves(compiler *c)
{
    uint32_t n_values = neap_graph_value_count(c->graph);
    for (int fills = 0; fills < 2; fills++) {
        size_t count = 0;
        for (uint32_t v = 0; v < n_values; v++) {
            if (!c->firsts[v] || c->residency.holders[v] == 0 || c->firsts[v] == c->storages[v])
                continue;
            if (fills)
                c->program->moves[count] = (run_move){c->storages[v], c->firsts[v],
                                                      neap_graph_value(c->graph, v)->bytes, -1};
            count++;
        }
        c->program->n_moves = count;
        if (!fills && !NEAP_TAKE(&c->program->memory, count, c->program->moves))
            return neap_fail_no_memory(c->diag);
    }
    return NEAP_OK;
}

static bool overlap(const unsigned char *a, int64_t a_bytes, const unsigned char *b,
                    int64_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + (uintptr_t)b_bytes &&
           (uintptr_t)b < (uintptr_t)a + (uintptr_t)a_bytes;
}

/* Whether the place where moves[i] goes has something that has not moved yet, of moves[first..];
   itself, too. */
static bool is_blocked(const run_program *program, size_t first, size_t i)
{
    const run_move *moves = program->moves;
    for (size_t k = first; k < program->n_moves; k++)
        if (overlap(moves[i].to, moves[i].bytes, moves[k].from, moves[k].bytes))
            return true;
    return false;
}

/* Moves straight to places that are free by then come first. If there are none left, state goes to
   the host until all others have moved. */
static neap_status find_moves(compiler *c)
{
    run_program *program = c->program;
    NEAP_TRY(list_moves(c));
    for (size_t done = 0; done < program->n_moves; done++) {
        size_t i = done;
        while (i < program->n_moves && is_blocked(program, done, i))
            i++;
        bool free = i < program->n_moves;
        run_move next = program->moves[free ? i : done];
        next.host = free ? -1 : take_host(c, next.bytes);
        program->moves[free ? i : done] = program->moves[done];
        program->moves[done] = next;
    }
    return NEAP_OK;
}

static neap_status compile_all(compiler *c, const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    NEAP_TRY(begin(c, plan));
    for (size_t i = 0; i < c->program->count; i++)
        NEAP_TRY(compile_step(c, &steps[i], i, &c->program->actions[i]));
    if (c->next_offset != c->n_offsets)
        return neap_fail(c->diag, NEAP_INVALID, "plan: it has too many offsets");
    NEAP_TRY(check_end(c));
    NEAP_TRY(find_finals(c));
    return find_moves(c);
}

static uint32_t most_pieces(const neap_graph *graph)
{
    uint32_t most = 1, count;
    for (uint32_t v = 0; v < neap_graph_value_count(neap_graph_whole(graph)); v++) {
        neap_graph_pieces(graph, v, &count);
        most = count > most ? count : most;
    }
    return most;
}

neap_status neap_run_program_init(const run_specs *specs, const neap_graph *graph,
                                  const neap_plan *plan, run_kernels *kernels,
                                  const run_block *arena, run_program *program, neap_diag *diag)
{
    neap_allocator *allocator = specs->allocator;
    uint32_t n_values = neap_graph_value_count(graph);
    uint32_t n_whole = neap_graph_value_count(specs->graph);
    compiler c = {.specs = specs,
                  .graph = graph,
                  .kernels = kernels,
                  .program = program,
                  .base = arena->data,
                  .fixed_bytes = neap_graph_fixed_bytes(graph),
                  .arena_bytes = neap_plan_arena_bytes(plan),
                  .diag = diag};
    c.offsets = neap_plan_offsets(plan, &c.n_offsets);
    *program = (run_program){.count = neap_plan_step_count(plan)};
    neap_arena_init(&program->memory, allocator);
    neap_status status = neap_residency_init(&c.residency, allocator, graph, plan, "plan: ", diag);
    neap_arena *scratch = &c.residency.arena;
    if (status == NEAP_OK &&
        (!NEAP_TAKE(&program->memory, program->count, program->actions) ||
         !NEAP_TAKE(&program->memory, n_whole, program->finals) ||
         !NEAP_TAKE(&program->memory, n_whole, program->homes) ||
         !NEAP_TAKE(scratch, n_values, c.storages) || !NEAP_TAKE(scratch, n_values, c.firsts) ||
         !NEAP_TAKE(scratch, n_values, c.from_host) || !NEAP_TAKE(scratch, n_values, c.hosts) ||
         !NEAP_TAKE(scratch, most_pieces(graph), c.parts)))
        status = neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = neap_run_windows_init(&program->windows, allocator, arena, n_whole, diag);
    if (status == NEAP_OK)
        status = compile_all(&c, plan);
    neap_residency_clear(&c.residency);
    return status;
}

void neap_run_program_clear(run_program *program)
{
    neap_run_windows_clear(&program->windows);
    neap_arena_clear(&program->memory);
    memset(program, 0, sizeof *program);
}
