#include "planning.h"

#include "no_plan.h"
#include "output.h"

#include <string.h>

int cli_planning_solve(cli_planning *p)
{
    cli_methods methods;
    int code = cli_methods_read(p->settings, &methods);
    if (code != CLI_OK)
        return code;
    cli_run run;
    cli_run_begin(&run, p->settings, &p->model);
    code = cli_methods_check_options(&methods, p->settings);
    if (code == CLI_OK)
        code = cli_solve_best(&run, &methods, p->budget, &p->result);
    if (code == CLI_OK && p->result.solved && p->result.figures->outcome == NEAP_INFEASIBLE)
        code = cli_no_plan_why(&run, &p->result, strcmp(p->settings->method, "all") == 0,
                               &p->explanation);
    cli_run_end(&run);
    cli_methods_clear(&methods);
    return code;
}

int cli_planning_fail(const cli_planning *p)
{
    const cli_result *result = &p->result;
    if (!result->solved)
        return cli_fail_unsupported(&p->model, result->method, &result->note);
    const char *shortage = neap_solution_shortage(result->solution);
    switch (result->figures->outcome) {
    case NEAP_INFEASIBLE:
        return cli_fail(CLI_INFEASIBLE, "%s", neap_text_get(&p->explanation));
    case NEAP_TIME_LIMIT:
        return cli_fail(CLI_STOPPED,
                        "%s found no plan within the time limit%s%s; raise --time-limit or "
                        "--budget, or try another --method",
                        result->method, *shortage ? ": " : "", shortage);
    case NEAP_INTERRUPTED:
        return cli_fail(CLI_STOPPED,
                        "interrupted before %s found a plan; give it more time, a larger --budget, "
                        "or try another --method",
                        result->method);
    default:
        return cli_fail(CLI_FAILED, "internal error: %s promises a plan and has none",
                        result->method);
    }
}

void cli_planning_clear(cli_planning *p)
{
    cli_result_clear(&p->result);
    neap_text_clear(&p->explanation);
    cli_loaded_clear(&p->model);
}
