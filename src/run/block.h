/*
 * A block of memory for an arena, between two guard pages: a kernel that writes past its end is
 * stopped at once, one that writes before its beginning where its page begins. The pages come
 * zeroed and take real memory when they are first touched.
 */
#ifndef NEAP_RUN_BLOCK_H
#define NEAP_RUN_BLOCK_H

#include <neap/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct run_block {
    unsigned char *data; /* aligned to 64; the guard page follows the last byte, rounded up to 64 */
    int64_t bytes;
    void *pages; /* with the guards */
    size_t page_bytes;
} run_block;

/* NEAP_NO_MEMORY says how much was asked for. A block of 0 bytes is one of 64. */
neap_status neap_run_block_create(int64_t bytes, run_block *block, neap_diag *diag);
void neap_run_block_destroy(run_block *block); /* one that was never created is fine, if zeroed */

#endif
