/*
 * A file of measured times of arbitrary bytes: rejected with one line, or entries that can be
 * looked up, and that are written to a file with the same contents.
 */
#include "fuzz.h"

#include "run/profile_cache.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also of a file that broke off: what was read before holds. */
static void profile_check_entries(const profile_cache *cache)
{
    for (size_t i = 0; i < cache->count; i++) {
        const profile_entry *e = &cache->entries[i];
        FUZZ_CHECK(e->machine && e->op && e->variant <= 1000 && e->workspace >= 0);
        FUZZ_CHECK(e->seconds >= 0 && e->seconds <= 1e6 && e->spread >= 0);
        FUZZ_CHECK(neap_profile_cache_find(cache, e->machine, e->op, e->variant, e->workspace) ==
                   e);
        FUZZ_CHECK(
            !neap_profile_cache_find(cache, e->machine, e->op, e->variant, e->workspace ^ 1));
    }
    FUZZ_CHECK(!neap_profile_cache_find(cache, "no machine", "no op", 0, 0));
}

static void profile_write_again(const profile_cache *cache)
{
    char path[] = "/tmp/neap-fuzz-XXXXXX";
    int made = mkstemp(path);
    neap_diag diag = {0};
    profile_cache again;
    FUZZ_CHECK(made >= 0);
    close(made);
    neap_profile_cache_init(&again, neap_allocator_system());
    FUZZ_CHECK(neap_profile_cache_write(cache, path, &diag) == NEAP_OK);
    FUZZ_CHECK(neap_profile_cache_read(&again, path, &diag) == NEAP_OK);
    unlink(path);
    FUZZ_CHECK(again.count == cache->count);
    for (size_t i = 0; i < cache->count; i++) {
        const profile_entry *a = &cache->entries[i], *b = &again.entries[i];
        FUZZ_CHECK(strcmp(a->machine, b->machine) == 0 && strcmp(a->op, b->op) == 0);
        FUZZ_CHECK(a->variant == b->variant && a->workspace == b->workspace);
        FUZZ_CHECK(memcmp(&a->seconds, &b->seconds, sizeof a->seconds) == 0);
        FUZZ_CHECK(memcmp(&a->spread, &b->spread, sizeof a->spread) == 0);
    }
    neap_profile_cache_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    FILE *file = tmpfile();
    neap_diag diag = {0};
    profile_cache cache;
    FUZZ_CHECK(file != NULL);
    FUZZ_CHECK(fwrite(data, 1, size, file) == size && fflush(file) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    neap_profile_cache_init(&cache, neap_allocator_system());
    neap_status status = neap_profile_cache_read(&cache, path, &diag);
    fclose(file);
    profile_check_entries(&cache);
    if (status == NEAP_OK)
        profile_write_again(&cache);
    else
        fuzz_check_refusal(status, &diag, path);
    neap_profile_cache_clear(&cache);
    return 0;
}
