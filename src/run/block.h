/*
 * A block of memory for an arena, between two guard pages. A write past the end faults at once; a
 * write before the beginning faults when it reaches the guard page. Pages are zeroed and take
 * physical memory when they are first touched.
 */
#ifndef NEAP_RUN_BLOCK_H
#define NEAP_RUN_BLOCK_H

#include <neap/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct neap_backend neap_backend;

typedef struct run_block {
    unsigned char *data; /* aligned to 64; the guard page follows the last byte, rounded up to 64 */
    int64_t bytes;
    void *pages; /* including the guard pages */
    size_t page_bytes;
    bool is_file;          /* a block of neap_run_block_create_file */
    int file;              /* whose first byte is data[0] */
    neap_backend *backend; /* whose device it is on, or pinned for; else NULL */
    bool pinned;
} run_block;

/* On NEAP_NO_MEMORY the message gives the requested size. A block of 0 bytes gets 64. */
neap_status neap_run_block_create(int64_t bytes, run_block *block, neap_diag *diag);
/*
 * The same as a file in memory without a name, so that its pages can be mapped a second time
 * (windows.h). `data` begins at a page.
 */
neap_status neap_run_block_create_file(int64_t bytes, run_block *block, neap_diag *diag);
/*
 * The same for a backend: on its device, or in the host's memory, pinned for copies; if the backend
 * has no device, both are as above.
 */
neap_status neap_run_block_create_for(neap_backend *backend, bool pinned, int64_t bytes,
                                      run_block *block, neap_diag *diag);
void neap_run_block_destroy(run_block *block); /* a zeroed block is allowed */

#endif
