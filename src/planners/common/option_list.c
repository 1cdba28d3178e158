#include "planners/common/option_list.h"

#include "base/fail.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " \t");
}

/* The end of the number that the text begins with; NULL: there is none, or it is out of bounds. */
static const char *read_item(const neap_option *option, const char *text, int64_t *item)
{
    const char *end = text;
    double number = 0;
    if (!neap_json_parse_number(text, &end, &number) || !(number >= option->least) ||
        !(number <= option->most) || number != floor(number))
        return NULL;
    *item = (int64_t)number;
    return skip_spaces(end);
}

bool neap_option_list_parse(const neap_option *option, const char *text, int64_t *items,
                            size_t *count)
{
    const char *at = skip_spaces(text);
    bool bracket = *at == '[';
    int64_t item;
    *count = 0;
    at = skip_spaces(at + bracket);
    while (*at != (bracket ? ']' : '\0')) {
        if (*count > 0 && *at++ != ',')
            return false;
        at = read_item(option, skip_spaces(at), &item);
        if (!at)
            return false;
        if (items)
            items[*count] = item;
        ++*count;
    }
    return *skip_spaces(at + bracket) == '\0';
}

neap_status neap_planner_read_list(const planner *p, const neap_option *option, uint32_t index,
                                   neap_arena *arena, int64_t **items, size_t *count,
                                   neap_diag *diag)
{
    size_t setting = (size_t)p->options[index];
    const char *text = setting ? p->request->options[setting - 1].value : "";
    *items = NULL;
    if (!neap_option_list_parse(option, text, NULL, count)) /* it was checked with the request */
        return neap_fail(diag, NEAP_INTERNAL, "option %s is \"%s\"", option->name, text);
    if (*count == 0)
        return NEAP_OK;
    if (!NEAP_TAKE(arena, *count, *items))
        return neap_fail_no_memory(diag);
    neap_option_list_parse(option, text, *items, count);
    return NEAP_OK;
}
