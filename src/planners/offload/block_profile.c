#include "planners/offload/block_profile.h"

#include "base/fail.h"

enum { BLOCK = 32 };

neap_status neap_block_profile_init(block_profile *p, neap_arena *arena, uint32_t n,
                                    neap_diag *diag)
{
    size_t n_blocks = (size_t)n / BLOCK + 1;
    p->n = n;
    p->bytes = neap_arena_alloc(arena, n_blocks * BLOCK, sizeof *p->bytes);
    p->added = neap_arena_alloc(arena, n_blocks, sizeof *p->added);
    p->most = neap_arena_alloc(arena, n_blocks, sizeof *p->most);
    return p->bytes && p->added && p->most ? NEAP_OK : neap_fail_no_memory(diag);
}

static void find_most(block_profile *p, uint32_t block)
{
    uint32_t end = (block + 1) * BLOCK < p->n ? (block + 1) * BLOCK : p->n;
    int64_t most = INT64_MIN / 2;
    for (uint32_t i = block * BLOCK; i < end; i++)
        most = p->bytes[i] > most ? p->bytes[i] : most;
    p->most[block] = most + p->added[block];
}

void neap_block_profile_start(block_profile *p)
{
    for (uint32_t block = 0; block * BLOCK < p->n; block++) {
        p->added[block] = 0;
        find_most(p, block);
    }
}

/* Within one block. */
static void add_part(block_profile *p, uint32_t from, uint32_t end, int64_t bytes)
{
    for (uint32_t i = from; i < end; i++)
        p->bytes[i] += bytes;
    find_most(p, from / BLOCK);
}

void neap_block_profile_add(block_profile *p, uint32_t from, uint32_t end, int64_t bytes)
{
    if (from >= end)
        return;
    uint32_t first = from / BLOCK, last = (end - 1) / BLOCK;
    if (first == last) {
        add_part(p, from, end, bytes);
        return;
    }
    add_part(p, from, (first + 1) * BLOCK, bytes);
    for (uint32_t block = first + 1; block < last; block++) {
        p->added[block] += bytes;
        p->most[block] += bytes;
    }
    add_part(p, last * BLOCK, end, bytes);
}

uint32_t neap_block_profile_kept_from(const block_profile *p, uint32_t from, uint32_t end,
                                      int64_t level)
{
    while (end > from) {
        uint32_t block = (end - 1) / BLOCK, start = block * BLOCK > from ? block * BLOCK : from;
        if (p->most[block] <= level) {
            end = start;
            continue;
        }
        int64_t most = level - p->added[block];
        while (end > start && p->bytes[end - 1] <= most)
            end--;
        if (end > start)
            return end;
    }
    return end;
}
