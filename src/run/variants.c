/* Variants and workspaces of a graph's ops on a backend. */
#include "run/variants.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/progress.h"
#include "graph/graph_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static neap_status ask(run_specs *specs, neap_backend *backend, uint32_t op, int64_t *workspaces,
                       uint32_t *count, neap_diag *diag)
{
    *count = 1;
    workspaces[0] = 0;
    if (neap_run_specs_is_view(specs, op))
        return NEAP_OK;
    run_spec spec = neap_run_specs_at(specs, op, 0);
    return backend->type->variants(backend, &spec, workspaces, count, diag);
}

static neap_status add(run_specs *specs, neap_backend *backend, run_variants *variants, uint32_t op,
                       neap_diag *diag)
{
    int64_t workspaces[RUN_MOST_VARIANTS];
    uint32_t count;
    neap_status status = ask(specs, backend, op, workspaces, &count, diag);
    if (status == NEAP_OK)
        status = NEAP_RESERVE(variants->allocator, variants->n_items + count, &variants->items,
                              &variants->item_capacity, diag);
    if (status != NEAP_OK)
        return status;
    variants->counts[op] = count;
    variants->begins[op] = variants->n_items;
    for (uint32_t k = 0; k < count; k++)
        variants->items[variants->n_items++] = (neap_variant){.workspace = workspaces[k]};
    return NEAP_OK;
}

/* For backends that find the variants of all ops faster together. */
static neap_status announce(run_specs *specs, neap_backend *backend, neap_progress *progress,
                            neap_diag *diag)
{
    if (!backend->type->find_announced)
        return NEAP_OK;
    for (uint32_t op = 0; op < neap_graph_op_count(specs->graph); op++) {
        if (specs->alike[op] != op || neap_run_specs_is_view(specs, op))
            continue;
        run_spec spec = neap_run_specs_at(specs, op, 0);
        NEAP_TRY(neap_run_ops_announce(backend, &spec, diag));
    }
    return backend->type->find_announced(backend, progress, diag);
}

neap_status neap_run_variants_init(run_specs *specs, neap_backend *backend, neap_progress *progress,
                                   run_variants *variants, neap_diag *diag)
{
    uint32_t n_ops = neap_graph_op_count(specs->graph);
    *variants = (run_variants){.n_ops = n_ops, .allocator = specs->allocator};
    neap_status status = neap_run_specs_check(specs, backend, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(specs->allocator, n_ops, &variants->counts, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(specs->allocator, n_ops, &variants->begins, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(specs->allocator, n_ops, &variants->unable, diag);
    for (uint32_t op = 0; op < n_ops && status == NEAP_OK; op++)
        variants->unable[op] = neap_graph_op(specs->graph, op)->in_place_input != NEAP_NONE &&
                               !neap_run_specs_write_over(specs, op);
    if (status == NEAP_OK)
        status = announce(specs, backend, progress, diag);
    if (neap_progress_is_cancelled(progress))
        return status;
    for (uint32_t op = 0; op < n_ops && status == NEAP_OK; op++) {
        uint32_t first = specs->alike[op];
        if (first == op) {
            status = add(specs, backend, variants, op, diag);
        } else {
            variants->counts[op] = variants->counts[first];
            variants->begins[op] = variants->begins[first];
        }
    }
    return status;
}

void neap_run_variants_clear(run_variants *variants)
{
    NEAP_DELETE(variants->allocator, variants->n_ops, variants->counts);
    NEAP_DELETE(variants->allocator, variants->n_ops, variants->begins);
    NEAP_DELETE(variants->allocator, variants->n_ops, variants->unable);
    NEAP_DELETE(variants->allocator, variants->item_capacity, variants->items);
    memset(variants, 0, sizeof *variants);
}

/* Whether a variant is of use: it runs, and no other is as fast with as little workspace. Of equals
   the first is. */
static bool is_useful(const neap_variant *items, uint32_t count, uint32_t k)
{
    if (!isfinite(items[k].seconds))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        bool as_good =
            items[i].seconds <= items[k].seconds && items[i].workspace <= items[k].workspace;
        bool better =
            items[i].seconds < items[k].seconds || items[i].workspace < items[k].workspace;
        if (as_good && (better || i < k))
            return false;
    }
    return true;
}

static int faster_first(const void *a, const void *b)
{
    double x = ((const neap_variant *)a)->seconds, y = ((const neap_variant *)b)->seconds;
    return (x > y) - (x < y);
}

neap_status neap_run_variants_prune(run_variants *variants, const run_specs *specs, neap_diag *diag)
{
    for (uint32_t op = 0; op < variants->n_ops; op++) {
        neap_variant *items = &variants->items[variants->begins[op]], kept[RUN_MOST_VARIANTS];
        uint32_t count = 0;
        if (specs->alike[op] != op) {
            variants->counts[op] = variants->counts[specs->alike[op]];
            continue;
        }
        for (uint32_t k = 0; k < variants->counts[op]; k++)
            if (is_useful(items, variants->counts[op], k)) {
                kept[count] = items[k];
                kept[count++].kernel = k + 1;
            }
        if (count == 0)
            return neap_fail(diag, NEAP_UNSUPPORTED, "op \"%s\": none of its kernels runs here",
                             neap_graph_op(specs->graph, op)->name);
        qsort(kept, count, sizeof *kept, faster_first);
        memcpy(items, kept, count * sizeof *kept);
        variants->counts[op] = count;
    }
    return NEAP_OK;
}

neap_status neap_run_variants_apply(const run_variants *variants, bool keep_times,
                                    neap_graph *graph, neap_diag *diag)
{
    neap_variant *all;
    size_t count = 0, next = 0;
    for (uint32_t op = 0; op < variants->n_ops; op++)
        count += variants->counts[op];
    neap_status status = NEAP_NEW(variants->allocator, count, &all, diag);
    if (status != NEAP_OK)
        return status;
    for (uint32_t op = 0; op < variants->n_ops; op++)
        for (uint32_t k = 0; k < variants->counts[op]; k++, next++) {
            all[next] = variants->items[variants->begins[op] + k];
            if (keep_times)
                all[next].seconds = neap_graph_op(graph, op)->variants[0].seconds;
        }
    status = neap_graph_set_variants(graph, all, variants->counts, diag);
    NEAP_DELETE(variants->allocator, count, all);
    bool changed = false;
    for (uint32_t op = 0; op < variants->n_ops && status == NEAP_OK; op++)
        if (variants->unable[op]) {
            graph->ops[op].in_place_input = graph->ops[op].in_place_output = NEAP_NONE;
            changed = true;
        }
    if (changed)
        neap_graph_derive_floors(graph);
    return status;
}

neap_status neap_backend_fit(neap_backend *backend, neap_graph *graph, neap_diag *diag)
{
    run_specs specs;
    run_variants variants = {.allocator = backend->allocator};
    neap_status status = neap_run_specs_init(backend->allocator, graph, backend, &specs, diag);
    if (status == NEAP_OK)
        status = neap_run_variants_init(&specs, backend, NULL, &variants, diag);
    if (status == NEAP_OK)
        status = neap_run_variants_apply(&variants, true, graph, diag);
    neap_run_variants_clear(&variants);
    neap_run_specs_clear(&specs);
    return status;
}
