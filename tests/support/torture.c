#include "torture.h"

#include "failing_allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Returns whether an allocation failed on the way. */
static bool run_once(torture_operation *run, const void *subject, size_t from, size_t end)
{
    failing_allocator memory;
    neap_diag diag = {0};
    failing_allocator_init(&memory);
    memory.fail_from = from;
    memory.fail_end = end;
    neap_status status = run(subject, &memory.base, &diag);
    if (memory.fault)
        fail_msg("allocation %zu: %s", from, memory.fault);
    if (memory.live_blocks || memory.live_bytes)
        fail_msg("allocation %zu: %zu blocks leaked, %zu bytes", from, memory.live_blocks,
                 memory.live_bytes);
    if (status != (memory.failed ? NEAP_NO_MEMORY : NEAP_OK))
        fail_msg("allocation %zu: %s, \"%s\"", from, neap_status_name(status), diag.message);
    if (memory.failed && !strstr(diag.message, "out of memory"))
        fail_msg("allocation %zu: says \"%s\"", from, diag.message);
    return memory.failed;
}

size_t torture_memory(torture_operation *run, const void *subject, size_t every)
{
    size_t count = 0;
    while (run_once(run, subject, count, count + 1))
        count++;
    assert_true(count > 0);
    for (size_t from = 0; run_once(run, subject, from, SIZE_MAX); from += 1 + from / every)
        ;
    return count;
}
