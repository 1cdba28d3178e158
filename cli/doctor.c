/* doctor.c - neap doctor: what works on this machine, found out by running it. */

#include "doctor.h"

#include "command.h"
#include "json.h"
#include "memory.h"
#include "output.h"
#include "progress.h"

#include <neap/version.h>

typedef struct diagnosis {
    doctor_finding finding;
    double seconds;
    bool done;
} diagnosis;

static const char *status_words(doctor_status status)
{
    static const char *const WORDS[] = {
        [DOCTOR_OK] = "ok", [DOCTOR_MISSING] = "missing", [DOCTOR_FAILED] = "failed"};
    return WORDS[status];
}

/* Ctrl-C ends after the current check. */
static void run_checks(diagnosis *found)
{
    cli_progress progress;
    cli_progress_begin(&progress);
    progress.purpose = "checking";
    for (uint32_t i = 0; i < doctor_checks_count && !cli_interrupted(); i++) {
        cli_progress_part(&progress, doctor_checks[i].name, i, doctor_checks_count);
        double begin = cli_clock();
        doctor_checks[i].run(&found[i].finding);
        found[i].seconds = cli_clock() - begin;
        found[i].done = true;
    }
    cli_progress_end(&progress);
}

/* "a training step on oneDNN: oneDNN 3.2 ...": what was run, what came of it, what to do. */
static void add_row(cli_table *table, const doctor_check *check, const diagnosis *d)
{
    static const cli_style STYLES[] = {
        [DOCTOR_OK] = CLI_GOOD, [DOCTOR_MISSING] = CLI_DIM, [DOCTOR_FAILED] = CLI_BAD};
    cli_text time;
    const doctor_finding *f = &d->finding;
    cli_cell(table, CLI_BOLD, "%s", check->name);
    if (!d->done) {
        cli_cell(table, CLI_DIM, "-");
        cli_cell(table, CLI_DIM, "-");
        cli_cell(table, CLI_DIM, "%s: not reached", check->ran);
        return;
    }
    bool bad = f->status != DOCTOR_OK && check->essential;
    cli_cell(table, bad ? CLI_BAD : STYLES[f->status], "%s", status_words(f->status));
    cli_cell(table, CLI_DIM, "%s", cli_seconds(&time, d->seconds));
    cli_cell(table, CLI_PLAIN, "%s: %s%s%s", check->ran, neap_text_get(&f->detail),
             f->remedy.length > 0 ? ". To do: " : "", neap_text_get(&f->remedy));
}

static void add_text(const diagnosis *found, neap_text *out)
{
    static const cli_column COLUMNS[] = {{"check", false, false},
                                         {"result", false, false},
                                         {"time", true, false},
                                         {"what was run, and what came of it", false, false}};
    cli_table table;
    cli_table_init(&table, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0], 0);
    for (uint32_t i = 0; i < doctor_checks_count; i++)
        add_row(&table, &doctor_checks[i], &found[i]);
    cli_table_finish(&table, out);
}

static void add_json(const diagnosis *found, bool works, neap_text *out)
{
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_object(&json, NULL);
    cli_json_string(&json, "neap", neap_version());
    cli_json_bool(&json, "works", works);
    cli_json_array(&json, "checks");
    for (uint32_t i = 0; i < doctor_checks_count; i++) {
        const doctor_finding *f = &found[i].finding;
        cli_json_object(&json, NULL);
        cli_json_string(&json, "name", doctor_checks[i].name);
        cli_json_bool(&json, "essential", doctor_checks[i].essential);
        cli_json_string(&json, "status", found[i].done ? status_words(f->status) : NULL);
        cli_json_string(&json, "ran", doctor_checks[i].ran);
        cli_json_real(&json, "seconds", found[i].seconds);
        cli_json_string(&json, "detail", neap_text_get(&f->detail));
        cli_json_string(&json, "remedy", f->remedy.length > 0 ? f->remedy.text : NULL);
        cli_json_end_object(&json);
    }
    cli_json_end_array(&json);
    cli_json_end_object(&json);
}

/* The essential checks that are not ok; plain C kernels do instead of missing ones. */
static uint32_t count_broken(const diagnosis *found)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < doctor_checks_count; i++)
        count += doctor_checks[i].essential && found[i].finding.status == DOCTOR_FAILED;
    return count;
}

static int run_doctor(const cli_settings *settings, neap_text *out)
{
    diagnosis *found = cli_memory_new(doctor_checks_count, sizeof *found);
    if (!found)
        return cli_fail_memory();
    run_checks(found);
    uint32_t broken = count_broken(found);
    bool whole = found[doctor_checks_count - 1].done;
    if (settings->json)
        add_json(found, broken == 0 && whole, out);
    else
        add_text(found, out);
    for (uint32_t i = 0; i < doctor_checks_count; i++) {
        neap_text_clear(&found[i].finding.detail);
        neap_text_clear(&found[i].finding.remedy);
    }
    cli_memory_release(found, doctor_checks_count, sizeof *found);
    if (!whole)
        return cli_fail(CLI_STOPPED, "interrupted before all checks were run");
    if (broken == 0)
        return CLI_OK;
    return cli_fail(CLI_FAILED, "%u essential check%s failed", broken, broken == 1 ? "" : "s");
}

const cli_command cli_command_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "check what works on this machine",
    .about =
        "Runs something for everything that neap can use: a plan, the solver, an arena, a "
        "training step on the processor and on a GPU, a picture, an ONNX model, PyTorch. A line "
        "says whether it is ok, missing (neap works without it) or failed, what was run, how long "
        "it took, and what to do. The results of a step are compared with those of plain C "
        "kernels. The exit status is 0 if planning and training on the processor work, 1 if not.",
    .examples =
        {
            {"neap doctor", "all checks"},
            {"neap doctor --json", "for a script, or to send with a question"},
        },
    .groups = CLI_GROUP_JSON,
    .least_operands = 0,
    .most_operands = 0,
    .run = run_doctor,
};
