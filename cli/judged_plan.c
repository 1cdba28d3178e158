#include "judged_plan.h"

#include "output.h"

#include <string.h>

int cli_plan_is_for(const cli_loaded *model, const char *path, const neap_plan *plan)
{
    const char *made_for = neap_plan_graph_name(plan), *graph = neap_graph_name(model->graph);
    return strcmp(made_for, graph) == 0
               ? CLI_OK
               : cli_fail(CLI_BAD_INPUT, "%s is a plan for \"%s\", not for \"%s\"", path, made_for,
                          graph);
}

int cli_judge_plan(const cli_loaded *model, const char *path, const neap_plan *plan, int64_t budget,
                   const char *what, const char *remedy, neap_verdict *verdict)
{
    neap_diag diag;
    neap_check_options options;
    int code = cli_plan_is_for(model, path, plan);
    if (code != CLI_OK)
        return code;
    neap_check_options_init(&options);
    options.budget = budget < 0 ? -1 : budget;
    options.link = model->link.out_bandwidth > 0 ? &model->link : NULL;
    if (neap_check(NULL, model->graph, plan, &options, verdict, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    if (verdict->accepted)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "%s is no plan for this %s: %s%s%s", path, what, verdict->reason,
                    remedy ? "; " : "", remedy ? remedy : "");
}
