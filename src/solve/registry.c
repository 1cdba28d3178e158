/* neap/planner.h: the list of methods, their descriptions, and the names of scopes and places. */
#include "planners/common/planner.h"

#include <neap/text.h>

#include <string.h>

#define X(name) extern const neap_method neap_method_##name;
#include "solve/methods.def"
#undef X

static const neap_method *const methods[] = {
#define X(name) &neap_method_##name,
#include "solve/methods.def"
#undef X
};
#define N_METHODS ((uint32_t)(sizeof methods / sizeof *methods))

uint32_t neap_methods_count(void)
{
    return N_METHODS;
}

const neap_method *neap_methods_at(uint32_t index)
{
    return index < N_METHODS ? methods[index] : NULL;
}

const neap_method *neap_methods_find(const char *name)
{
    for (uint32_t i = 0; i < N_METHODS; i++)
        if (strcmp(methods[i]->name, name) == 0)
            return methods[i];
    return NULL;
}

const char *neap_methods_nearest(const char *name)
{
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (uint32_t i = 0; i < N_METHODS; i++)
        neap_suggestion_offer(&suggestion, methods[i]->name);
    return suggestion.best;
}

const char *neap_scope_name(neap_scope scope)
{
    static const char *const names[] = {"any", "order", "frontier", "passes", "once"};
    return (size_t)scope < sizeof names / sizeof *names ? names[scope] : "unknown";
}

bool neap_scope_covers(neap_scope scope, neap_scope other)
{
    bool keeps_order = other == NEAP_SCOPE_FRONTIER || other == NEAP_SCOPE_ONCE;
    return scope == NEAP_SCOPE_ANY || scope == other || (scope == NEAP_SCOPE_ORDER && keeps_order);
}

static const char *const places[] = {"auto", "device", "host"};

const char *neap_state_place_name(neap_state_place place)
{
    return (size_t)place < sizeof places / sizeof *places ? places[place] : "unknown";
}

bool neap_state_place_from_name(const char *name, neap_state_place *place)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(places[i], name) == 0) {
            *place = (neap_state_place)i;
            return true;
        }
    return false;
}

const char *neap_method_name(const neap_method *method)
{
    return method->name;
}

const char *neap_method_summary(const neap_method *method)
{
    return method->summary;
}

const char *neap_method_source(const neap_method *method)
{
    return method->source;
}

bool neap_method_takes_constraints(const neap_method *method)
{
    return method->takes_constraints;
}

bool neap_method_needs_link(const neap_method *method)
{
    return method->needs_link;
}

const char *neap_method_part_of(const neap_method *method)
{
    return method->part_of;
}

uint32_t neap_method_option_count(const neap_method *method)
{
    return method->n_options;
}

const neap_option *neap_method_option_at(const neap_method *method, uint32_t index)
{
    return index < method->n_options ? &method->options[index] : NULL;
}
