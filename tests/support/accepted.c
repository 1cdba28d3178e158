#include "accepted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

neap_verdict accepted_plan(const neap_graph *graph, const neap_plan *plan, const neap_link *link)
{
    neap_check_options options;
    neap_verdict verdict;
    neap_check_options_init(&options);
    options.budget = INT64_MAX;
    options.link = link;
    assert_int_equal(neap_check(NULL, graph, plan, &options, &verdict, NULL), NEAP_OK);
    if (!verdict.accepted)
        fail_msg("%s: %s", neap_graph_name(graph), verdict.reason);
    return verdict;
}

neap_backend *opened_backend(const char *name, int threads)
{
    neap_backend *backend;
    neap_diag diag;
    if (neap_backend_open(NULL, name, threads, &backend, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    return backend;
}
