/* Memory with guard pages. */
#define _GNU_SOURCE /* memfd_create */
#include "run/block.h"

#include "base/fail.h"
#include "run/backend.h"

#include <neap/text.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static neap_status fail_pages(int64_t bytes, neap_diag *diag)
{
    char size[32];
    return neap_fail(diag, NEAP_NO_MEMORY,
                     "out of memory: this machine has no %s in one piece; plan within a smaller "
                     "budget, or take a smaller batch",
                     neap_bytes_format(bytes, size, sizeof size));
}

neap_status neap_run_block_create(int64_t bytes, run_block *block, neap_diag *diag)
{
    memset(block, 0, sizeof *block);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2 - 4 * page)
        return fail_pages(bytes, diag);
    size_t rounded = bytes ? ((size_t)bytes + 63) / 64 * 64 : 64;
    size_t inner = (rounded + page - 1) / page * page;
    void *pages = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return fail_pages(bytes, diag);
    if (mprotect((unsigned char *)pages + page, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(pages, inner + 2 * page);
        return fail_pages(bytes, diag);
    }
    *block = (run_block){.data = (unsigned char *)pages + page + (inner - rounded),
                         .bytes = bytes,
                         .pages = pages,
                         .page_bytes = inner + 2 * page};
    return NEAP_OK;
}

neap_status neap_run_block_create_file(int64_t bytes, run_block *block, neap_diag *diag)
{
    memset(block, 0, sizeof *block);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2 - 4 * page)
        return fail_pages(bytes, diag);
    size_t inner = bytes ? ((size_t)bytes + page - 1) / page * page : page;
    *block = (run_block){.bytes = bytes, .page_bytes = inner + 2 * page};
    block->file = memfd_create("neap arena", MFD_CLOEXEC);
    block->is_file = block->file >= 0;
    if (!block->is_file || ftruncate(block->file, (off_t)inner) != 0)
        return fail_pages(bytes, diag);
    void *pages = mmap(NULL, block->page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return fail_pages(bytes, diag);
    block->pages = pages;
    block->data = (unsigned char *)pages + page;
    if (mmap(block->data, inner, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, block->file, 0) ==
        MAP_FAILED)
        return fail_pages(bytes, diag);
    return NEAP_OK;
}

neap_status neap_run_block_create_for(neap_backend *backend, bool pinned, int64_t bytes,
                                      run_block *block, neap_diag *diag)
{
    const run_device_type *device = backend->type->device;
    if (!device)
        return neap_run_block_create(bytes, block, diag);
    *block = (run_block){.bytes = bytes, .backend = backend, .pinned = pinned};
    return device->allocate(backend, pinned ? RUN_PINNED : RUN_DEVICE, bytes > 0 ? bytes : 64,
                            &block->data, diag);
}

void neap_run_block_destroy(run_block *block)
{
    if (block->backend && block->data)
        block->backend->type->device->release(block->backend,
                                              block->pinned ? RUN_PINNED : RUN_DEVICE, block->data);
    if (block->pages)
        munmap(block->pages, block->page_bytes);
    if (block->is_file)
        close(block->file);
    memset(block, 0, sizeof *block);
}
