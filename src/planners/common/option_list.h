/*
 * Options that are lists of whole numbers: 3,6,24, or [3, 6, 24] as JSON prints a list.
 *
 * The values of a method's options are doubles (planner.h). That of a list says where its text is:
 * its setting's index in the request + 1, or 0 for an empty list, the default. So a method that
 * another one runs with its defaults has an empty list, whatever the request's options are.
 */
#ifndef NEAP_PLANNERS_OPTION_LIST_H
#define NEAP_PLANNERS_OPTION_LIST_H

#include "planners/common/planner.h"

/* Whether the text is a list of whole numbers within the option's bounds. Their number, and the
   numbers themselves if `items` is not NULL. */
bool neap_option_list_parse(const neap_option *option, const char *text, int64_t *items,
                            size_t *count);

/* The numbers of the list option p->options[index], from the arena. */
neap_status neap_planner_read_list(const planner *p, const neap_option *option, uint32_t index,
                                   neap_arena *arena, int64_t **items, size_t *count,
                                   neap_diag *diag);

#endif
