/* The executor: one arena, the plan's steps in order, and copies in parallel with them. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "run/block.h"
#include "run/copier.h"
#include "run/program.h"
#include "run/resident.h"

#include <neap/layout.h>
#include <neap/split.h>

#include <string.h>

/* Kernels by signature and variant. */
typedef struct kernel_table {
    run_kernels base;
    run_specs *specs;
    neap_backend *backend;
    run_kernel **items; /* by the first op with the same signature and the variant */
    size_t count;
} kernel_table;

struct neap_runner {
    neap_allocator *allocator;
    const neap_graph *graph;
    neap_backend *backend;
    neap_run_options options;
    neap_plan *placed; /* the plan with addresses assigned here; NULL if it had its own */
    run_specs specs;
    kernel_table kernels;
    run_block arena, host;
    run_program program;
    run_copier *copier;                 /* NULL without transfers */
    run_ticket *copies_in, *copies_out; /* by storage: the latest ones */
    double *step_seconds;
    run_resident resident; /* with options.trace_memory */
};

/* ---- Kernels ---- */

static neap_status check_workspace(kernel_table *table, const run_spec *spec, neap_diag *diag)
{
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count = 0;
    neap_status status =
        table->backend->type->variants(table->backend, spec, workspaces, &count, diag);
    if (status != NEAP_OK)
        return status;
    if (spec->variant < count &&
        workspaces[spec->variant] <= spec->op->variants[spec->variant].workspace)
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
    if (variant >= RUN_MOST_VARIANTS)
        return neap_fail(diag, NEAP_INVALID, "backends have at most %d variants",
                         RUN_MOST_VARIANTS);
    run_kernel **slot =
        &table->items[(size_t)table->specs->alike[op] * RUN_MOST_VARIANTS + variant];
    neap_status status = NEAP_OK;
    if (!*slot) {
        run_spec spec = neap_run_specs_at(table->specs, op, variant);
        status = check_workspace(table, &spec, diag);
        if (status == NEAP_OK)
            status = table->backend->type->prepare(table->backend, &spec, slot, diag);
    }
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
    if (status == NEAP_OK)
        status = neap_run_copier_create(runner->allocator, runner->options.duplex,
                                        runner->program.n_transfers, &runner->copier, diag);
    if (status == NEAP_OK)
        neap_run_copier_pace(runner->copier, &runner->options.pace);
    return status;
}

