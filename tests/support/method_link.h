/* A link for methods that need one, so that every method runs wherever all are tested. */
#ifndef NEAP_TESTS_METHOD_LINK_H
#define NEAP_TESTS_METHOD_LINK_H

#include <neap/planner.h>

static inline bool method_moves(const char *method)
{
    const neap_method *found = neap_methods_find(method);
    return found && neap_method_needs_link(found);
}

/* A slow one, half duplex; none for methods that only compute. */
static inline neap_link method_link(const char *method)
{
    return method_moves(method) ? (neap_link){.out_bandwidth = 7, .in_bandwidth = 11}
                                : (neap_link){0};
}

#endif
