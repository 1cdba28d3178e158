/* The executor: one arena, the plan's steps in order, and copies in parallel with them. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "run/runner_internal.h"

#include <neap/layout.h>
#include <neap/split.h>

#include <string.h>

/* ---- Kernels ---- */

/* `variant` is the graph's; the spec has the backend's number of its kernel. */
static neap_status check_workspace(kernel_table *table, const run_spec *spec, uint32_t variant,
                                   neap_diag *diag)
{
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count = 0;
    neap_status status =
        table->backend->type->variants(table->backend, spec, workspaces, &count, diag);
    if (status != NEAP_OK)
        return status;
    if (spec->variant < count && workspaces[spec->variant] <= spec->op->variants[variant].workspace)
        return NEAP_OK;
    return neap_fail(diag, NEAP_INVALID,
                     "op \"%s\": the graph's variants are not those of backend %s; fit or profile "
                     "it for this backend, then plan again",
                     spec->op->name, table->backend->type->name);
}

static neap_status find_kernel(run_kernels *self, uint32_t op, uint32_t variant,
                               const run_kernel **kernel, neap_diag *diag)
{
    kernel_table *table = (kernel_table *)self;
    uint32_t number = neap_graph_op(table->specs->graph, op)->variants[variant].kernel;
    number = number > 0 ? number - 1 : variant;
    if (number >= RUN_MOST_VARIANTS)
        return neap_fail(diag, NEAP_INVALID, "backends have at most %d variants",
                         RUN_MOST_VARIANTS);
    run_kernel **slot = &table->items[(size_t)table->specs->alike[op] * RUN_MOST_VARIANTS + number];
    run_spec spec = neap_run_specs_at(table->specs, op, number);
    neap_status status = check_workspace(table, &spec, variant, diag);
    if (status == NEAP_OK && !*slot)
        status = table->backend->type->prepare(table->backend, &spec, slot, diag);
    *kernel = *slot;
    return status;
}

static void clear_kernels(kernel_table *table, neap_allocator *allocator)
{
    for (size_t i = 0; table->items && i < table->count; i++)
        if (table->items[i])
            table->items[i]->destroy(table->items[i]);
    NEAP_DELETE(allocator, table->count, table->items);
}

/* ---- Creating ---- */

void neap_run_options_init(neap_run_options *options)
{
    *options = (neap_run_options){.poison = false};
#ifndef NDEBUG
    options->poison = true;
#endif
}

int64_t neap_run_alignment(const neap_graph *graph)
{
    return neap_graph_whole(graph) == graph ? NEAP_RUN_ALIGNMENT : neap_run_page_bytes();
}

static bool has_addresses(const neap_plan *plan, int64_t alignment)
{
    size_t count;
    const int64_t *offsets = neap_plan_offsets(plan, &count);
    for (size_t i = 0; offsets && i < count; i++)
        if (offsets[i] % alignment != 0)
            return false;
    return offsets != NULL;
}

static neap_status place(neap_runner *runner, const neap_plan *plan, neap_diag *diag)
{
    neap_status status =
        neap_plan_create(runner->allocator, neap_plan_graph_name(plan), neap_plan_method(plan),
                         neap_plan_budget(plan), &runner->placed, diag);
    const neap_step *steps = neap_plan_steps(plan);
    for (size_t i = 0; i < neap_plan_step_count(plan) && status == NEAP_OK; i++)
        status = neap_plan_append(runner->placed, steps[i], diag);
    size_t n_on_host;
    const uint32_t *on_host = neap_plan_host_at_start(plan, &n_on_host);
    if (status == NEAP_OK)
        status = neap_plan_set_host_at_start(runner->placed, on_host, n_on_host, diag);
    if (status != NEAP_OK)
        return status;
    neap_layout_options options;
    neap_layout_options_init(&options);
    options.alignment = neap_run_alignment(runner->graph);
    return neap_layout_assign(runner->allocator, runner->graph, runner->placed, &options, diag);
}

