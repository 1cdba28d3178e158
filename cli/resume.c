#include "resume.h"

#include "output.h"
#include "parse_values.h"

#include <inttypes.h>
#include <string.h>

typedef struct source {
    cli_settings *settings;
    const neap_safetensors *file;
} source;

/* Reports a change that is allowed. */
static void say_change(const source *s, const char *option, const char *before, const char *now)
{
    cli_fail(CLI_OK, "%s was trained with --%s %s; this training continues with %s",
             s->settings->resume, option, before, now);
}

/* Takes a number from the checkpoint if the option is not given. */
static void take_real(const source *s, const char *key, const char *option, double *number)
{
    const char *text = neap_safetensors_metadata(s->file, key);
    double before;
    cli_text now;
    if (!text || !cli_parse_real(text, &before) || before < 0)
        return;
    if (!cli_is_given(s->settings, option))
        *number = before;
    else if (before < *number || before > *number)
        say_change(s, option, text, cli_format(&now, "%g", *number));
}

static void take_warmup(const source *s)
{
    const char *text = neap_safetensors_metadata(s->file, "warmup");
    int64_t before, *warmup = &s->settings->warmup;
    cli_text now;
    if (!text || !cli_parse_integer(text, &before) || before < 0)
        return;
    if (!cli_is_given(s->settings, "warmup"))
        *warmup = before;
    else if (before != *warmup)
        say_change(s, "warmup", text, cli_format(&now, "%" PRId64, *warmup));
}

/* The cosine ends at the last step, so its rates change if --steps does. */
static void take_cosine(const source *s)
{
    const char *text = neap_safetensors_metadata(s->file, "cosine");
    int64_t before = 0;
    if (text && cli_parse_integer(text, &before) && before != s->settings->steps)
        cli_fail(CLI_OK, "%s was trained with --cosine to step %s; it now ends at step %" PRId64,
                 s->settings->resume, text, s->settings->steps);
    else if (!text && s->settings->cosine)
        cli_fail(CLI_OK, "%s was trained without --cosine; this training continues with it",
                 s->settings->resume);
    if (text)
        s->settings->cosine = true;
}

/* Resuming reports a number that is missing. */
static int check_steps(const source *s)
{
    const char *text = neap_safetensors_metadata(s->file, "step");
    int64_t done;
    if (!text || !cli_parse_integer(text, &done) || done < s->settings->steps)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT,
                    "%s has %s steps done already; --steps says how many there are in all",
                    s->settings->resume, text);
}

static int take_seed(const source *s)
{
    const char *text = neap_safetensors_metadata(s->file, "seed");
    uint64_t before;
    if (!text || !cli_parse_unsigned(text, &before))
        return CLI_OK; /* resuming reports what is missing */
    if (cli_is_given(s->settings, "seed") && s->settings->seed != before)
        return cli_fail(CLI_BAD_INPUT,
                        "%s was trained with --seed %s, not %" PRIu64 "; leave out --seed",
                        s->settings->resume, text, s->settings->seed);
    return CLI_OK;
}

static int take_data(const source *s)
{
    const char *text = neap_safetensors_metadata(s->file, "data");
    if (!text)
        return CLI_OK;
    if (cli_is_given(s->settings, "data") && strcmp(s->settings->data, text) != 0)
        return cli_fail(CLI_BAD_INPUT, "%s was trained with --data %s, not %s; leave out --data",
                        s->settings->resume, text, s->settings->data);
    s->settings->data = text;
    return CLI_OK;
}

/* Another optimizer than that of the file is an error, which resuming reports. */
static void take_optimizer(const source *s)
{
    const char *text = neap_safetensors_metadata(s->file, "optimizer");
    for (int i = NEAP_OPTIMIZER_SGD; text && i <= NEAP_OPTIMIZER_ADAMW; i++)
        if (!cli_is_given(s->settings, "optimizer") &&
            strcmp(neap_optimizer_name((neap_optimizer)i), text) == 0)
            s->settings->optimizer = i;
}

static void take_accumulate(const source *s)
{
    const char *text = neap_safetensors_metadata(s->file, "accumulate");
    int64_t before;
    if (text && cli_parse_integer(text, &before) && before > 0 && before <= INT32_MAX &&
        !cli_is_given(s->settings, "accumulate"))
        s->settings->accumulate = before;
}

int cli_resume_settings(cli_settings *settings, neap_safetensors **file)
{
    neap_diag diag;
    if (neap_safetensors_open(NULL, settings->resume, file, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    source s = {settings, *file};
    const char *format = neap_safetensors_metadata(*file, "format");
    int code = take_seed(&s);
    if (code == CLI_OK)
        code = check_steps(&s);
    take_optimizer(&s);
    if (code == CLI_OK && format && strcmp(format, "neap checkpoint 1") == 0)
        return cli_fail(CLI_OK,
                        "%s is of an older neap: it records neither rate nor batch and has no "
                        "checksums; none of these is checked",
                        settings->resume);
    if (code == CLI_OK)
        code = take_data(&s);
    if (code != CLI_OK)
        return code;
    take_real(&s, "rate", "rate", &settings->learning_rate);
    take_real(&s, "weight_decay", "weight-decay", &settings->weight_decay);
    take_real(&s, "momentum", "momentum", &settings->momentum);
    take_real(&s, "clip_norm", "clip-norm", &settings->clip_norm);
    take_accumulate(&s);
    take_warmup(&s);
    take_cosine(&s);
    return CLI_OK;
}
