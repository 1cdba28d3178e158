/* neap/plan.h: the list of steps. */
#include "plan/plan_internal.h"

#include "base/fail.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

const char *neap_step_kind_name(neap_step_kind kind)
{
    static const char *const names[] = {"compute", "free", "offload", "prefetch"};
    return (size_t)kind < 4 ? names[kind] : "unknown";
}

static neap_status copy_text(neap_allocator *allocator, const char *text, char **copy,
                             neap_diag *diag)
{
    NEAP_TRY(NEAP_NEW(allocator, strlen(text) + 1, copy, diag));
    memcpy(*copy, text, strlen(text));
    return NEAP_OK;
}

static void delete_text(neap_allocator *allocator, char *text)
{
    if (text)
        NEAP_DELETE(allocator, strlen(text) + 1, text);
}

neap_status neap_plan_create(neap_allocator *allocator, const char *graph_name, const char *method,
                             int64_t budget, neap_plan **result, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    neap_plan *plan;
    *result = NULL;
    neap_status status = NEAP_NEW(allocator, 1, &plan, diag);
    if (status != NEAP_OK)
        return status;
    plan->allocator = allocator;
    plan->budget = budget;
    plan->arena_bytes = -1;
    status = copy_text(allocator, graph_name, &plan->graph_name, diag);
    if (status == NEAP_OK)
        status = copy_text(allocator, method, &plan->method, diag);
    if (status == NEAP_OK)
        *result = plan;
    else
        neap_plan_destroy(plan);
    return status;
}

void neap_plan_destroy(neap_plan *plan)
{
    if (!plan)
        return;
    neap_allocator *allocator = plan->allocator;
    delete_text(allocator, plan->graph_name);
    delete_text(allocator, plan->method);
    NEAP_DELETE(allocator, plan->step_capacity, plan->steps);
    NEAP_DELETE(allocator, plan->n_host, plan->host_at_start);
    NEAP_DELETE(allocator, plan->n_offsets, plan->offsets);
    NEAP_DELETE(allocator, 1, plan);
}

neap_status neap_plan_append(neap_plan *plan, neap_step step, neap_diag *diag)
{
    NEAP_TRY(
        NEAP_RESERVE(plan->allocator, plan->n_steps + 1, &plan->steps, &plan->step_capacity, diag));
    plan->steps[plan->n_steps++] = step;
    return NEAP_OK;
}

const char *neap_plan_graph_name(const neap_plan *plan)
{
    return plan->graph_name;
}

const char *neap_plan_method(const neap_plan *plan)
{
    return plan->method;
}

int64_t neap_plan_budget(const neap_plan *plan)
{
    return plan->budget;
}

size_t neap_plan_step_count(const neap_plan *plan)
{
    return plan->n_steps;
}

const neap_step *neap_plan_steps(const neap_plan *plan)
{
    return plan->steps;
}

const uint32_t *neap_plan_host_at_start(const neap_plan *plan, size_t *count)
{
    *count = plan->n_host;
    return plan->host_at_start;
}

static int by_id(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

neap_status neap_plan_set_host_at_start(neap_plan *plan, const uint32_t *values, size_t count,
                                        neap_diag *diag)
{
    uint32_t *copy;
    NEAP_TRY(NEAP_NEW(plan->allocator, count, &copy, diag));
    if (count) {
        memcpy(copy, values, count * sizeof *copy);
        qsort(copy, count, sizeof *copy, by_id);
    }
    NEAP_DELETE(plan->allocator, plan->n_host, plan->host_at_start);
    plan->host_at_start = copy;
    plan->n_host = count;
    return NEAP_OK;
}

const int64_t *neap_plan_offsets(const neap_plan *plan, size_t *count)
{
    *count = plan->n_offsets;
    return plan->offsets;
}

int64_t neap_plan_arena_bytes(const neap_plan *plan)
{
    return plan->arena_bytes;
}

neap_status neap_plan_set_offsets(neap_plan *plan, const int64_t *offsets, size_t count,
                                  int64_t arena_bytes, neap_diag *diag)
{
    int64_t *copy;
    neap_status status = NEAP_NEW(plan->allocator, count, &copy, diag);
    if (status != NEAP_OK)
        return status;
    if (count)
        memcpy(copy, offsets, count * sizeof *copy);
    NEAP_DELETE(plan->allocator, plan->n_offsets, plan->offsets);
    plan->offsets = copy;
    plan->n_offsets = count;
    plan->arena_bytes = count ? arena_bytes : -1;
    return NEAP_OK;
}
