/*
 * neap_solve: requests and the messages for invalid ones, outcomes and figures, and properties of
 * every method on real models.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "method_link.h"
#include "random_training.h"
#include "settings.h"
#include "small_graphs.h"

#include <neap/check.h>
#include <neap/cost.h>
#include <neap/models.h>
#include <neap/solve.h>
#include <neap/text.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static neap_graph *build_model(const char *name, uint32_t n_settings,
                               const neap_model_setting *settings)
{
    neap_model_options options;
    neap_graph *graph;
    neap_diag diag = {0};
    neap_model_options_init(&options);
    options.n_settings = n_settings;
    options.settings = settings;
    if (neap_model_build(NULL, neap_models_find(name), &options, &graph, &diag) != NEAP_OK)
        fail_msg("%s: %s", name, diag.message);
    return graph;
}

/* NULL where the method does not do such graphs; any other failure fails the test. */
static neap_solution *solve(const neap_graph *graph, const char *method, int64_t budget)
{
    neap_request request;
    neap_solution *solution = NULL;
    neap_diag diag = {0};
    neap_request_init(&request, graph, method);
    request.link = method_link(method);
    request.budget = budget;
    search_least(&request);
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    if (status != NEAP_OK && status != NEAP_UNSUPPORTED)
        fail_msg("%s on %s with %lld: %s", method, neap_graph_name(graph), (long long)budget,
                 diag.message);
    assert_true((status == NEAP_OK) == (solution != NULL));
    return solution;
}

static const char *method_name(uint32_t index)
{
    return neap_method_name(neap_methods_at(index));
}

/* ---- The methods ---- */

static void test_methods_describe_themselves(void **state)
{
    (void)state;
    assert_true(neap_methods_count() >= 2);
    assert_null(neap_methods_at(neap_methods_count()));
    assert_null(neap_methods_find("no such method"));
    for (uint32_t m = 0; m < neap_methods_count(); m++) {
        const neap_method *method = neap_methods_at(m);
        assert_ptr_equal(neap_methods_find(neap_method_name(method)), method);
        assert_string_equal(neap_methods_nearest(neap_method_name(method)),
                            neap_method_name(method));
        assert_true(strlen(neap_method_summary(method)) > 10);
        assert_null(strchr(neap_method_summary(method), '\n'));
        assert_true(strlen(neap_method_source(method)) > 5);
        assert_null(neap_method_option_at(method, neap_method_option_count(method)));
        for (uint32_t i = 0; i < neap_method_option_count(method); i++) {
            const neap_option *option = neap_method_option_at(method, i);
            assert_true(*option->name && *option->meaning);
            if (option->type == NEAP_OPTION_CHOICE) {
                assert_non_null(strchr(option->choices, '|'));
            } else if (option->type == NEAP_OPTION_LIST) {
                assert_true(option->least <= option->most);
            } else {
                assert_true(option->least <= option->default_value);
                assert_true(option->default_value <= option->most);
            }
        }
    }
    assert_string_equal(neap_methods_nearest("sqr"), "sqrt");
    assert_string_equal(neap_methods_nearest("store"), "store-all");
    assert_null(neap_methods_nearest("xyzzyxyzzy"));
}

