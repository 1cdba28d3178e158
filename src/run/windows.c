/* Several ranges of the arena under one address (windows.h). */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "run/windows.h"

#include "base/fail.h"
#include "base/memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct run_window {
    run_window *next;
    run_part *parts;
    uint32_t n_parts;
    void *pages; /* with a guard page at each end */
    size_t page_bytes;
};

int64_t neap_run_page_bytes(void)
{
    return (int64_t)sysconf(_SC_PAGESIZE);
}

neap_status neap_run_windows_init(run_windows *windows, neap_allocator *allocator,
                                  const run_block *arena, uint32_t n_values, neap_diag *diag)
{
    *windows = (run_windows){.allocator = allocator, .arena = arena, .n_values = n_values};
    return NEAP_NEW(allocator, n_values, &windows->of_value, diag);
}

static void destroy_window(neap_allocator *allocator, run_window *window)
{
    if (window->pages)
        munmap(window->pages, window->page_bytes);
    NEAP_DELETE(allocator, window->n_parts, window->parts);
    NEAP_DELETE(allocator, 1, window);
}

void neap_run_windows_clear(run_windows *windows)
{
    for (uint32_t v = 0; windows->of_value && v < windows->n_values; v++)
        for (run_window *w = windows->of_value[v], *next; w; w = next) {
            next = w->next;
            destroy_window(windows->allocator, w);
        }
    NEAP_DELETE(windows->allocator, windows->n_values, windows->of_value);
    memset(windows, 0, sizeof *windows);
}

static bool are_neighbours(const run_part *parts, uint32_t n_parts)
{
    for (uint32_t i = 1; i < n_parts; i++)
        if (parts[i].offset != parts[i - 1].offset + parts[i - 1].bytes)
            return false;
    return true;
}

static bool fit_pages(const run_part *parts, uint32_t n_parts, int64_t page)
{
    for (uint32_t i = 0; i < n_parts; i++)
        if (parts[i].offset % page != 0 || (i + 1 < n_parts && parts[i].bytes % page != 0))
            return false;
    return true;
}

/* Parts of one value have the same sizes in all its windows. */
static bool is_like(const run_window *window, const run_part *parts)
{
    for (uint32_t i = 0; i < window->n_parts; i++)
        if (window->parts[i].offset != parts[i].offset)
            return false;
    return true;
}

/* Maps the parts one after the other. Neighbours in the arena are mapped at once, which saves
   mappings: a process has some 65,000. */
static neap_status map_parts(run_window *window, int file, size_t page, neap_diag *diag)
{
    const run_part *parts = window->parts;
    unsigned char *to = (unsigned char *)window->pages + page;
    for (uint32_t i = 0; i < window->n_parts;) {
        int64_t begin = parts[i].offset, end = begin + parts[i].bytes;
        for (i++; i < window->n_parts && parts[i].offset == end; i++)
            end += parts[i].bytes;
        size_t bytes = ((size_t)(end - begin) + page - 1) / page * page;
        if (mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)begin) ==
            MAP_FAILED)
            return neap_fail(diag, NEAP_NO_MEMORY,
                             "out of memory: the system maps no more pieces of values; use larger "
                             "pieces");
        to += bytes;
    }
    return NEAP_OK;
}

static neap_status open_window(const run_windows *windows, run_window *window, size_t page,
                               neap_diag *diag)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < window->n_parts; i++)
        bytes += window->parts[i].bytes;
    window->page_bytes = ((size_t)bytes + page - 1) / page * page + 2 * page;
    void *pages = mmap(NULL, window->page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return neap_fail(diag, NEAP_NO_MEMORY,
                         "out of memory: no range of addresses for a value in pieces");
    window->pages = pages;
    return map_parts(window, windows->arena->file, page, diag);
}

static neap_status add_window(run_windows *windows, uint32_t value, const run_part *parts,
                              uint32_t n_parts, size_t page, neap_diag *diag)
{
    run_window *window = NULL;
    neap_status status = NEAP_NEW(windows->allocator, 1, &window, diag);
    if (status != NEAP_OK)
        return status;
    window->n_parts = n_parts;
    status = NEAP_NEW(windows->allocator, n_parts, &window->parts, diag);
    if (status == NEAP_OK) {
        memcpy(window->parts, parts, n_parts * sizeof *parts);
        status = open_window(windows, window, page, diag);
    }
    if (status != NEAP_OK) {
        destroy_window(windows->allocator, window);
        return status;
    }
    window->next = windows->of_value[value];
    windows->of_value[value] = window;
    return NEAP_OK;
}

neap_status neap_run_windows_find(run_windows *windows, uint32_t value, const run_part *parts,
                                  uint32_t n_parts, unsigned char **address, neap_diag *diag)
{
    int64_t page = neap_run_page_bytes();
    *address = windows->arena->data + parts[0].offset;
    if (are_neighbours(parts, n_parts))
        return NEAP_OK;
    if (!fit_pages(parts, n_parts, page))
        return neap_fail(diag, NEAP_INVALID,
                         "a value in pieces can run only if the sizes and addresses of the pieces "
                         "are multiples of a memory page, %lld bytes",
                         (long long)page);
    run_window *window = windows->of_value[value];
    while (window && !is_like(window, parts))
        window = window->next;
    if (!window)
        NEAP_TRY(add_window(windows, value, parts, n_parts, (size_t)page, diag));
    window = window ? window : windows->of_value[value];
    *address = (unsigned char *)window->pages + page;
    return NEAP_OK;
}
