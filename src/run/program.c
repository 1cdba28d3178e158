/* Compiles a plan into actions. */
#include "run/program.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

typedef struct compiler {
    const run_specs *specs;
    const neap_graph *graph;
    run_kernels *kernels;
    run_program *program;
    unsigned char *base;
    const int64_t *offsets;
    size_t n_offsets, next_offset;
    int64_t fixed_bytes, arena_bytes; /* what the plan places lies between */
    bool *resident;                   /* by value */
    uint32_t *holders;                /* by storage: the resident values on it */
    unsigned char **storages;         /* by storage: where it is while it is live */
    int64_t *hosts;                   /* by value: where its copy is on the host, or -1 */
    neap_diag *diag;
} compiler;

static neap_status fail_step(const compiler *c, const neap_step *step, size_t at, const char *why)
{
    return neap_fail(c->diag, NEAP_INVALID, "plan: step %zu: %s %lu: %s", at,
                     neap_step_kind_name(step->kind), (unsigned long)step->id, why);
}

/* The next offset, for so many bytes. Overlaps are the judge's to find. */
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

static neap_status arrive(compiler *c, uint32_t value)
{
    uint32_t storage = neap_graph_value(c->graph, value)->storage;
    c->resident[value] = true;
    if (c->holders[storage]++ > 0)
        return NEAP_OK;
    return take_offset(c, neap_graph_value(c->graph, storage)->bytes, &c->storages[storage]);
}

static unsigned char *address_of(const compiler *c, uint32_t value)
{
    return c->storages[neap_graph_value(c->graph, value)->storage] + c->specs->arrays.begins[value];
}

/* A backward op draws what its forward op drew: it is named after it, with ".bw" behind. */
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
    for (uint32_t i = 0; i < op->n_inputs; i++)
        action->in[i] = address_of(c, op->inputs[i]);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        action->out[i] = address_of(c, op->outputs[i]);
    return NEAP_OK;
}

static neap_status compile_compute(compiler *c, const neap_step *step, size_t at,
                                   run_action *action)
{
    if (step->id >= neap_graph_op_count(c->graph))
        return fail_step(c, step, at, "there is no such op");
    const neap_op *op = neap_graph_op(c->graph, step->id);
    if (step->variant >= op->n_variants)
        return fail_step(c, step, at, "the op has no such variant");
    for (uint32_t i = 0; i < op->n_inputs; i++)
        if (!c->resident[op->inputs[i]])
            return fail_step(c, step, at, "an input is not resident");
    neap_status status = NEAP_OK;
    for (uint32_t i = 0; i < op->n_outputs && status == NEAP_OK; i++) {
        if (c->resident[op->outputs[i]])
            return fail_step(c, step, at, "an output is resident already");
        status = arrive(c, op->outputs[i]);
    }
    unsigned char *workspace = NULL;
    if (status == NEAP_OK && op->variants[step->variant].workspace > 0)
        status = take_offset(c, op->variants[step->variant].workspace, &workspace);
    if (status != NEAP_OK || neap_run_specs_is_view(c->specs, step->id))
        return status;
    action->workspace = workspace;
    action->salt = op->random ? salt_of(op) : 0;
    status = c->kernels->find(c->kernels, step->id, step->variant, &action->kernel, c->diag);
    return status == NEAP_OK ? compile_operands(c, op, action) : status;
}

static void set_storage(const compiler *c, uint32_t value, run_action *action)
{
    uint32_t storage = neap_graph_value(c->graph, value)->storage;
    action->data = c->storages[storage];
    action->bytes = neap_graph_value(c->graph, storage)->bytes;
}

static neap_status compile_free(compiler *c, const neap_step *step, size_t at, run_action *action)
{
    if (!c->resident[step->id])
        return fail_step(c, step, at, "it is not resident");
    c->resident[step->id] = false;
    if (--c->holders[neap_graph_value(c->graph, step->id)->storage] == 0)
        set_storage(c, step->id, action);
    return NEAP_OK;
}