static void test_outcome_names(void **state)
{
    (void)state;
    static const char *const names[] = {"optimal",    "feasible",    "infeasible",
                                        "time_limit", "interrupted", "unknown"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(neap_outcome_name((neap_outcome)i), names[i]);
}

/* ---- Requests ---- */

static void refuse(const neap_request *request, const char *message)
{
    neap_solution *solution = (neap_solution *)&solution;
    neap_diag diag = {0};
    assert_int_equal(neap_solve(NULL, request, &solution, &diag), NEAP_INVALID);
    assert_null(solution);
    assert_string_equal(diag.message, message);
}

static void test_wrong_requests(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(4);
    neap_request request;
    neap_request_init(&request, graph, "sqr");
    refuse(&request, "there is no method \"sqr\"; did you mean sqrt?");
    request.method = "qqqqqqqqqqqqqqqqqq";
    refuse(&request, "there is no method \"qqqqqqqqqqqqqqqqqq\"");
    request.method = "";
    assert_int_equal(neap_solve(NULL, &request, &(neap_solution *){NULL}, NULL), NEAP_INVALID);
    request.method = "sqrt";
    request.budget = 0;
    refuse(&request, "a budget of 0 bytes: it must be positive, like 8GiB");
    request.budget = -2;
    refuse(&request, "a budget of -2 bytes: it must be positive, like 8GiB");
    request.budget = -1;
    request.time_limit = -1;
    refuse(&request, "a time limit is 0 (none) or more seconds");
    request.time_limit = (double)NAN;
    refuse(&request, "a time limit is 0 (none) or more seconds");
    request.time_limit = 0;
    request.alignment = 0;
    refuse(&request, "an alignment is 1 or more bytes");
    neap_graph_destroy(graph);
}

/* An update in the middle of a file comes last in the ordinary step, with what reads its result. */
static void test_natural_peak_with_updates(void **state)
{
    (void)state;
    neap_graph *graph =
        graph_from("{'neap':'graph','version':1,'name':'t','values':["
                   "{'bytes':100,'state':true},{'bytes':10},{'bytes':1},{'bytes':2},{'bytes':3},"
                   "{'bytes':40}],'ops':["
                   "{'name':'g','inputs':[],'outputs':[1],'time':1},"
                   "{'name':'u','inputs':[0,1],'outputs':[2],'updates':[0],'time':1},"
                   "{'name':'n','inputs':[2],'outputs':[3],'time':1,'in_place':[2,3]},"
                   "{'name':'h','inputs':[],'outputs':[5],'time':1},"
                   "{'name':'k','inputs':[5],'outputs':[4],'time':1}],'outputs':[3,4]}");
    static const uint32_t expected[] = {0, 3, 4, 1, 2};
    const uint32_t *order = neap_graph_ordinary_order(graph);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(order[i], expected[i]);
    int64_t peak;
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    assert_int_equal(peak, 100 + 10 + 40 + 3); /* the gradient stays while k runs */
    neap_solution *solution = solve(graph, "store-all", -1);
    assert_int_equal(neap_solution_figures(solution)->peak_bytes, peak);
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

static void test_state_places(void **state)
{
    (void)state;
    static const char *const names[] = {"auto", "device", "host", "unknown"};
    neap_graph *graph = unit_chain(4);
    neap_state_place place;
    neap_request request;
    neap_request_init(&request, graph, "neap");
    assert_int_equal(request.state, NEAP_STATE_AUTO);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_string_equal(neap_state_place_name((neap_state_place)i), names[i]);
        assert_int_equal(neap_state_place_from_name(names[i], &place), i < 3);
        assert_true(i == 3 || place == (neap_state_place)i);
    }
    request.state = NEAP_STATE_HOST;
    refuse(&request, "state on the host needs a link with bandwidth both ways, such as 16GB/s; "
                     "without one, state stays on the device");
    request.state = (neap_state_place)3;
    refuse(&request, "state is one of auto, device and host");
    request.state = NEAP_STATE_HOST;
    request.link = (neap_link){.out_bandwidth = 1e9, .in_bandwidth = 1e9};
    request.method = "store-all";
    neap_solution *solution;
    neap_diag diag = {0};
    assert_int_equal(neap_solve(NULL, &request, &solution, &diag), NEAP_UNSUPPORTED);
    assert_string_equal(diag.message, "method store-all keeps all state on the device; method neap "
                                      "can plan with state on the host");
    neap_graph_destroy(graph);
}

static void test_unknown_options(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(4);
    neap_request request;
    neap_option_setting settings[] = {{"length", "2"}, {"lenght", "2"}};
    neap_request_init(&request, graph, "sqrt");
    request.n_options = 2;
    request.options = settings;
    refuse(&request, "method sqrt has no option \"lenght\"");
    request.method = "store-all";
    refuse(&request, "method store-all has no option \"length\"");
    neap_graph_destroy(graph);
}

static void expect_option(const neap_graph *graph, const char *method, const char *name,
                          const char *value, bool accepted, const char *message)
{
    neap_option_setting setting = {name, value};
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    neap_request_init(&request, graph, method);
    request.link = method_link(method);
    request.n_options = 1;
    request.options = &setting;
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    if (accepted && status != NEAP_OK && status != NEAP_UNSUPPORTED)
        fail_msg("%s, %s = %s: %s", method, name, value, diag.message);
    if (!accepted && status != NEAP_INVALID)
        fail_msg("%s takes %s = \"%s\"", method, name, value);
    if (!accepted && message)
        assert_string_equal(diag.message, message);
    neap_solution_destroy(solution);
}

static void try_number(const neap_graph *graph, const char *method, const neap_option *option)
{
    static const char *const never[] = {"", "a", "1x", "nan", "inf", "--1", "1 2"};
    bool whole = option->type == NEAP_OPTION_INTEGER;
    char text[64], message[256];
    snprintf(text, sizeof text, "%.17g", option->default_value);
    expect_option(graph, method, option->name, text, true, NULL);
    snprintf(text, sizeof text, "%.17g", option->least);
    expect_option(graph, method, option->name, text, true, NULL);
    double outside[] = {option->least - 1, option->most + 1 + option->most / 1e9};
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%.17g", outside[i]);
        snprintf(message, sizeof message,
                 "option %s takes a%s number from %.15g to %.15g, not \"%s\"", option->name,
                 whole ? " whole" : "", option->least, option->most, text);
        expect_option(graph, method, option->name, text, false, message);
    }
    for (size_t i = 0; i < COUNT_OF(never); i++)
        expect_option(graph, method, option->name, never[i], false, NULL);
    if (whole)
        expect_option(graph, method, option->name, "1.5", false, NULL);
}

