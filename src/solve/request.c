/* neap_request: defaults, validation, and the options of its method. */
#include "base/fail.h"
#include "base/json.h"
#include "base/memory.h"
#include "planners/common/option_list.h"
#include "solve/solution_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void neap_request_init(neap_request *request, const neap_graph *graph, const char *method)
{
    *request = (neap_request){.graph = graph, .method = method, .budget = -1, .alignment = 1};
}

static neap_status find_method(const neap_request *request, const neap_method **method,
                               neap_diag *diag)
{
    *method = neap_methods_find(request->method);
    if (*method)
        return NEAP_OK;
    const char *near = neap_methods_nearest(request->method);
    return neap_fail(diag, NEAP_INVALID, "there is no method \"%s\"%s%s%s", request->method,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Where the state is to be. */
static neap_status check_state(const neap_request *request, const neap_method *method, bool linked,
                               neap_diag *diag)
{
    if ((unsigned)request->state > NEAP_STATE_HOST)
        return neap_fail(diag, NEAP_INVALID, "state is one of auto, device and host");
    if (request->state != NEAP_STATE_HOST)
        return NEAP_OK;
    if (!method->takes_constraints)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "method %s keeps all state on the device; method neap can plan with "
                         "state on the host",
                         request->method);
    if (!linked)
        return neap_fail(diag, NEAP_INVALID,
                         "state on the host needs a link with bandwidth both ways, such as 16GB/s; "
                         "without one, state stays on the device");
    return NEAP_OK;
}

neap_status neap_request_check(const neap_request *request, const neap_method **method,
                               neap_diag *diag)
{
    neap_status status = find_method(request, method, diag);
    if (status != NEAP_OK)
        return status;
    if (request->budget == 0 || request->budget < -1)
        return neap_fail(diag, NEAP_INVALID,
                         "a budget of %" PRId64 " bytes: it must be positive, like 8GiB",
                         request->budget);
    bool linked = request->link.out_bandwidth > 0 && request->link.in_bandwidth > 0;
    if ((*method)->needs_link && !linked)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "method %s moves tensors to host memory and back and needs a link with "
                         "bandwidth both ways",
                         request->method);
    bool constrained =
        request->objective != NEAP_LEAST_TIME || request->n_pins > 0 || request->start;
    if (constrained && !(*method)->takes_constraints)
        return neap_fail(diag, NEAP_UNSUPPORTED,
                         "method %s takes no objective but time, no pins and no plan to start "
                         "from; method neap does",
                         request->method);
    NEAP_TRY(check_state(request, *method, linked, diag));
    if (!(request->gap >= 0))
        return neap_fail(diag, NEAP_INVALID, "a gap is 0 or more, 0.01 for 1%%");
    if (!(request->time_limit >= 0))
        return neap_fail(diag, NEAP_INVALID, "a time limit is 0 (none) or more seconds");
    if (request->alignment < 1)
        return neap_fail(diag, NEAP_INVALID, "an alignment is 1 or more bytes");
    return NEAP_OK;
}

/* ---- Options ---- */

static neap_status set_choice(const neap_option *option, const char *value, double *result,
                              neap_diag *diag)
{
    size_t length = strlen(value);
    double index = 0;
    for (const char *at = option->choices; at; index++) {
        size_t size = strcspn(at, "|");
        if (size == length && memcmp(at, value, length) == 0) {
            *result = index;
            return NEAP_OK;
        }
        at = at[size] ? at + size + 1 : NULL;
    }
    return neap_fail(diag, NEAP_INVALID, "option %s is one of %s, not \"%s\"", option->name,
                     option->choices, value);
}

static neap_status set_number(const neap_option *option, const char *value, double *result,
                              neap_diag *diag)
{
    const char *end = value;
    double number = 0;
    bool is_number = neap_json_parse_number(value, &end, &number);
    bool whole = option->type != NEAP_OPTION_INTEGER || number == floor(number);
    if (!is_number || *end || !isfinite(number) || !whole || number < option->least ||
        number > option->most)
        return neap_fail(diag, NEAP_INVALID,
                         "option %s takes a%s number from %.15g to %.15g, not \"%s\"", option->name,
                         option->type == NEAP_OPTION_INTEGER ? " whole" : "", option->least,
                         option->most, value);
    *result = number;
    return NEAP_OK;
}

/* `index`: the setting's. */
static neap_status set_list(const neap_option *option, const char *value, uint32_t index,
                            double *result, neap_diag *diag)
{
    size_t count;
    if (!neap_option_list_parse(option, value, NULL, &count))
        return neap_fail(diag, NEAP_INVALID,
                         "option %s takes whole numbers from %.15g to %.15g with commas between "
                         "them, such as 3,6,24, not \"%s\"",
                         option->name, option->least, option->most, value);
    *result = (double)index + 1;
    return NEAP_OK;
}

static neap_status set_option(const neap_method *method, const neap_option_setting *settings,
                              uint32_t index, double *values, neap_diag *diag)
{
    const neap_option_setting *setting = &settings[index];
    for (uint32_t i = 0; i < method->n_options; i++) {
        const neap_option *option = &method->options[i];
        if (strcmp(option->name, setting->name) != 0)
            continue;
        if (option->type == NEAP_OPTION_LIST)
            return set_list(option, setting->value, index, &values[i], diag);
        return option->type == NEAP_OPTION_CHOICE
                   ? set_choice(option, setting->value, &values[i], diag)
                   : set_number(option, setting->value, &values[i], diag);
    }
    return neap_fail(diag, NEAP_INVALID, "method %s has no option \"%s\"", method->name,
                     setting->name);
}

neap_status neap_method_options(neap_allocator *allocator, const neap_method *method,
                                const neap_option_setting *settings, uint32_t n_settings,
                                double **values, neap_diag *diag)
{
    neap_status status = NEAP_NEW(allocator, method->n_options, values, diag);
    for (uint32_t i = 0; i < method->n_options && status == NEAP_OK; i++)
        if (method->options[i].type == NEAP_OPTION_INTEGER ||
            method->options[i].type == NEAP_OPTION_REAL) /* else: the first choice, no list */
            (*values)[i] = method->options[i].default_value;
    for (uint32_t i = 0; i < n_settings && status == NEAP_OK; i++)
        status = set_option(method, settings, i, *values, diag);
    return status;
}