static neap_status prepare_copies(neap_runner *runner, neap_diag *diag)
{
    uint32_t n_values = neap_graph_value_count(runner->graph);
    neap_status status = NEAP_NEW(runner->allocator, n_values, &runner->copies_in, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(runner->allocator, n_values, &runner->copies_out, diag);
    return status;
}

static neap_status prepare_queue(neap_runner *runner, neap_diag *diag)
{
    const run_device_type *device = runner->backend->type->device;
    run_queue_options options = {.duplex = runner->options.duplex,
                                 .pace = runner->options.pace,
                                 .stress = runner->options.stress,
                                 .transfers = runner->program.n_transfers,
                                 .timed = runner->options.measure ? runner->program.count : 0};
    return device ? device->create_queue(runner->backend, &options, &runner->queue, diag)
                  : neap_run_host_queue_create(runner->allocator, &options, &runner->queue, diag);
}

/* Pieces of values are shown to kernels as one array, through a second mapping of the arena. */
static neap_status create_arena(neap_runner *runner, int64_t bytes, neap_diag *diag)
{
    bool split = neap_graph_whole(runner->graph) != runner->graph;
    bool on_device = runner->backend->type->device != NULL;
    if (on_device && (split || runner->options.trace_memory))
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "%s needs a backend that works in the memory of the host; %s does not",
                         split ? "running a graph with values in pieces"
                               : "recording what is resident at every step",
                         runner->backend->type->name);
    return split ? neap_run_block_create_file(bytes, &runner->arena, diag)
                 : neap_run_block_create_for(runner->backend, false, bytes, &runner->arena, diag);
}

static neap_status prepare(neap_runner *runner, const neap_plan *plan, neap_diag *diag)
{
    const neap_graph *whole = neap_graph_whole(runner->graph);
    neap_status status =
        neap_run_specs_init(runner->allocator, whole, runner->backend, &runner->specs, diag);
    if (status == NEAP_OK)
        status = neap_run_specs_check(&runner->specs, runner->backend, diag);
    if (status == NEAP_OK && !has_addresses(plan, neap_run_alignment(runner->graph))) {
        status = place(runner, plan, diag);
        plan = runner->placed;
    }
    runner->kernels =
        (kernel_table){.base = {find_kernel},
                       .specs = &runner->specs,
                       .backend = runner->backend,
                       .count = (size_t)neap_graph_op_count(whole) * RUN_MOST_VARIANTS};
    if (status == NEAP_OK)
        status = NEAP_NEW(runner->allocator, runner->kernels.count, &runner->kernels.items, diag);
    if (status == NEAP_OK)
        status = create_arena(runner, neap_plan_arena_bytes(plan), diag);
    if (status == NEAP_OK)
        status = neap_run_program_init(&runner->specs, runner->graph, plan, &runner->kernels.base,
                                       &runner->arena, &runner->program, diag);
    if (status == NEAP_OK && runner->program.host_bytes > 0)
        status = neap_run_block_create_for(runner->backend, true, runner->program.host_bytes,
                                           &runner->host, diag);
    if (status == NEAP_OK && runner->program.n_transfers > 0)
        status = prepare_copies(runner, diag);
    if (status == NEAP_OK)
        status = prepare_queue(runner, diag);
    if (status == NEAP_OK && runner->options.measure)
        status = NEAP_NEW(runner->allocator, runner->program.count, &runner->copies, diag);
    if (status == NEAP_OK && runner->backend->type->device)
        status = NEAP_NEW(runner->allocator, neap_graph_value_count(whole), &runner->mirrors, diag);
    if (status == NEAP_OK && runner->options.trace_memory)
        status = neap_run_resident_init(runner->allocator, &runner->arena, runner->program.count,
                                        &runner->resident, diag);
    return status;
}

neap_status neap_runner_create(neap_allocator *allocator, const neap_graph *graph,
                               const neap_plan *plan, neap_backend *backend,
                               const neap_run_options *options, neap_runner **result,
                               neap_diag *diag)
{
    neap_runner *runner;
    allocator = neap_allocator_or_system(allocator);
    neap_status status = NEAP_NEW(allocator, 1, &runner, diag);
    if (status != NEAP_OK)
        return status;
    runner->allocator = allocator;
    runner->graph = graph;
    runner->backend = backend;
    if (options)
        runner->options = *options;
    else
        neap_run_options_init(&runner->options);
    status = prepare(runner, plan, diag);
    if (status == NEAP_OK)
        *result = runner;
    else
        neap_runner_destroy(runner);
    return status;
}

void neap_runner_destroy(neap_runner *runner)
{
    if (!runner)
        return;
    neap_allocator *allocator = runner->allocator;
    uint32_t n_values = neap_graph_value_count(runner->graph);
    if (runner->queue)
        runner->queue->type->destroy(runner->queue);
    uint32_t n_whole = neap_graph_value_count(neap_graph_whole(runner->graph));
    for (uint32_t v = 0; runner->mirrors && v < n_whole; v++)
        neap_run_block_destroy(&runner->mirrors[v]);
    NEAP_DELETE(allocator, n_whole, runner->mirrors);
    NEAP_DELETE(allocator, n_values, runner->copies_in);
    NEAP_DELETE(allocator, n_values, runner->copies_out);
    neap_run_resident_clear(&runner->resident, allocator);
    NEAP_DELETE(allocator, runner->program.count, runner->copies);
    neap_run_program_clear(&runner->program);
    clear_kernels(&runner->kernels, allocator);
    neap_run_specs_clear(&runner->specs);
    neap_plan_destroy(runner->placed);
    neap_run_block_destroy(&runner->arena);
    neap_run_block_destroy(&runner->host);
    NEAP_DELETE(allocator, 1, runner);
}

