/*
 * Pieces of a value as one array, wherever they lie in the arena (neap/split.h).
 *
 * A kernel needs its operand in one piece. The plan places the pieces of a value one by one,
 * because they come and go one by one, so they are rarely neighbours. A *window* is a range of
 * addresses that shows the memory pages of the pieces, one after the other: the same bytes under a
 * second address, without a copy and without memory of their own. All windows of a plan are made
 * before its first step.
 *
 * This needs pieces that begin at a page of the arena and, except for the last, fill their pages.
 */
#ifndef NEAP_RUN_WINDOWS_H
#define NEAP_RUN_WINDOWS_H

#include "run/block.h"

#include <neap/allocator.h>

/* Where the arena has a piece. */
typedef struct run_part {
    int64_t offset, bytes;
} run_part;

typedef struct run_window run_window;

typedef struct run_windows {
    neap_allocator *allocator;
    const run_block *arena; /* of neap_run_block_create_file */
    run_window **of_value;  /* by value of the whole graph: its windows, the latest first */
    uint32_t n_values;
} run_windows;

/* The arena must outlive the windows. Clear them also after a failure. */
neap_status neap_run_windows_init(run_windows *windows, neap_allocator *allocator,
                                  const run_block *arena, uint32_t n_values, neap_diag *diag);
void neap_run_windows_clear(run_windows *windows);

/*
 * The address of one array of all parts, in order: in the arena if they are neighbours, else of a
 * window, made for `value` if it has none like it. NEAP_INVALID if pages do not allow it.
 */
neap_status neap_run_windows_find(run_windows *windows, uint32_t value, const run_part *parts,
                                  uint32_t n_parts, unsigned char **address, neap_diag *diag);

/* What the addresses and sizes of pieces must be multiples of. */
int64_t neap_run_page_bytes(void);

#endif