static void try_choice(const neap_graph *graph, const char *method, const neap_option *option)
{
    char choices[256], message[512];
    assert_true(strlen(option->choices) < sizeof choices);
    strcpy(choices, option->choices);
    for (char *choice = choices, *end; choice; choice = end) {
        end = strchr(choice, '|');
        if (end)
            *end++ = '\0';
        expect_option(graph, method, option->name, choice, true, NULL);
    }
    static const char *const never[] = {"", "nonsense", "|"};
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        snprintf(message, sizeof message, "option %s is one of %s, not \"%s\"", option->name,
                 option->choices, never[i]);
        expect_option(graph, method, option->name, never[i], false, message);
    }
}

static void try_list(const neap_graph *graph, const char *method, const neap_option *option)
{
    static const char *const never[] = {"a", "1x", "nan", "1,", "1.5", "[1"};
    char text[64];
    expect_option(graph, method, option->name, "", true, NULL);
    expect_option(graph, method, option->name, "[]", true, NULL);
    snprintf(text, sizeof text, "[%.17g, %.17g]", option->least, option->least);
    expect_option(graph, method, option->name, text, true, NULL);
    snprintf(text, sizeof text, "%.17g,%.17g", option->least, option->least - 1);
    expect_option(graph, method, option->name, text, false, NULL);
    for (size_t i = 0; i < COUNT_OF(never); i++)
        expect_option(graph, method, option->name, never[i], false, NULL);
}

static void test_every_option(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(6);
    for (uint32_t m = 0; m < neap_methods_count(); m++) {
        const neap_method *method = neap_methods_at(m);
        for (uint32_t i = 0; i < neap_method_option_count(method); i++) {
            const neap_option *option = neap_method_option_at(method, i);
            if (option->type == NEAP_OPTION_CHOICE)
                try_choice(graph, neap_method_name(method), option);
            else if (option->type == NEAP_OPTION_LIST)
                try_list(graph, neap_method_name(method), option);
            else
                try_number(graph, neap_method_name(method), option);
        }
    }
    neap_graph_destroy(graph);
}

/* ---- Single methods ---- */

static void test_store_all(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    neap_solution *solution = solve(graph, "store-all", -1);
    const neap_figures *f = neap_solution_figures(solution);
    int64_t natural;
    assert_int_equal(f->outcome, NEAP_OPTIMAL); /* every op once: nothing is faster */
    assert_int_equal(f->budget_bytes, -1);
    assert_int_equal(f->peak_bytes, 360);
    assert_int_equal(f->floor_bytes, 360);
    assert_int_equal(f->arena_bytes, 360);
    assert_true(f->time == 3 && f->base_time == 3 && f->bound_time == 3);
    assert_true(f->overhead == 0 && f->gap == 0 && f->solve_seconds >= 0);
    assert_int_equal(f->recomputed_ops, 0);
    assert_int_equal(f->offloaded_bytes, 0);
    assert_int_equal(f->least_budget, -1);
    assert_int_equal(f->blocking_op, NEAP_NONE);
    assert_string_equal(neap_solution_message(solution), "");
    assert_int_equal(neap_solution_extra_count(solution), 0);
    assert_null(neap_solution_extra_at(solution, 0));
    assert_string_equal(neap_plan_method(neap_solution_plan(solution)), "store-all");
    assert_string_equal(neap_plan_graph_name(neap_solution_plan(solution)), "abc");
    assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
    assert_int_equal(natural, 360);
    neap_solution_destroy(solution);
    neap_solution_destroy(NULL);
    neap_graph_destroy(graph);
}