int64_t neap_runner_arena_bytes(const neap_runner *runner)
{
    return runner->arena.bytes;
}

int64_t neap_runner_host_bytes(const neap_runner *runner)
{
    return runner->host.bytes;
}

/* ---- Running ---- */

/* Copies that must have ended before an op touches the storage of a value. */
static bool wait_for(neap_runner *runner, uint32_t value, bool writes)
{
    run_queue *queue = runner->queue;
    uint32_t storage = neap_graph_value(runner->graph, value)->storage;
    bool waited = queue->type->wait(queue, runner->copies_in[storage]);
    return (writes && queue->type->wait(queue, runner->copies_out[storage])) || waited;
}

/* What an op overwrites waits for all copies of it, what it reads only for those that bring it. */
static void wait_for_operands(neap_runner *runner, const run_action *action,
                              neap_run_report *report)
{
    const neap_op *op = neap_graph_op(runner->graph, action->id);
    double begin = neap_clock_seconds();
    bool waited = false;
    for (uint32_t i = 0; i < op->n_inputs; i++)
        waited |= wait_for(runner, op->inputs[i], false);
    for (uint32_t i = 0; i < op->n_outputs; i++)
        waited |= wait_for(runner, op->outputs[i], true);
    for (uint32_t i = 0; i < op->n_updates; i++)
        waited |= wait_for(runner, op->updates[i], true);
    if (action->in_place)
        waited |= wait_for(runner, op->in_place_input, true);
    if (waited)
        report->wait_seconds += neap_clock_seconds() - begin;
}

static void mark(neap_runner *runner, const run_action *action, bool ends)
{
    if (runner->queue->times)
        runner->queue->type->mark(runner->queue, (size_t)(action - runner->program.actions), ends);
}

static neap_status compute(neap_runner *runner, const run_action *action, uint64_t seed,
                           neap_run_report *report, neap_diag *diag)
{
    if (!action->kernel)
        return NEAP_OK;
    if (runner->copies_in)
        wait_for_operands(runner, action, report);
    runner->queue->type->delay(runner->queue);
    mark(runner, action, false); /* again: without the waiting */
    run_args args = {.in = action->in,
                     .out = action->out,
                     .workspace = action->workspace,
                     .seed = action->salt,
                     .step_seed = runner->queue->step_seed};
    if (action->salt && !args.step_seed)
        args.seed = run_random(seed, action->salt);
    report->computed++;
    if (neap_graph_op(runner->graph, action->id)->n_updates > 0)
        report->state_changed = true;
    return action->kernel->run(action->kernel, &args, diag);
}

static void end_life(neap_runner *runner, const run_action *action, neap_run_report *report)
{
    if (runner->copies_in) {
        double begin = neap_clock_seconds();
        if (wait_for(runner, action->id, true))
            report->wait_seconds += neap_clock_seconds() - begin;
    }
    if (runner->options.poison && action->data)
        runner->queue->type->fill(runner->queue, action->data, (size_t)action->bytes); /* NaNs */
    if (runner->options.trace_memory && action->data)
        neap_run_resident_release(&runner->resident, action->data, action->bytes);
}

static void transfer(neap_runner *runner, const run_action *action, neap_run_report *report)
{
    run_queue *queue = runner->queue;
    uint32_t storage = neap_graph_value(runner->graph, action->id)->storage;
    unsigned char *host = runner->host.data + action->host;
    size_t bytes = (size_t)action->bytes;
    report->transferred += bytes;
    if (action->kind == NEAP_OFFLOAD)
        runner->copies_out[storage] = queue->type->copy(queue, RUN_OUT, host, action->data, bytes,
                                                        runner->copies_in[storage]);
    else
        runner->copies_in[storage] = queue->type->copy(queue, RUN_IN, action->data, host, bytes,
                                                       runner->copies_out[storage]);
    if (runner->copies)
        runner->copies[action - runner->program.actions] =
            action->kind == NEAP_OFFLOAD ? runner->copies_out[storage] : runner->copies_in[storage];
}

