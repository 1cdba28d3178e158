/* A hash of text: FNV-1a, 64 bits. Stable across machines and versions; not cryptographic. */
#ifndef NEAP_BASE_HASH_H
#define NEAP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define NEAP_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Goes on from the hash of what came before, NEAP_HASH_BEGIN at first. */
static inline uint64_t neap_hash_bytes(uint64_t hash, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The same by words of 32 bits: for data, where speed counts. A change of one word always shows. */
static inline uint64_t neap_hash_words(uint64_t hash, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
