/* What must succeed in a test: the judge accepts a plan, a backend opens. Otherwise the test fails
   and says why. */
#ifndef NEAP_TESTS_ACCEPTED_H
#define NEAP_TESTS_ACCEPTED_H

#include <neap/check.h>
#include <neap/run.h>

/* The verdict on a plan without a budget. link: NULL if it moves nothing. */
neap_verdict accepted_plan(const neap_graph *graph, const neap_plan *plan, const neap_link *link);

neap_backend *opened_backend(const char *name, int threads);

#endif