static neap_status compile_transfer(compiler *c, const neap_step *step, size_t at,
                                    run_action *action)
{
    bool out = step->kind == NEAP_OFFLOAD;
    if (c->resident[step->id] != out)
        return fail_step(c, step, at, out ? "it is not resident" : "it is resident");
    if (!out && c->hosts[step->id] < 0)
        return fail_step(c, step, at, "it has no copy on the host");
    neap_status status = out ? NEAP_OK : arrive(c, step->id);
    if (status != NEAP_OK)
        return status;
    set_storage(c, step->id, action);
    if (c->hosts[step->id] < 0) {
        c->hosts[step->id] = c->program->host_bytes;
        c->program->host_bytes += (action->bytes + 63) / 64 * 64;
    }
    action->host = c->hosts[step->id];
    c->program->n_transfers++;
    return NEAP_OK;
}

static neap_status compile_step(compiler *c, const neap_step *step, size_t at, run_action *action)
{
    action->kind = step->kind;
    action->id = step->id;
    if (step->kind == NEAP_COMPUTE)
        return compile_compute(c, step, at, action);
    if (step->kind > NEAP_PREFETCH || step->id >= neap_graph_value_count(c->graph))
        return fail_step(c, step, at, "there is no such step or value");
    if (neap_graph_value(c->graph, step->id)->producer == NEAP_NONE)
        return fail_step(c, step, at, "it is an input, resident throughout");
    if (step->kind == NEAP_FREE)
        return compile_free(c, step, at, action);
    return compile_transfer(c, step, at, action);
}

static neap_status compile_all(compiler *c, const neap_plan *plan)
{
    const neap_step *steps = neap_plan_steps(plan);
    uint32_t n_values = neap_graph_value_count(c->graph);
    neap_status status = NEAP_OK;
    for (uint32_t v = 0; v < n_values && status == NEAP_OK; v++) {
        c->hosts[v] = -1;
        if (neap_graph_value(c->graph, v)->producer == NEAP_NONE)
            status = arrive(c, v);
    }
    for (size_t i = 0; i < c->program->count && status == NEAP_OK; i++)
        status = compile_step(c, &steps[i], i, &c->program->actions[i]);
    if (status == NEAP_OK && c->next_offset != c->n_offsets)
        status = neap_fail(c->diag, NEAP_INVALID, "plan: it has too many offsets");
    for (uint32_t v = 0; v < n_values && status == NEAP_OK; v++) {
        if (c->resident[v])
            c->program->finals[v] = address_of(c, v);
        else if (neap_graph_is_output(c->graph, v))
            status =
                neap_fail(c->diag, NEAP_INVALID, "plan: output \"%s\" is not resident at the end",
                          neap_graph_value(c->graph, v)->name);
    }
    return status;
}

neap_status neap_run_program_init(const run_specs *specs, const neap_plan *plan,
                                  run_kernels *kernels, unsigned char *base, run_program *program,
                                  neap_diag *diag)
{
    neap_allocator *allocator = specs->allocator;
    uint32_t n_values = neap_graph_value_count(specs->graph);
    compiler c = {.specs = specs,
                  .graph = specs->graph,
                  .kernels = kernels,
                  .program = program,
                  .base = base,
                  .fixed_bytes = neap_graph_fixed_bytes(specs->graph),
                  .arena_bytes = neap_plan_arena_bytes(plan),
                  .diag = diag};
    c.offsets = neap_plan_offsets(plan, &c.n_offsets);
    *program = (run_program){.count = neap_plan_step_count(plan), .allocator = allocator};
    neap_arena_init(&program->memory, allocator);
    neap_status status = NEAP_NEW(allocator, program->count, &program->actions, diag);
    program->finals = neap_arena_alloc(&program->memory, n_values, sizeof *program->finals);
    if (status == NEAP_OK && !program->finals)
        status = neap_fail_no_memory(diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &c.resident, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &c.holders, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &c.storages, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, n_values, &c.hosts, diag);
    if (status == NEAP_OK)
        status = compile_all(&c, plan);
    NEAP_DELETE(allocator, n_values, c.hosts);
    NEAP_DELETE(allocator, n_values, c.storages);
    NEAP_DELETE(allocator, n_values, c.holders);
    NEAP_DELETE(allocator, n_values, c.resident);
    return status;
}

void neap_run_program_clear(run_program *program)
{
    NEAP_DELETE(program->allocator, program->count, program->actions);
    neap_arena_clear(&program->memory);
    memset(program, 0, sizeof *program);
}
