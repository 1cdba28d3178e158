/*
 * Bytes by place (an op, or a position of a list), with additions to ranges and queries where a
 * level is exceeded. Each block of places keeps its maximum and what was added to all of it, so a
 * call takes one step per block. The places are fixed; neap/sequence.h has blocks whose items come
 * and go.
 */
#ifndef NEAP_PLANNERS_BYTE_PROFILE_H
#define NEAP_PLANNERS_BYTE_PROFILE_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdint.h>

enum { BYTE_PROFILE_BLOCK = 32 };

typedef struct byte_profile {
    uint32_t n;
    int64_t *bytes; /* by place, without what was added to its whole block */
    int64_t *added; /* by block */
    int64_t *most;  /* by block, with what was added */
    size_t capacity;
} byte_profile;

/* Room for n places. Fill `bytes`, then start. Clear also after a failure. */
neap_status neap_byte_profile_resize(byte_profile *p, neap_allocator *allocator, uint32_t n,
                                     neap_diag *diag);
void neap_byte_profile_start(byte_profile *p);
void neap_byte_profile_clear(byte_profile *p, neap_allocator *allocator);

static inline int64_t byte_profile_at(const byte_profile *p, uint32_t place)
{
    return p->bytes[place] + p->added[place / BYTE_PROFILE_BLOCK];
}

/* To all places from `from` up to `end` - 1. */
void neap_byte_profile_add(byte_profile *p, uint32_t from, uint32_t end, int64_t bytes);
/* The first place from `from` up to `end` - 1 with more than `level`; `end`: none. */
uint32_t neap_byte_profile_first_over(const byte_profile *p, uint32_t from, uint32_t end,
                                      int64_t level);
/* The place after the last one from `from` up to `end` - 1 with more than `level`; `from`: none. */
uint32_t neap_byte_profile_behind_over(const byte_profile *p, uint32_t from, uint32_t end,
                                       int64_t level);

#endif
