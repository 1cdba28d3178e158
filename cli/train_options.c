#include "train_options.h"

#include "output.h"
#include "parse_values.h"

#include <string.h>

static int parse_steps(const char *option, const char *value, int64_t least, int64_t *number)
{
    if (cli_parse_integer(value, number) && *number >= least && *number <= INT64_MAX / 4)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a number of steps of %lld or more", option,
                    value, (long long)least);
}

static int parse_rate(const char *option, const char *value, double *number)
{
    if (cli_parse_real(value, number) && *number >= 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a number of 0 or more", option, value);
}

int cli_apply_backend(cli_settings *s, char *value)
{
    s->backend = value;
    return CLI_OK;
}

int cli_apply_profile_cache(cli_settings *s, char *value)
{
    if (strcmp(value, "-") == 0)
        return cli_fail(CLI_BAD_INPUT, "--profile-cache takes the name of a file, or none");
    s->profile_cache = value;
    return CLI_OK;
}

int cli_apply_fresh(cli_settings *s, char *value)
{
    (void)value;
    s->fresh = true;
    return CLI_OK;
}

int cli_apply_steps(cli_settings *s, char *value)
{
    return parse_steps("steps", value, 1, &s->steps);
}

int cli_apply_data(cli_settings *s, char *value)
{
    s->data = value;
    return CLI_OK;
}

int cli_apply_plan_file(cli_settings *s, char *value)
{
    s->plan_file = value;
    return CLI_OK;
}

int cli_apply_rate(cli_settings *s, char *value)
{
    return parse_rate("rate", value, &s->learning_rate);
}

int cli_apply_momentum(cli_settings *s, char *value)
{
    return parse_rate("momentum", value, &s->momentum);
}

int cli_apply_weight_decay(cli_settings *s, char *value)
{
    return parse_rate("weight-decay", value, &s->weight_decay);
}

int cli_apply_warmup(cli_settings *s, char *value)
{
    return parse_steps("warmup", value, 0, &s->warmup);
}

int cli_apply_cosine(cli_settings *s, char *value)
{
    (void)value;
    s->cosine = true;
    return CLI_OK;
}

int cli_apply_save(cli_settings *s, char *value)
{
    s->save = value;
    return CLI_OK;
}

int cli_apply_save_every(cli_settings *s, char *value)
{
    return parse_steps("save-every", value, 1, &s->save_every);
}

int cli_apply_resume(cli_settings *s, char *value)
{
    s->resume = value;
    return CLI_OK;
}

int cli_apply_verify(cli_settings *s, char *value)
{
    (void)value;
    s->verify = true;
    return CLI_OK;
}

int cli_apply_poison(cli_settings *s, char *value)
{
    (void)value;
    s->poison = true;
    return CLI_OK;
}
