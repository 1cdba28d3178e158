/*
 * A link for methods that need one, so that tests over all methods include them; and short limits
 * for methods that would search for long.
 */
#ifndef NEAP_TESTS_METHOD_LINK_H
#define NEAP_TESTS_METHOD_LINK_H

#include <neap/solve.h>

#include <string.h>

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

static inline void set_effort(neap_request *request, const neap_option_setting *effort)
{
    const neap_method *method = neap_methods_find(request->method);
    for (uint32_t i = 0; method && i < neap_method_option_count(method); i++)
        if (strcmp(neap_method_option_at(method, i)->name, effort->name) == 0) {
            request->n_options = 1;
            request->options = effort;
        }
}

/* A method that searches as long as it is told to (its option `effort`) does so but a little:
   enough to find again what it has found once. */
static inline void search_briefly(neap_request *request)
{
    static const neap_option_setting effort = {"effort", "10"};
    set_effort(request, &effort);
}

/* As little as it can. */
static inline void search_least(neap_request *request)
{
    static const neap_option_setting effort = {"effort", "1"};
    set_effort(request, &effort);
}

#endif
