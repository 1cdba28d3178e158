#include "planners/checkmate/frontier_rows.h"

#include "base/fail.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>

bool neap_frontier_residence_of_bools(const void *context, uint32_t value)
{
    const bool *is_resident = context;
    return is_resident[value];
}

neap_status neap_frontier_rows_init(frontier_rows *rows, neap_allocator *allocator,
                                    const neap_graph *graph, neap_diag *diag)
{
    *rows = (frontier_rows){.allocator = neap_allocator_or_system(allocator), .graph = graph};
    return NEAP_NEW(rows->allocator, neap_graph_op_count(graph), &rows->marks, diag);
}

void neap_frontier_rows_clear(frontier_rows *rows)
{
    if (rows->marks)
        NEAP_DELETE(rows->allocator, neap_graph_op_count(rows->graph), rows->marks);
    NEAP_DELETE(rows->allocator, rows->capacity, rows->sequence);
    *rows = (frontier_rows){0};
}

void neap_frontier_rows_restart(frontier_rows *rows)
{
    rows->length = rows->last_row = 0;
}

static neap_status add_op(frontier_rows *rows, uint32_t op, neap_diag *diag)
{
    if (rows->marks[op] == rows->epoch)
        return NEAP_OK;
    NEAP_TRY(
        NEAP_RESERVE(rows->allocator, rows->length + 1, &rows->sequence, &rows->capacity, diag));
    rows->marks[op] = rows->epoch;
    rows->sequence[rows->length++] = op;
    return NEAP_OK;
}

/* Constraints (1b) and (1c): what is not there is computed in this frontier. */
static neap_status need_value(frontier_rows *rows, const frontier_row *row, uint32_t value,
                              neap_diag *diag)
{
    uint32_t maker = neap_graph_value(rows->graph, value)->producer;
    if (maker == NEAP_NONE || row->is_resident(row->context, value))
        return NEAP_OK;
    if (maker > row->op)
        return neap_fail(diag, NEAP_INVALID,
                         "value %" PRIu32 " \"%s\" is wanted behind op %" PRIu32
                         ", but made by op %" PRIu32,
                         value, neap_graph_value(rows->graph, value)->name, row->op, maker);
    return add_op(rows, maker, diag);
}

/* The part of the sequence that holds the row is the search's work list as well. */
static neap_status collect(frontier_rows *rows, const frontier_row *row, neap_diag *diag)
{
    NEAP_TRY(add_op(rows, row->op, diag));
    for (size_t i = 0; i < row->n_wanted; i++)
        NEAP_TRY(need_value(rows, row, row->wanted[i], diag));
    for (size_t at = rows->last_row; at < rows->length; at++) {
        const neap_op *op = neap_graph_op(rows->graph, rows->sequence[at]);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            NEAP_TRY(need_value(rows, row, op->inputs[i], diag));
    }
    return NEAP_OK;
}

static int compare_ops(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

neap_status neap_frontier_rows_append(frontier_rows *rows, const frontier_row *row, neap_diag *diag)
{
    size_t last_row = rows->last_row;
    rows->epoch++;
    rows->last_row = rows->length;
    neap_status status = collect(rows, row, diag);
    if (status != NEAP_OK) {
        rows->length = rows->last_row;
        rows->last_row = last_row;
        return status;
    }
    size_t count = rows->length - rows->last_row;
    if (count > 1) /* ids are an execution order: makers come before readers */
        qsort(rows->sequence + rows->last_row, count, sizeof *rows->sequence, compare_ops);
    return NEAP_OK;
}