/* Pieces of values are shown to kernels as one array, through a second mapping of the arena. */
static neap_status create_arena(neap_runner *runner, int64_t bytes, neap_diag *diag)
{
    return neap_graph_whole(runner->graph) == runner->graph
               ? neap_run_block_create(bytes, &runner->arena, diag)
               : neap_run_block_create_file(bytes, &runner->arena, diag);
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
        status = neap_run_block_create(runner->program.host_bytes, &runner->host, diag);
    if (status == NEAP_OK && runner->program.n_transfers > 0)
        status = prepare_copies(runner, diag);
    if (status == NEAP_OK && runner->options.measure)
        status = NEAP_NEW(runner->allocator, runner->program.count, &runner->step_seconds, diag);
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
    neap_run_copier_destroy(runner->copier);
    NEAP_DELETE(allocator, n_values, runner->copies_in);
    NEAP_DELETE(allocator, n_values, runner->copies_out);
    NEAP_DELETE(allocator, runner->program.count, runner->step_seconds);
    neap_run_resident_clear(&runner->resident, allocator);
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
    uint32_t storage = neap_graph_value(runner->graph, value)->storage;
    bool waited = neap_run_copier_wait(runner->copier, runner->copies_in[storage]);
    return (writes && neap_run_copier_wait(runner->copier, runner->copies_out[storage])) || waited;
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

static neap_status compute(neap_runner *runner, const run_action *action, uint64_t seed,
                           neap_run_report *report, neap_diag *diag)
{
    if (!action->kernel)
        return NEAP_OK;
    if (runner->copier)
        wait_for_operands(runner, action, report);
    run_args args = {.in = action->in,
                     .out = action->out,
                     .workspace = action->workspace,
                     .seed = action->salt ? run_random(seed, action->salt) : 0};
    report->computed++;
    if (neap_graph_op(runner->graph, action->id)->n_updates > 0)
        report->state_changed = true;
    return action->kernel->run(action->kernel, &args, diag);
}

static void end_life(neap_runner *runner, const run_action *action, neap_run_report *report)
{
    if (runner->copier) {
        double begin = neap_clock_seconds();
        if (wait_for(runner, action->id, true))
            report->wait_seconds += neap_clock_seconds() - begin;
    }
    if (runner->options.poison && action->data)
        memset(action->data, 0xff, (size_t)action->bytes); /* a NaN in every float */
    if (runner->options.trace_memory && action->data)
        neap_run_resident_release(&runner->resident, action->data, action->bytes);
}

static void transfer(neap_runner *runner, const run_action *action, neap_run_report *report)
{
    uint32_t storage = neap_graph_value(runner->graph, action->id)->storage;
    unsigned char *host = runner->host.data + action->host;
    size_t bytes = (size_t)action->bytes;
    report->transferred += bytes;
    if (action->kind == NEAP_OFFLOAD)
        runner->copies_out[storage] = neap_run_copier_start(
            runner->copier, RUN_OUT, host, action->data, bytes, runner->copies_in[storage]);
    else
        runner->copies_in[storage] = neap_run_copier_start(
            runner->copier, RUN_IN, action->data, host, bytes, runner->copies_out[storage]);
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

static void end_copies(neap_runner *runner)
{
    for (uint32_t v = 0; runner->copier && v < neap_graph_value_count(runner->graph); v++)
        wait_for(runner, v, true);
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

/* Where the step before left state and where this one expects it may overlap: all goes by way of
   the host. */
static void move_state(neap_runner *runner)
{
    const run_program *program = &runner->program;
    for (size_t i = 0; i < program->n_moves; i++) {
        const run_move *move = &program->moves[i];
        memcpy(runner->host.data + move->host, move->from, (size_t)move->bytes);
        if (runner->options.poison)
            memset(move->from, 0xff, (size_t)move->bytes);
        if (runner->options.trace_memory)
            neap_run_resident_release(&runner->resident, move->from, move->bytes);
    }
    for (size_t i = 0; i < program->n_moves; i++)
        memcpy(program->moves[i].to, runner->host.data + program->moves[i].host,
               (size_t)program->moves[i].bytes);
}

neap_status neap_runner_step(neap_runner *runner, uint64_t seed, neap_run_report *report,
                             neap_diag *diag)
{
    neap_run_report ours = {.seconds = 0};
    double begin = neap_clock_seconds(), last = begin;
    neap_status status = NEAP_OK;
    if (runner->options.trace_memory)
        release_results(runner);
    move_state(runner);
    ours.state_changed = runner->program.n_moves > 0;
    for (size_t i = 0; i < runner->program.count && status == NEAP_OK; i++) {
        status = act(runner, &runner->program.actions[i], seed, &ours, diag);
        if (runner->step_seconds) {
            double now = neap_clock_seconds();
            runner->step_seconds[i] = now - last;
            last = now;
        }
        if (runner->options.trace_memory)
            record_memory(runner, i);
    }
    end_copies(runner);
    ours.seconds = neap_clock_seconds() - begin;
    if (report)
        *report = ours;
    return status;
}

const double *neap_runner_step_seconds(const neap_runner *runner)
{
    return runner->step_seconds;
}

const neap_step_memory *neap_runner_step_memory(const neap_runner *runner)
{
    return runner->resident.steps;
}

/* ---- Arrays ---- */

neap_status neap_runner_array(neap_runner *runner, uint32_t value, neap_array *array,
                              neap_diag *diag)
{
    const neap_graph *graph = runner->specs.graph; /* the whole one */
    if (value >= neap_graph_value_count(graph))
        return neap_fail(diag, NEAP_INVALID, "there is no value %lu", (unsigned long)value);
    const neap_value *v = neap_graph_value(graph, value);
    if (v->producer != NEAP_NONE && !neap_graph_is_output(graph, value))
        return neap_fail(diag, NEAP_INVALID, "value \"%s\" is neither an input nor an output",
                         v->name);
    const run_array *like = &runner->specs.arrays.items[value];
    int64_t home = runner->program.homes[value];
    *array =
        (neap_array){.data = home < 0 ? runner->program.finals[value] : runner->host.data + home,
                     .dtype = like->dtype,
                     .rank = like->rank,
                     .shape = like->shape,
                     .strides = like->strides,
                     .elements = neap_run_array_elements(like),
                     .plain = neap_run_array_is_plain(like)};
    return NEAP_OK;
}

/* Copies the elements in row-major order: one by one, or all at once if the array is row-major. */
static void copy_elements(const neap_array *array, unsigned char *plain, bool in)
{
    size_t size = (size_t)neap_dtype_bytes(array->dtype);
    unsigned char *data = array->data;
    int64_t at[NEAP_MAX_RANK] = {0}, place = 0;
    if (array->plain) {
        memcpy(in ? data : plain, in ? plain : data, size * (size_t)array->elements);
        return;
    }
    for (int64_t i = 0; i < array->elements; i++, plain += size) {
        unsigned char *element = data + (size_t)place * size;
        memcpy(in ? element : plain, in ? plain : element, size);
        for (uint32_t d = array->rank; d-- > 0;) {
            place += array->strides[d];
            if (++at[d] < array->shape[d])
                break;
            place -= array->strides[d] * array->shape[d];
            at[d] = 0;
        }
    }
}

neap_status neap_runner_write(neap_runner *runner, uint32_t value, const void *elements,
                              neap_diag *diag)
{
    neap_array array;
    neap_status status = neap_runner_array(runner, value, &array, diag);
    if (status != NEAP_OK)
        return status;
    if (neap_graph_value(runner->specs.graph, value)->producer != NEAP_NONE)
        return neap_fail(diag, NEAP_INVALID, "value \"%s\" is not an input",
                         neap_graph_value(runner->specs.graph, value)->name);
    copy_elements(&array, (unsigned char *)(uintptr_t)elements, true);
    return NEAP_OK;
}

neap_status neap_runner_read(neap_runner *runner, uint32_t value, void *elements, neap_diag *diag)
{
    neap_array array;
    neap_status status = neap_runner_array(runner, value, &array, diag);
    if (status == NEAP_OK)
        copy_elements(&array, elements, false);
    return status;
}
