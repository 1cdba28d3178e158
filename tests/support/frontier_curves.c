#include "frontier_curves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_training.h"
#include "run_command.h"
#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORACLE NEAP_SOURCE_DIR "/tests/oracle"

static void write_graph(FILE *file, const neap_graph *graph)
{
    char *text;
    size_t length;
    assert_int_equal(neap_graph_write_text(graph, NULL, &text, &length, NULL), NEAP_OK);
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    fprintf(file, "{\"graph\":%s}\n", text);
    neap_release(NULL, text, length + 1);
}

/* The next number of the oracle's answer. */
static int64_t next_number(FILE *file)
{
    char word[32];
    assert_int_equal(fscanf(file, "%31s", word), 1);
    return strtoll(word, NULL, 10);
}

static void read_curve(FILE *file, const neap_graph *graph, frontier_curve *curve)
{
    int64_t unit = 1000000000000000 / neap_graph_ticks_per_second(graph);
    curve->count = (size_t)next_number(file);
    curve->points = calloc(curve->count + 1, sizeof *curve->points);
    assert_non_null(curve->points);
    for (size_t i = 0; i < curve->count; i++) {
        curve->points[i].peak = next_number(file);
        int64_t time = next_number(file);
        assert_true(time % unit == 0);
        curve->points[i].ticks = time / unit;
    }
}

frontier_curve *frontier_curves(neap_graph *const *graphs, size_t count, const char *form)
{
    frontier_curve *curves = calloc(count + 1, sizeof *curves);
    char *folder = make_temporary_folder(), *path = join_path(folder, "graphs");
    char command[1024];
    FILE *file = fopen(path, "w");
    assert_true(curves && file);
    for (size_t i = 0; i < count; i++)
        write_graph(file, graphs[i]);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "python3 -B '%s/staged_many.py' '%s' %s", ORACLE, path, form);
    fflush(NULL);
    FILE *oracle = popen(command, "r");
    assert_non_null(oracle);
    for (size_t i = 0; i < count; i++)
        read_curve(oracle, graphs[i], &curves[i]);
    assert_int_equal(pclose(oracle), 0);
    free(path);
    remove_temporary_folder(folder);
    return curves;
}

void frontier_curves_free(frontier_curve *curves, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(curves[i].points);
    free(curves);
}

int64_t frontier_ticks(const frontier_curve *curve, int64_t budget)
{
    int64_t ticks = -1;
    for (size_t i = 0; i < curve->count && curve->points[i].peak <= budget; i++)
        ticks = curve->points[i].ticks;
    return ticks;
}

/* ---- Questions about many graphs ---- */

neap_graph *draw_mixed(random_source *random, size_t i, uint32_t size)
{
    return i % 3 ? random_training_graph(random, size, false) : random_graph(random, 2 * size + 1);
}

frontier_cases frontier_cases_draw(uint64_t seed, size_t count, frontier_recipe *draw,
                                   uint32_t size, const char *form)
{
    random_source random = {setting("NEAP_TEST_SEED", seed)};
    frontier_cases c = {.form = form, .count = (size_t)setting("NEAP_TEST_COUNT", count)};
    c.graphs = calloc(c.count + 1, sizeof *c.graphs);
    assert_non_null(c.graphs);
    print_message("seed %" PRIu64 ", %zu graphs\n", random.state, c.count);
    for (size_t i = 0; i < c.count; i++)
        c.graphs[i] = draw(&random, i, size);
    c.curves = frontier_curves(c.graphs, c.count, form);
    return c;
}

void frontier_cases_clear(frontier_cases *c)
{
    frontier_curves_free(c->curves, c->count);
    for (size_t i = 0; i < c->count; i++)
        neap_graph_destroy(c->graphs[i]);
    free(c->graphs);
}

uint64_t frontier_ask(const frontier_cases *c, int64_t lowest, frontier_question *ask)
{
    uint64_t asked = 0;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->curves[i].count; k++) {
            int64_t peak = c->curves[i].points[k].peak;
            for (int64_t budget = peak; budget >= lowest && budget >= peak - 1; budget--, asked++)
                ask(c->graphs[i], c->form, budget, frontier_ticks(&c->curves[i], budget));
        }
    return asked;
}
