#include "small_graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/models.h>

#include <stdlib.h>
#include <string.h>

const char tiny_graph[] =
    "{'neap': 'graph', 'version': 1, 'name': 'tiny', 'fixed_bytes': 4096,"
    " 'values': [{'name': 'x', 'bytes': 100, 'kind': 'input'},"
    "  {'name': 'h', 'bytes': 200, 'kind': 'activation'},"
    "  {'name': 'hT', 'bytes': 0, 'kind': 'activation', 'view_of': 1},"
    "  {'name': 'loss', 'bytes': 4, 'kind': 'activation'},"
    "  {'name': 'dh', 'bytes': 200, 'kind': 'gradient'}],"
    " 'ops': [{'name': 'fc', 'type': 'linear', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
    "   'time': 0.001, 'workspace': 64,"
    "   'variants': [{'time': 0.001, 'workspace': 64}, {'time': 0.002, 'workspace': 0}]},"
    "  {'name': 'T', 'type': 'view', 'pass': 'forward', 'inputs': [1], 'outputs': [2],"
    "   'time': 0, 'workspace': 0},"
    "  {'name': 'loss', 'type': 'xent', 'pass': 'forward', 'inputs': [2], 'outputs': [3],"
    "   'time': 0.001, 'workspace': 0},"
    "  {'name': 'loss_bw', 'type': 'xent_bw', 'pass': 'backward', 'inputs': [2, 3],"
    "   'outputs': [4], 'time': 0.001, 'workspace': 0}],"
    " 'outputs': [3, 4]}";

const char abc_graph[] =
    "{'neap': 'graph', 'version': 1, 'name': 'abc', 'fixed_bytes': 0,"
    " 'values': [{'name': 'x', 'bytes': 10, 'kind': 'input'},"
    "  {'name': 'a', 'bytes': 100, 'kind': 'activation'},"
    "  {'name': 'b', 'bytes': 200, 'kind': 'activation'},"
    "  {'name': 'c', 'bytes': 50, 'kind': 'activation'}],"
    " 'ops': [{'name': 'A', 'type': 'op', 'pass': 'forward', 'inputs': [0], 'outputs': [1],"
    "   'time': 1, 'workspace': 0},"
    "  {'name': 'B', 'type': 'op', 'pass': 'forward', 'inputs': [1], 'outputs': [2],"
    "   'time': 1, 'workspace': 0},"
    "  {'name': 'C', 'type': 'op', 'pass': 'forward', 'inputs': [1, 2], 'outputs': [3],"
    "   'time': 1, 'workspace': 0}],"
    " 'outputs': [3]}";

neap_graph *graph_from(const char *json)
{
    size_t length = strlen(json);
    char *text = malloc(length + 1);
    assert_non_null(text);
    for (size_t i = 0; i <= length; i++)
        text[i] = json[i] == '\'' ? '"' : json[i];
    neap_graph *graph = NULL;
    neap_diag diag = {0};
    neap_status status = neap_graph_read_text(NULL, text, length, "test", &graph, &diag);
    free(text);
    if (status != NEAP_OK)
        fail_msg("%s", diag.message);
    return graph;
}

neap_graph *unit_chain(int64_t layers)
{
    const neap_model_setting setting = {"layers", layers};
    neap_model_options options;
    neap_graph *graph;
    neap_model_options_init(&options);
    options.n_settings = 1;
    options.settings = &setting;
    assert_int_equal(neap_model_build(NULL, neap_models_find("chain"), &options, &graph, NULL),
                     NEAP_OK);
    return graph;
}

neap_plan *plan_from(const char *steps)
{
    neap_plan *plan = NULL;
    uint32_t host[8];
    size_t n_host = 0;
    assert_int_equal(neap_plan_create(NULL, "test", "hand", -1, &plan, NULL), NEAP_OK);
    while (*steps == 'h' && n_host < 8) {
        char *end;
        host[n_host++] = (uint32_t)strtoul(steps + 1, &end, 10);
        for (steps = end; *steps == ' ';)
            steps++;
    }
    assert_int_equal(neap_plan_set_host_at_start(plan, host, n_host, NULL), NEAP_OK);
    for (const char *at = steps; *at;) {
        static const char letters[] = "cfop";
        const char *letter = strchr(letters, *at);
        char *end;
        assert_non_null(letter);
        neap_step step = {(neap_step_kind)(letter - letters), 0, 0, false};
        step.id = (uint32_t)strtoul(at + 1, &end, 10);
        if (*end == '.')
            step.variant = (uint32_t)strtoul(end + 1, &end, 10);
        step.in_place = *end == '!';
        end += step.in_place;
        assert_int_equal(neap_plan_append(plan, step, NULL), NEAP_OK);
        for (at = end; *at == ' ';)
            at++;
    }
    return plan;
}