static neap_status act(neap_runner *runner, const run_action *action, uint64_t seed,
                       neap_run_report *report, neap_diag *diag)
{
    switch (action->kind) {
    case NEAP_COMPUTE:
        return compute(runner, action, seed, report, diag);
    case NEAP_FREE:
        if (neap_graph_value(runner->graph, action->id)->state)
            report->state_changed = true;
        end_life(runner, action, report);
        return NEAP_OK;
    case NEAP_OFFLOAD:
    case NEAP_PREFETCH:
        transfer(runner, action, report);
    }
    return NEAP_OK;
}

/* The results of the step before are no longer needed, and the plan does not count them. */
static void release_results(neap_runner *runner)
{
    const neap_graph *graph = runner->specs.graph; /* the whole one */
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (value->storage == v && value->producer != NEAP_NONE && runner->program.finals[v])
            neap_run_resident_release(&runner->resident, runner->program.finals[v], value->bytes);
    }
}

static void record_memory(neap_runner *runner, size_t step)
{
    const run_action *action = &runner->program.actions[step];
    neap_step_memory *memory = &runner->resident.steps[step];
    memory->during = memory->after = neap_run_resident_bytes(&runner->resident);
    if (action->kind != NEAP_COMPUTE || !action->workspace)
        return;
    neap_run_resident_release(&runner->resident, action->workspace, action->bytes);
    memory->after = neap_run_resident_bytes(&runner->resident);
}

/* From where the step before left state to where this one expects it. */
static void move_state(neap_runner *runner)
{
    const run_program *program = &runner->program;
    run_queue *queue = runner->queue;
    for (size_t i = 0; i < program->n_moves; i++) {
        const run_move *move = &program->moves[i];
        size_t bytes = (size_t)move->bytes;
        if (move->host < 0)
            queue->type->shift(queue, move->to, move->from, bytes);
        else
            queue->type->move(queue, RUN_OUT, runner->host.data + move->host, move->from, bytes);
        if (runner->options.poison)
            queue->type->fill(queue, move->from, bytes);
        if (runner->options.trace_memory)
            neap_run_resident_release(&runner->resident, move->from, move->bytes);
    }
    for (size_t i = 0; i < program->n_moves; i++)
        if (program->moves[i].host >= 0)
            queue->type->move(queue, RUN_IN, program->moves[i].to,
                              runner->host.data + program->moves[i].host,
                              (size_t)program->moves[i].bytes);
}

/* Gives all work of a step to the queue. */
static neap_status give_step(neap_runner *runner, uint64_t seed, neap_run_report *report,
                             neap_diag *diag)
{
    neap_status status = NEAP_OK;
    if (runner->options.trace_memory)
        release_results(runner);
    move_state(runner);
    report->state_changed = runner->program.n_moves > 0;
    for (size_t i = 0; i < runner->program.count && status == NEAP_OK; i++) {
        const run_action *action = &runner->program.actions[i];
        mark(runner, action, false);
        status = act(runner, action, seed, report, diag);
        mark(runner, action, true);
        if (runner->options.trace_memory)
            record_memory(runner, i);
    }
    return status;
}

/* All copies have ended. */
static void note_copies(neap_runner *runner)
{
    run_queue *queue = runner->queue;
    for (size_t i = 0; runner->copies && i < runner->program.count; i++)
        if (runner->copies[i].number > 0)
            queue->times[i] = queue->type->copied(queue, runner->copies[i]);
}

static neap_status run_step(neap_runner *runner, uint64_t seed, neap_run_report *report,
                            neap_diag *diag)
{
    run_queue *queue = runner->queue;
    bool replayed = false;
    *report = (neap_run_report){.seconds = 0};
    neap_status status = queue->type->begin(queue, seed, &replayed, diag);
    if (replayed) /* if that failed, some of it may have run */
        *report = runner->recorded;
    else if (status == NEAP_OK)
        status = give_step(runner, seed, report, diag);
    neap_status ended = queue->type->end(queue, status == NEAP_OK, status == NEAP_OK ? diag : NULL);
    return status == NEAP_OK ? ended : status;
}

neap_status neap_runner_step(neap_runner *runner, uint64_t seed, neap_run_report *report,
                             neap_diag *diag)
{
    double begin = neap_clock_seconds();
    neap_run_report ours;
    neap_status status = run_step(runner, seed, &ours, diag);
    if (runner->queue->again)
        status = run_step(runner, seed, &ours, diag);
    if (status == NEAP_OK)
        note_copies(runner);
    runner->recorded = ours;
    ours.seconds = neap_clock_seconds() - begin;
    if (report)
        *report = ours;
    return status;
}

const neap_step_time *neap_runner_step_times(const neap_runner *runner)
{
    return runner->queue->times;
}

const neap_step_memory *neap_runner_step_memory(const neap_runner *runner)
{
    return runner->resident.steps;
}
