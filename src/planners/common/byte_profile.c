#include "planners/common/byte_profile.h"

#include "base/fail.h"
#include "base/memory.h"

enum { BLOCK = BYTE_PROFILE_BLOCK };

neap_status neap_byte_profile_resize(byte_profile *p, neap_allocator *allocator, uint32_t n,
                                     neap_diag *diag)
{
    size_t n_blocks = (size_t)n / BLOCK + 1;
    NEAP_TRY(NEAP_RESERVE(allocator, n_blocks * (BLOCK + 2), &p->bytes, &p->capacity, diag));
    p->n = n;
    p->added = p->bytes + n_blocks * BLOCK;
    p->most = p->added + n_blocks;
    return NEAP_OK;
}

void neap_byte_profile_clear(byte_profile *p, neap_allocator *allocator)
{
    NEAP_DELETE(allocator, p->capacity, p->bytes);
    *p = (byte_profile){0};
}

static void find_most(byte_profile *p, uint32_t block)
{
    uint32_t begin = block * BLOCK, end = p->n - begin < BLOCK ? p->n : begin + BLOCK;
    int64_t most = INT64_MIN / 2;
    for (uint32_t i = begin; i < end; i++)
        most = p->bytes[i] > most ? p->bytes[i] : most;
    p->most[block] = most + p->added[block];
}

void neap_byte_profile_start(byte_profile *p)
{
    for (uint32_t block = 0; block * BLOCK < p->n; block++) {
        p->added[block] = 0;
        find_most(p, block);
    }
}

/* Within one block. */
static void add_part(byte_profile *p, uint32_t from, uint32_t end, int64_t bytes)
{
    int64_t most = INT64_MIN / 2, *most_of_block = &p->most[from / BLOCK];
    for (uint32_t i = from; i < end; i++) {
        p->bytes[i] += bytes;
        most = p->bytes[i] > most ? p->bytes[i] : most;
    }
    most += p->added[from / BLOCK];
    if (bytes < 0)
        find_most(p, from / BLOCK);
    else if (most > *most_of_block)
        *most_of_block = most;
}

void neap_byte_profile_add(byte_profile *p, uint32_t from, uint32_t end, int64_t bytes)
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

uint32_t neap_byte_profile_first_over(const byte_profile *p, uint32_t from, uint32_t end,
                                      int64_t level)
{
    while (from < end) {
        uint32_t block = from / BLOCK, stop = (block + 1) * BLOCK < end ? (block + 1) * BLOCK : end;
        if (p->most[block] > level) {
            int64_t most = level - p->added[block];
            for (; from < stop; from++)
                if (p->bytes[from] > most)
                    return from;
        }
        from = stop;
    }
    return end;
}

uint32_t neap_byte_profile_behind_over(const byte_profile *p, uint32_t from, uint32_t end,
                                       int64_t level)
{
    while (end > from) {
        uint32_t block = (end - 1) / BLOCK, start = block * BLOCK > from ? block * BLOCK : from;
        if (p->most[block] > level) {
            int64_t most = level - p->added[block];
            for (; end > start; end--)
                if (p->bytes[end - 1] > most)
                    return end;
        }
        end = start;
    }
    return end;
}
