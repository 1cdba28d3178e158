/* train_verify.c - neap train --verify: the same bits with the plan and without. */
#include "json.h"
#include "output.h"
#include "training.h"

int cli_train_fail(const neap_diag *diag)
{
    return diag->status == NEAP_NO_MEMORY ? cli_fail(CLI_FAILED, "%s", diag->message)
                                          : cli_fail_diag(diag);
}

static void add_verdict(const neap_verify_report *report, neap_text *out)
{
    cli_text plan, plain, plan_time, plain_time;
    neap_text_printf(out, "%s: %lld step%s, %llu losses, weights and states compared\n",
                     report->equal ? "equal to the bit" : "NOT equal", (long long)report->steps,
                     report->steps == 1 ? "" : "s", (unsigned long long)report->compared);
    neap_text_printf(out, "  with the plan   arena %s, a step in %s\n",
                     cli_bytes(&plan, report->plan_arena),
                     cli_seconds(&plan_time, report->plan_seconds));
    neap_text_printf(out, "  without         arena %s, a step in %s\n",
                     cli_bytes(&plain, report->plain_arena),
                     cli_seconds(&plain_time, report->plain_seconds));
}

static void add_verdict_json(const neap_verify_report *report, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_bool(&json, "equal", report->equal);
    cli_json_integer(&json, "steps", report->steps);
    cli_json_integer(&json, "compared", (int64_t)report->compared);
    cli_json_real(&json, "last_loss", report->loss);
    cli_json_integer(&json, "plan_arena_bytes", report->plan_arena);
    cli_json_integer(&json, "plain_arena_bytes", report->plain_arena);
    cli_json_real(&json, "plan_step_time", report->plan_seconds);
    cli_json_real(&json, "plain_step_time", report->plain_seconds);
    cli_json_end_object(&json);
}

int cli_train_verify(cli_training *t, cli_progress *progress, neap_text *out)
{
    neap_diag diag;
    neap_verify_report report;
    cli_progress_part(progress, "verifying", 0, 0);
    if (neap_train_verify(NULL, t->planning.model.graph, t->plan, t->measured.backend, &t->options,
                          t->settings.steps, &progress->base, &report, &diag) != NEAP_OK)
        return cli_train_fail(&diag);
    if (report.interrupted && report.steps == 0)
        return cli_fail(CLI_STOPPED, "interrupted before a step was compared");
    t->arena = report.plan_arena;
    int code = cli_training_check_arena(t);
    if (code != CLI_OK)
        return code;
    if (t->settings.json)
        add_verdict_json(&report, out);
    else
        add_verdict(&report, out);
    if (report.interrupted)
        return cli_fail(CLI_STOPPED, "interrupted: %lld of %lld steps were compared",
                        (long long)report.steps, (long long)t->settings.steps);
    if (!report.equal)
        return cli_fail(CLI_FAILED, "step %lld: %s differs; please report it",
                        (long long)report.differs_step, report.differs);
    return CLI_OK;
}
