/*
 * Measured times in a file: {"neap": "profile", "version": 1, "entries": [{"machine": ..., "op":
 * the signature, "variant": 0, "workspace": bytes, "seconds": ..., "spread": ..., "when": seconds
 * since 1970}, ...]}.
 */
#ifndef NEAP_RUN_PROFILE_CACHE_H
#define NEAP_RUN_PROFILE_CACHE_H

#include "base/arena.h"

#include <neap/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct profile_entry {
    const char *machine, *op;
    uint32_t variant;
    int64_t workspace;
    double seconds, spread;
    int64_t when; /* time of the measurement; 0: unknown */
} profile_entry;

typedef struct profile_cache {
    profile_entry *entries; /* in the order of insertion */
    size_t count, capacity;
    uint32_t *slots;                 /* a hash table of positions + 1; 0: empty */
    size_t n_slots;                  /* a power of two, or 0 */
    char damage[NEAP_DIAG_CAPACITY]; /* of the file that was read; "": none */
    neap_arena arena;
    neap_allocator *allocator;
} profile_cache;

void neap_profile_cache_init(profile_cache *cache, neap_allocator *allocator);
void neap_profile_cache_clear(profile_cache *cache);

/*
 * A missing file is treated as empty. If a profile cache is damaged, the cache has the entries that
 * could be read, and `damage` says where reading stopped. On failure (for example, a file of
 * another kind) the cache keeps the entries it had.
 */
neap_status neap_profile_cache_read(profile_cache *cache, const char *path, neap_diag *diag);
/* Replaces the file atomically, and creates its folder if necessary. */
neap_status neap_profile_cache_write(const profile_cache *cache, const char *path, neap_diag *diag);
/* The same, but keeps entries that other processes have written since the file was read. */
neap_status neap_profile_cache_update(const profile_cache *cache, const char *path,
                                      neap_diag *diag);

/* NULL if there is no such entry or its workspace differs. */
const profile_entry *neap_profile_cache_find(const profile_cache *cache, const char *machine,
                                             const char *op, uint32_t variant, int64_t workspace);
/* Adds or replaces; texts are copied. */
neap_status neap_profile_cache_put(profile_cache *cache, const profile_entry *entry,
                                   neap_diag *diag);

/*
 * Whether the time of an entry is still valid at `now`. A time with a large spread is valid for an
 * hour.
 */
bool neap_profile_entry_holds(const profile_entry *entry, int64_t now);
/* Marks all variants of an op to be measured again; returns the number of entries affected. */
size_t neap_profile_cache_doubt(profile_cache *cache, const char *machine, const char *op);

#endif