/* Below the floor no method is run. */
static void test_below_floor(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(abc_graph);
    neap_solution *solution = solve(graph, "store-all", 359);
    const neap_figures *f = neap_solution_figures(solution);
    assert_int_equal(f->outcome, NEAP_INFEASIBLE);
    assert_null(neap_solution_plan(solution));
    assert_int_equal(f->least_budget, -1);
    assert_int_equal(f->blocking_op, NEAP_NONE);
    assert_int_equal(f->floor_bytes, 360);
    assert_int_equal(f->floor_op, 2);
    assert_int_equal(f->budget_bytes, 359);
    assert_true(f->peak_bytes < 0 && f->arena_bytes < 0 && f->time < 0 && f->overhead < 0);
    assert_string_equal(neap_solution_message(solution),
                        "budget 359 B is below 360 B, which op \"C\" needs whatever is recomputed");
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
    graph = graph_from("{'neap':'graph','version':1,'values':[{'bytes':100}],'ops':[],"
                       "'outputs':[0]}");
    solution = solve(graph, "neap", 99);
    assert_string_equal(neap_solution_message(solution),
                        "budget 99 B is below 100 B, which the outputs need whatever is "
                        "recomputed");
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

static bool always_cancelled(neap_progress *self)
{
    (void)self;
    return true; /* a method that looks is stopped at once */
}

/* Whatever the method: the answer is infeasible, not "stopped", and it takes no time. */
static void test_hopeless_budgets(void **state)
{
    (void)state;
    neap_progress progress = {.cancelled = always_cancelled};
    neap_graph *graph = unit_chain(40);
    int64_t least = neap_graph_floor_bytes(graph, NULL);
    for (uint32_t m = 0; m < neap_methods_count(); m++) {
        neap_request request;
        neap_solution *solution;
        neap_request_init(&request, graph, method_name(m));
        request.link = method_link(method_name(m));
        request.budget = least - 1;
        request.progress = &progress;
        assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
        const neap_figures *f = neap_solution_figures(solution);
        assert_int_equal(f->outcome, NEAP_INFEASIBLE);
        assert_int_equal(f->floor_bytes, least);
        assert_int_equal(f->least_budget, -1);
        neap_solution_destroy(solution);
    }
    neap_graph_destroy(graph);
}

/* What a method found is its own figure, apart from the floor. */
static void test_infeasible(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(4);
    neap_solution *enough = solve(graph, "store-all", -1);
    int64_t peak = neap_solution_figures(enough)->peak_bytes;
    neap_solution_destroy(enough);
    neap_solution *solution = solve(graph, "store-all", peak - 1);
    const neap_figures *f = neap_solution_figures(solution);
    assert_int_equal(f->outcome, NEAP_INFEASIBLE);
    assert_null(neap_solution_plan(solution));
    assert_int_equal(f->least_budget, peak);
    assert_true(f->floor_bytes < peak && f->blocking_op != NEAP_NONE);
    char message[256], budget[32], least[32];
    snprintf(message, sizeof message,
             "store-all has no plan within %s; the least it found is %s (op \"%s\")",
             neap_bytes_format(peak - 1, budget, sizeof budget),
             neap_bytes_format(peak, least, sizeof least),
             neap_graph_op(graph, f->blocking_op)->name);
    assert_string_equal(neap_solution_message(solution), message);
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

/* neap's bound is one for all plans: it holds for sqrt's too, and for smaller budgets. */
static void test_shared_bounds(void **state)
{
    (void)state;
    neap_graph *graph = unit_chain(12);
    neap_solution *enough = solve(graph, "store-all", -1);
    int64_t peak = neap_solution_figures(enough)->peak_bytes;
    neap_solution_destroy(enough);
    neap_solution *all[] = {solve(graph, "neap", peak * 2 / 3), NULL,
                            solve(graph, "sqrt", peak * 2 / 3), solve(graph, "sqrt", peak / 2),
                            solve(graph, "sqrt", peak)};
    const neap_figures *f[COUNT_OF(all)];
    for (size_t i = 0; i < COUNT_OF(all); i++)
        f[i] = all[i] ? neap_solution_figures(all[i]) : NULL;
    double bound = f[0]->bound_time, own = f[4]->bound_time;
    assert_int_equal(f[0]->bound_scope, NEAP_SCOPE_ANY);
    assert_true(bound > f[2]->bound_time && bound > f[3]->bound_time);
    neap_solutions_share_bounds(all, COUNT_OF(all));
    assert_true(f[0]->bound_time == bound);
    assert_true(f[2]->bound_time == bound && f[3]->bound_time == bound);
    assert_true(f[2]->gap == f[2]->time / bound - 1);
    assert_true(f[4]->bound_time == own); /* a larger budget may allow faster plans */
    for (size_t i = 0; i < COUNT_OF(all); i++)
        neap_solution_destroy(all[i]);
    neap_graph_destroy(graph);
}

static void test_scopes(void **state)
{
    (void)state;
    for (int scope = NEAP_SCOPE_ANY; scope <= NEAP_SCOPE_ONCE; scope++) {
        assert_true(neap_scope_covers(NEAP_SCOPE_ANY, (neap_scope)scope));
        assert_true(neap_scope_covers((neap_scope)scope, (neap_scope)scope));
        assert_int_equal(neap_scope_covers((neap_scope)scope, NEAP_SCOPE_ANY), scope == 0);
        assert_string_not_equal(neap_scope_name((neap_scope)scope), "unknown");
    }
    assert_true(neap_scope_covers(NEAP_SCOPE_ORDER, NEAP_SCOPE_FRONTIER));
    assert_false(neap_scope_covers(NEAP_SCOPE_FRONTIER, NEAP_SCOPE_ORDER));
    assert_false(neap_scope_covers(NEAP_SCOPE_ORDER, NEAP_SCOPE_PASSES));
    assert_string_equal(neap_scope_name(NEAP_SCOPE_ONCE), "once");
    assert_string_equal(neap_scope_name((neap_scope)99), "unknown");
}

/* Graphs without an op, or without a forward part, are graphs too. */
static void test_odd_graphs(void **state)
{
    (void)state;
    static const char *const graphs[] = {
        "{'neap':'graph','version':1,'values':[],'ops':[],'outputs':[]}",
        "{'neap':'graph','version':1,'values':[{'bytes':100}],'ops':[],'outputs':[0]}",
        "{'neap':'graph','version':1,'values':[{'bytes':3}],'ops':[{'pass':'backward','inputs':[],"
        "'outputs':[0],'time':1}],'outputs':[0]}",
        "{'neap':'graph','version':1,'values':[],'ops':[{'inputs':[],'outputs':[],'time':0}],"
        "'outputs':[]}",
        "{'neap':'graph','version':1,'fixed_bytes':9,'values':[{'bytes':0},{'bytes':0}],'ops':["
        "{'inputs':[],'outputs':[0],'time':0},{'pass':'backward','inputs':[0],'outputs':[1],"
        "'time':0},{'inputs':[1],'outputs':[],'time':1}],'outputs':[]}",
        "{'neap':'graph','version':1,'values':[{'bytes':9000000000000000000},"
        "{'bytes':200000000000000000}],'ops':[{'inputs':[],'outputs':[0],'time':9e14},"
        "{'pass':'backward','inputs':[0],'outputs':[1],'time':0}],'outputs':[1]}",
    };
    for (size_t i = 0; i < COUNT_OF(graphs); i++) {
        neap_graph *graph = graph_from(graphs[i]);
        int64_t floor_bytes = neap_graph_floor_bytes(graph, NULL);
        for (uint32_t m = 0; m < neap_methods_count(); m++) {
            const int64_t budgets[] = {-1, INT64_MAX, floor_bytes, floor_bytes - 1, 1};
            for (size_t b = 0; b < COUNT_OF(budgets); b++) {
                if (budgets[b] == 0 || budgets[b] < -1)
                    continue;
                neap_solution *solution = solve(graph, method_name(m), budgets[b]);
                if (solution && budgets[b] > 0 && budgets[b] < floor_bytes)
                    assert_null(neap_solution_plan(solution));
                neap_solution_destroy(solution);
            }
        }
        neap_graph_destroy(graph);
    }
}

/* A message is one line, whatever the op is called. */
static void test_message_with_odd_names(void **state)
{
    (void)state;
    static const char *const names[] = {"two\\nlines \\u001b[31m", "\xe2\x82\xac\xe2\x82\xac"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char json[1024], name[512] = "";
        for (int k = 0; k < 20; k++)
            strcat(name, names[i]);
        snprintf(
            json, sizeof json,
            "{'neap':'graph','version':1,'values':[{'bytes':9}],'ops':[{'name':'%s','inputs':[],"
            "'outputs':[0],'time':0}],'outputs':[]}",
            name);
        neap_graph *graph = graph_from(json);
        neap_solution *solution = solve(graph, "store-all", 5);
        for (const char *c = neap_solution_message(solution); *c; c++) {
            assert_true((unsigned char)*c >= 0x20);
            if (strncmp(c, "\xe2\x82\xac", 3) == 0)
                c += 2;
            else
                assert_true((unsigned char)*c < 0x7f); /* no character in pieces */
        }
        neap_solution_destroy(solution);
        neap_graph_destroy(graph);
    }
}

static void test_sqrt_checkpoints(void **state)
{
    (void)state;
    static const int64_t expected[] = {5, 10, 15, 20, 24};
    neap_graph *graph = build_model("hong-vgg19", 1, &(neap_model_setting){"batch", 2});
    neap_solution *solution = solve(graph, "sqrt", -1);
    assert_int_equal(neap_solution_extra_count(solution), 1);
    const neap_extra *extra = neap_solution_extra_at(solution, 0);
    assert_string_equal(extra->name, "checkpoints");
    assert_true(extra->is_list);
    assert_int_equal(extra->n_items, COUNT_OF(expected));
    for (size_t i = 0; i < COUNT_OF(expected); i++)
        assert_int_equal(extra->items[i], expected[i]);
    assert_true(neap_solution_figures(solution)->recomputed_ops > 0);
    neap_solution_destroy(solution);
    neap_graph_destroy(graph);
}

/* The fastest variant that fits, at every execution of its op. */
static void test_variants(void **state)
{
    (void)state;
    neap_graph *graph = graph_from(
        "{'neap':'graph','version':1,'values':[{'bytes':10,'kind':'input'},{'bytes':100}],'ops':["
        "{'name':'A','inputs':[0],'outputs':[1],'time':1,'workspace':100,'variants':["
        "{'time':1,'workspace':100},{'time':3,'workspace':20},{'time':2,'workspace':50}]}],"
        "'outputs':[1]}");
    static const struct {
        int64_t budget;
        int variant; /* -1: infeasible */
        double time;
    } cases[] = {{-1, 0, 1},  {1000, 0, 1}, {210, 0, 1},  {209, 2, 2}, {160, 2, 2},
                 {159, 1, 3}, {130, 1, 3},  {129, -1, 0}, {1, -1, 0}};
    for (uint32_t m = 0; m < neap_methods_count(); m++)
        for (size_t i = 0; i < COUNT_OF(cases); i++) {
            neap_solution *solution = solve(graph, method_name(m), cases[i].budget);
            if (!solution)
                continue;
            const neap_figures *f = neap_solution_figures(solution);
            const neap_plan *plan = neap_solution_plan(solution);
            if (cases[i].variant < 0) {
                assert_null(plan);
                assert_int_equal(f->floor_bytes, 130);
                assert_int_equal(f->floor_op, 0);
            } else {
                assert_int_equal(neap_plan_steps(plan)[0].variant, cases[i].variant);
                assert_true(f->time == cases[i].time);
                assert_true(f->bound_time >= 1 && f->bound_time <= f->time && f->base_time == 1);
            }
            neap_solution_destroy(solution);
        }
    neap_graph_destroy(graph);
}

/* ---- What holds for every method ---- */

/* Small settings: the graphs matter, not their sizes. */
static const struct small_model {
    const char *name;
    neap_model_setting settings[2];
} small_models[] = {
    {"hong-vgg19", {{"batch", 2}, {"image", 32}}},
    {"hong-alexnet", {{"batch", 2}, {"batch", 2}}},
    {"alexnet", {{"batch", 3}, {"batch", 3}}},
    {"vgg11", {{"batch", 2}, {"image", 64}}},
    {"unet", {{"batch", 1}, {"image", 64}}},
    {"gpt2", {{"batch", 2}, {"layers", 3}}},
    {"chain", {{"layers", 13}, {"reads_input", 1}}},
    {"chain", {{"layers", 30}, {"reads_input", 0}}},
    {"resnet18", {{"batch", 2}, {"image", 64}}}, /* takes longest: for some only */
};

typedef void graph_check(const neap_graph *graph, const char *method);

/* Methods that solve a program for every plan: only what is small is quick, and their least budget
   is the least found, which a search within less may still beat. */
static bool solves_programs(const char *method)
{
    return strncmp(method, "checkmate", 9) == 0;
}

/* How large a graph may be for a method to be quick. */
static uint32_t quick_ops(const char *method)
{
    if (solves_programs(method))
        return 30;
    return neap_method_takes_constraints(neap_methods_find(method)) ? 100 / ONE_IN(2) : UINT32_MAX;
}

static void for_models_and_methods(graph_check *check, size_t n_models, bool in_place)
{
    for (size_t i = 0; i < n_models; i++) {
        neap_graph *graph = build_model(small_models[i].name, 2, small_models[i].settings);
        if (!in_place)
            neap_graph_clear_in_place(graph);
        for (uint32_t m = 0; m < neap_methods_count(); m++)
            if (neap_graph_op_count(graph) <= quick_ops(method_name(m)))
                check(graph, method_name(m));
        neap_graph_destroy(graph);
    }
}

/* What it says it needs is what it found: another search, for so much, may find less. */
static bool may_find_less(const char *method)
{
    return solves_programs(method) || neap_method_takes_constraints(neap_methods_find(method));
}

/* Its least budget is enough, and a byte less is not. */
static void check_least_budget(const neap_graph *graph, const char *method)
{
    neap_solution *solution = solve(graph, method, neap_graph_floor_bytes(graph, NULL));
    if (!solution)
        return;
    const neap_figures *f = neap_solution_figures(solution);
    int64_t least = f->least_budget;
    if (neap_solution_plan(solution)) {
        least = f->peak_bytes;
        assert_int_equal(least, f->floor_bytes);
    } else {
        assert_int_equal(f->outcome, NEAP_INFEASIBLE);
        assert_true(strlen(neap_solution_message(solution)) > 0);
        assert_true(f->blocking_op < neap_graph_op_count(graph));
        if (least <= f->floor_bytes)
            fail_msg("%s on %s: least budget %lld, floor %lld", method, neap_graph_name(graph),
                     (long long)least, (long long)f->floor_bytes);
    }
    neap_solution_destroy(solution);

    solution = solve(graph, method, least);
    f = neap_solution_figures(solution);
    if (!neap_solution_plan(solution))
        fail_msg("%s on %s: the least budget is %lld, but then %lld", method,
                 neap_graph_name(graph), (long long)least, (long long)f->least_budget);
    assert_true(f->peak_bytes == least || (may_find_less(method) && f->peak_bytes < least));
    neap_solution_destroy(solution);
    if (may_find_less(method))
        return;

    solution = solve(graph, method, least - 1);
    f = neap_solution_figures(solution);
    if (neap_solution_plan(solution))
        fail_msg("%s on %s: the least budget is %lld, but %lld will do", method,
                 neap_graph_name(graph), (long long)least, (long long)f->peak_bytes);
    assert_int_equal(f->least_budget, least > f->floor_bytes ? least : -1);
    neap_solution_destroy(solution);
}

/* Its least budget is enough with runs in place, too. */
static void check_least_in_place(const neap_graph *graph, const char *method)
{
    neap_solution *solution = solve(graph, method, neap_graph_floor_bytes(graph, NULL));
    if (!solution)
        return;
    int64_t least = neap_solution_figures(solution)->least_budget;
    bool found = neap_solution_plan(solution) != NULL;
    neap_solution_destroy(solution);
    if (found)
        return;
    solution = solve(graph, method, least);
    if (!neap_solution_plan(solution))
        fail_msg("%s on %s: the least budget is %lld, but then %lld", method,
                 neap_graph_name(graph), (long long)least,
                 (long long)neap_solution_figures(solution)->least_budget);
    assert_true(neap_solution_figures(solution)->peak_bytes <= least);
    neap_solution_destroy(solution);
}

static void test_least_budget(void **state)
{
    (void)state;
    for_models_and_methods(check_least_budget, COUNT_OF(small_models), false);
    for_models_and_methods(check_least_in_place, COUNT_OF(small_models), true);
}

/* The same request gives the same plan, to the byte. */
static void check_determinism(const neap_graph *graph, const char *method)
{
    int64_t peak = 0;
    char *texts[2];
    size_t lengths[2];
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    for (int i = 0; i < 2; i++) {
        neap_solution *solution = solve(graph, method, peak - peak / 8);
        if (!solution || !neap_solution_plan(solution)) {
            assert_int_equal(i, 0);
            neap_solution_destroy(solution);
            return;
        }
        assert_int_equal(
            neap_plan_write_text(neap_solution_plan(solution), NULL, &texts[i], &lengths[i], NULL),
            NEAP_OK);
        neap_solution_destroy(solution);
    }
    if (strcmp(texts[0], texts[1]) != 0)
        fail_msg("%s on %s: two plans for one request", method, neap_graph_name(graph));
    for (int i = 0; i < 2; i++)
        neap_release(NULL, texts[i], lengths[i] + 1);
}

static void test_determinism(void **state)
{
    (void)state;
    for_models_and_methods(check_determinism, COUNT_OF(small_models) - 1, true);
}

/* The figures are the judge's. */
static void check_figures(const neap_graph *graph, const char *method)
{
    neap_solution *solution = solve(graph, method, -1);
    if (!solution)
        return;
    const neap_figures *f = neap_solution_figures(solution);
    neap_verdict verdict;
    assert_non_null(neap_solution_plan(solution));
    assert_int_equal(neap_check(NULL, graph, neap_solution_plan(solution), NULL, &verdict, NULL),
                     NEAP_OK);
    assert_true(verdict.accepted && verdict.has_arena);
    assert_int_equal(f->peak_bytes, verdict.peak_bytes);
    assert_int_equal(f->arena_bytes, verdict.arena_bytes);
    assert_true(f->arena_bytes >= f->peak_bytes && f->peak_bytes >= f->floor_bytes);
    assert_true(f->time == verdict.time);
    assert_int_equal(f->recomputed_ops, verdict.recomputed_ops);
    assert_true(f->base_time == neap_graph_seconds(graph, neap_graph_base_ticks(graph)));
    assert_true(f->time >= f->bound_time);
    if (f->base_time > 0)
        assert_true(fabs(f->overhead - (f->time / f->base_time - 1)) < 1e-12);
    if (verdict.ticks == neap_graph_least_ticks(graph))
        assert_int_equal(f->outcome, NEAP_OPTIMAL);
    neap_solution_destroy(solution);
}

static void test_figures(void **state)
{
    (void)state;
    for_models_and_methods(check_figures, COUNT_OF(small_models) - 1, true);
}

/* ---- Stopping ---- */

static void set_times(neap_graph *graph)
{
    neap_devices *devices;
    assert_int_equal(neap_devices_create(NULL, &devices, NULL), NEAP_OK);
    assert_int_equal(
        neap_cost_apply(graph, neap_devices_find(devices, "h200"), NEAP_MATH_F32, NULL), NEAP_OK);
    neap_devices_destroy(devices);
}

/* Proposition 3 of Beaumont et al., for the budget and not for the fewer live bytes of the plan. */
static void check_lower_bound(const neap_solution *solution, int64_t natural)
{
    const neap_extra *bound = NULL;
    const neap_figures *f = neap_solution_figures(solution);
    double moving = 2 * (double)(natural - f->budget_bytes) / 12e9;
    for (uint32_t i = 0; i < neap_solution_extra_count(solution); i++)
        if (strcmp(neap_solution_extra_at(solution, i)->name, "lower_bound") == 0)
            bound = neap_solution_extra_at(solution, i);
    assert_true(bound && bound->is_bound);
    assert_true(fabs(bound->number - fmax(moving, f->base_time)) < 1e-9);
}

/* Copies move in time until the addresses fit: no plan within fewer live bytes is needed. */
static void test_a_budget_is_one_on_the_arena(void **state)
{
    (void)state;
    static const struct {
        const char *model, *method;
        int share; /* of what training takes without a plan, percent */
    } cases[] = {
        {"resnet18", "vdnn", 60}, {"resnet18", "offload-greedy", 62}, {"unet", "vdnn", 40}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (int64_t alignment = 1; alignment <= 64; alignment += 63) {
            neap_graph *graph = build_model(cases[i].model, 0, NULL);
            neap_graph_clear_in_place(graph); /* the bound is for runs out of place */
            set_times(graph);
            int64_t natural;
            assert_int_equal(neap_natural_peak(NULL, graph, &natural, NULL), NEAP_OK);
            neap_request request;
            neap_solution *solution;
            neap_request_init(&request, graph, cases[i].method);
            request.link = (neap_link){.out_bandwidth = 12e9, .in_bandwidth = 12e9};
            request.budget = natural / 100 * cases[i].share;
            request.alignment = alignment;
            assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
            const neap_figures *f = neap_solution_figures(solution);
            const neap_plan *plan = neap_solution_plan(solution);
            assert_non_null(plan);
            assert_int_equal(neap_plan_arena_bytes(plan), f->arena_bytes);
            assert_true(f->arena_bytes >= f->peak_bytes && f->arena_bytes <= request.budget);
            assert_true((double)f->arena_bytes <= 1.01 * (double)f->peak_bytes);
            assert_int_equal(neap_plan_budget(plan), request.budget);
            assert_true(f->bound_time <= f->time);
            assert_true(f->outcome != NEAP_OPTIMAL || f->time <= f->bound_time);
            assert_string_equal(neap_solution_message(solution), "");
            check_lower_bound(solution, natural);
            size_t count;
            const int64_t *offsets = neap_plan_offsets(plan, &count);
            for (size_t k = 0; k < count; k++)
                assert_int_equal(offsets[k] % alignment, 0);
            neap_solution_destroy(solution);
            neap_graph_destroy(graph);
        }
    }
}

/* The phases of a solve, each once while it lasts, with commas between them. */
typedef struct phase_log {
    neap_progress base;
    char text[256];
    const char *last;
} phase_log;

static void log_phase(neap_progress *self, const neap_progress_event *event)
{
    phase_log *log = (phase_log *)self;
    size_t length = strlen(log->text);
    assert_non_null(event->phase);
    assert_null(event->part);
    if (!log->last || strcmp(log->last, event->phase) != 0)
        snprintf(log->text + length, sizeof log->text - length, "%s%s", length ? ", " : "",
                 event->phase);
    log->last = event->phase;
}

/* What progress reports is what is being done, whichever the method. */
static void test_phases(void **state)
{
    (void)state;
    static const char *const METHODS[] = {"store-all", "sqrt", "neap"};
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++) {
        phase_log log = {.base = {.report = log_phase}};
        neap_graph *graph = unit_chain(8);
        neap_request request;
        neap_solution *solution;
        neap_request_init(&request, graph, METHODS[i]);
        request.progress = &log.base;
        assert_int_equal(neap_solve(NULL, &request, &solution, NULL), NEAP_OK);
        assert_string_equal(log.text, "planning, checking the plan, assigning addresses, "
                                      "checking the plan, done");
        neap_solution_destroy(solution);
        neap_graph_destroy(graph);
    }
}

static void test_stop_flag(void **state)
{
    (void)state;
    neap_stop_flag flag = {.raised = 7};
    neap_stop_flag_init(&flag);
    assert_null(flag.base.report);
    assert_false(flag.base.cancelled(&flag.base));
    neap_stop_flag_raise(&flag);
    assert_true(flag.base.cancelled(&flag.base));
}

/* Cancelled from the start: there is still an answer, and its claims hold. */
static void check_cancelled(const neap_graph *graph, const char *method)
{
    neap_stop_flag flag;
    neap_request request;
    neap_solution *solution;
    neap_diag diag = {0};
    int64_t peak;
    neap_stop_flag_init(&flag);
    neap_stop_flag_raise(&flag);
    assert_int_equal(neap_natural_peak(NULL, graph, &peak, NULL), NEAP_OK);
    neap_request_init(&request, graph, method);
    request.link = method_link(method);
    request.budget = peak - peak / 10;
    request.progress = &flag.base;
    neap_status status = neap_solve(NULL, &request, &solution, &diag);
    if (status == NEAP_UNSUPPORTED)
        return;
    if (status != NEAP_OK)
        fail_msg("%s: %s", method, diag.message);
    const neap_figures *f = neap_solution_figures(solution);
    assert_true(f->outcome != NEAP_TIME_LIMIT);
    if (neap_solution_plan(solution))
        assert_true(f->peak_bytes <= request.budget);
    else if (f->outcome != NEAP_INTERRUPTED) { /* then it knows, and would say so in any case */
        assert_int_equal(f->outcome, NEAP_INFEASIBLE);
        neap_solution *whole = solve(graph, method, request.budget);
        assert_null(neap_solution_plan(whole));
        neap_solution_destroy(whole);
    }
    neap_solution_destroy(solution);
}

static void test_cancelled(void **state)
{
    (void)state;
    for_models_and_methods(check_cancelled, COUNT_OF(small_models) - 1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods_describe_themselves),
        cmocka_unit_test(test_outcome_names),
        cmocka_unit_test(test_wrong_requests),
        cmocka_unit_test(test_state_places),
        cmocka_unit_test(test_natural_peak_with_updates),
        cmocka_unit_test(test_unknown_options),
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_store_all),
        cmocka_unit_test(test_infeasible),
        cmocka_unit_test(test_shared_bounds),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_below_floor),
        cmocka_unit_test(test_hopeless_budgets),
        cmocka_unit_test(test_odd_graphs),
        cmocka_unit_test(test_message_with_odd_names),
        cmocka_unit_test(test_sqrt_checkpoints),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_least_budget),
        cmocka_unit_test(test_determinism),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_a_budget_is_one_on_the_arena),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_stop_flag),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
