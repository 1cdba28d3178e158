/*
 * Bytes per op, with additions to ranges and the question how far back a level is kept. Ops stand
 * in blocks that remember their maximum and what was added to all of them, so that both take a step
 * a block and not a step an op.
 */
#ifndef NEAP_OFFLOAD_BLOCK_PROFILE_H
#define NEAP_OFFLOAD_BLOCK_PROFILE_H

#include "base/arena.h"

#include <stdint.h>

typedef struct block_profile {
    uint32_t n;
    int64_t *bytes; /* per op, without what was added to its whole block */
    int64_t *added; /* per block */
    int64_t *most;  /* per block, with what was added */
} block_profile;

neap_status neap_block_profile_init(block_profile *p, neap_arena *arena, uint32_t n,
                                    neap_diag *diag);
/* After `bytes` has been filled in. */
void neap_block_profile_start(block_profile *p);
/* To all from `from` up to `end` - 1. */
void neap_block_profile_add(block_profile *p, uint32_t from, uint32_t end, int64_t bytes);
/* The least i >= from such that all from i up to `end` - 1 are at most `level`; `end` if none is.
 */
uint32_t neap_block_profile_kept_from(const block_profile *p, uint32_t from, uint32_t end,
                                      int64_t level);

#endif
