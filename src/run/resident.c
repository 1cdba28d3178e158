/* madvise and mincore are BSD functions, which strict POSIX headers leave out. */
#define _DEFAULT_SOURCE

#include "run/resident.h"

#include "base/fail.h"
#include "base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

/* The pages between the guard pages. */
static unsigned char *first_page(const run_resident *r)
{
    return (unsigned char *)r->block->pages + r->page;
}

neap_status neap_run_resident_init(neap_allocator *allocator, const run_block *block,
                                   size_t n_steps, run_resident *resident, neap_diag *diag)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *resident = (run_resident){
        .block = block, .page = page, .n_pages = block->page_bytes / page - 2, .n_steps = n_steps};
    NEAP_TRY(NEAP_NEW(allocator, resident->n_pages, &resident->flags, diag));
    NEAP_TRY(NEAP_NEW(allocator, n_steps, &resident->steps, diag));
#ifdef MADV_NOHUGEPAGE
    madvise(first_page(resident), resident->n_pages * page, MADV_NOHUGEPAGE); /* where there are */
#endif
    if (neap_run_resident_bytes(resident) < 0)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "this system does not say which pages of the arena are resident");
    return NEAP_OK;
}

void neap_run_resident_clear(run_resident *resident, neap_allocator *allocator)
{
    NEAP_DELETE(allocator, resident->n_pages, resident->flags);
    NEAP_DELETE(allocator, resident->n_steps, resident->steps);
}

void neap_run_resident_release(const run_resident *r, const void *data, int64_t bytes)
{
    size_t begin = (size_t)((const unsigned char *)data - first_page(r)),
           end = begin + (size_t)bytes;
    begin = (begin + r->page - 1) / r->page * r->page;
    end = end / r->page * r->page;
    if (begin < end)
        madvise(first_page(r) + begin, end - begin,
                r->block->is_file ? MADV_REMOVE : MADV_DONTNEED);
}

int64_t neap_run_resident_bytes(const run_resident *r)
{
    int64_t count = 0;
    if (mincore(first_page(r), r->n_pages * r->page, r->flags) != 0)
        return -1;
    for (size_t i = 0; i < r->n_pages; i++)
        count += r->flags[i] & 1;
    return count * (int64_t)r->page;
}
