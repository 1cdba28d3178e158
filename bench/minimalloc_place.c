/*
 * Places the buffers of a file in an arena.
 *
 *     minimalloc_place FILE CAPACITY [SECONDS]
 *
 * FILE has MiniMalloc's format: a header line, then one line per buffer, id,lower,upper,size; the
 * buffer is live from lower to upper - 1. The search stops at an arena of at most CAPACITY. Prints
 * the number of buffers, the most bytes live at once, the arena and the seconds taken; fails if two
 * buffers overlap. With SECONDS it searches until then, instead of with a fixed effort.
 */
#include "layout/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what, const char *about)
{
    fprintf(stderr, "%s: %s\n", about, what);
    exit(1);
}

static neap_instance *read_buffers(const char *path, size_t *count)
{
    char line[256];
    size_t capacity = 0;
    neap_instance *buffers = NULL;
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file))
        fail("cannot be read", path);
    for (*count = 0; fgets(line, sizeof line, file); ++*count) {
        uint64_t lower, upper;
        int64_t size;
        if (sscanf(line, "%*[^,],%" SCNu64 ",%" SCNu64 ",%" SCNd64, &lower, &upper, &size) != 3 ||
            lower >= upper || size <= 0)
            fail("no buffer", line);
        if (*count == capacity) {
            capacity = 2 * capacity + 100;
            buffers = realloc(buffers, capacity * sizeof *buffers);
            if (!buffers)
                fail("out of memory", path);
        }
        buffers[*count] = (neap_instance){size, lower, upper};
    }
    fclose(file);
    return buffers;
}

/* Live bytes only grow where a buffer begins. */
static int64_t most_live(const neap_instance *buffers, size_t count)
{
    int64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t live = 0;
        for (size_t k = 0; k < count; k++)
            if (buffers[k].begin <= buffers[i].begin && buffers[i].begin < buffers[k].end)
                live += buffers[k].size;
        if (live > most)
            most = live;
    }
    return most;
}

/* Returns the highest end. */
static int64_t check(const neap_instance *buffers, size_t count, const int64_t *offsets)
{
    int64_t highest = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t end = offsets[i] + buffers[i].size;
        if (end > highest)
            highest = end;
        for (size_t k = 0; k < i; k++)
            if (buffers[i].begin < buffers[k].end && buffers[k].begin < buffers[i].end &&
                offsets[i] < offsets[k] + buffers[k].size && offsets[k] < end)
                fail("overlaps another", "a buffer");
    }
    return highest;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4)
        fail("takes FILE CAPACITY [SECONDS]", argv[0]);
    size_t count;
    neap_instance *buffers = read_buffers(argv[1], &count);
    int64_t *offsets = calloc(count + 1, sizeof *offsets);
    if (!offsets)
        fail("out of memory", argv[1]);
    neap_placement_problem problem = {
        .instances = buffers,
        .count = count,
        .least = most_live(buffers, count),
        .target = strtoll(argv[2], NULL, 10),
        .allocator = neap_allocator_system(),
    };
    neap_placement best = {.offsets = offsets};
    neap_diag diag = {0};
    if (problem.target < problem.least)
        problem.target = problem.least;
    double start = neap_clock_seconds();
    if (argc == 4) {
        problem.end = start + strtod(argv[3], NULL);
        problem.is_persistent = true;
    }
    if (neap_place(&problem, &best, &diag) != NEAP_OK)
        fail(diag.message, argv[1]);
    double seconds = neap_clock_seconds() - start;
    printf("%zu %" PRId64 " %" PRId64 " %.4f\n", count, problem.least,
           check(buffers, count, offsets), seconds);
    free(offsets);
    free(buffers);
    return 0;
}
