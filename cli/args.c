#include "args.h"

#include <neap/text.h>

#include "command.h"
#include "options.h"
#include "output.h"

#include <stdio.h>
#include <string.h>

static bool takes(const cli_command *command, const cli_option *option)
{
    return option->group == CLI_GROUP_HELP || (command->groups & option->group) != 0;
}

/* The command's option of a name that has `length` characters, or NULL. */
static const cli_option *find_option(const cli_command *command, const char *name, size_t length)
{
    for (const cli_option *option = cli_options; option->name; option++)
        if (takes(command, option) && strlen(option->name) == length &&
            memcmp(option->name, name, length) == 0)
            return option;
    return NULL;
}

static const cli_option *find_letter(const cli_command *command, char letter)
{
    for (const cli_option *option = cli_options; option->name; option++)
        if (takes(command, option) && option->letter == letter)
            return option;
    return NULL;
}

/* A command that takes an option which this one does not. */
static const cli_command *who_takes(const char *name)
{
    for (const cli_command *const *other = cli_commands; *other; other++)
        if (find_option(*other, name, strlen(name)))
            return *other;
    return NULL;
}

static int unknown_option(const cli_command *command, char *argument)
{
    argument[strcspn(argument, "=")] = '\0';
    const char *name = argument + strspn(argument, "-");
    const cli_command *other = who_takes(name);
    if (other)
        return cli_fail(CLI_BAD_INPUT, "%s takes no --%s (%s does); see neap help %s",
                        command->name, name, other->name, command->name);
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (const cli_option *option = cli_options; option->name; option++)
        if (takes(command, option))
            neap_suggestion_offer(&suggestion, option->name);
    if (suggestion.best)
        return cli_fail(CLI_BAD_INPUT, "%s has no option %s; did you mean --%s?", command->name,
                        argument, suggestion.best);
    return cli_fail(CLI_BAD_INPUT, "%s has no option %s; see neap help %s", command->name, argument,
                    command->name);
}

/* The state of the parser. */
typedef struct parser {
    const cli_command *command;
    cli_settings *settings;
    char **next, **end;
} parser;

/* Splits NAME=VALUE. */
static int split_pair(const cli_option *option, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text || equals[1] == '\0')
        return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not of the form %s", option->name, text,
                        option->argument);
    *equals = '\0';
    return CLI_OK;
}

/* Sets the option's value: `attached`, or the next argument. */
static int apply_option(parser *p, const cli_option *option, char *attached)
{
    char *value = attached;
    if (!option->argument && attached)
        return cli_fail(CLI_BAD_INPUT, "--%s takes no value", option->name);
    if (option->argument && !value) {
        if (p->next == p->end || strncmp(*p->next, "--", 2) == 0)
            return cli_fail(CLI_BAD_INPUT, "--%s needs a value: --%s %s", option->name,
                            option->name, option->argument);
        value = *p->next++;
    }
    if (value && *value == '\0')
        return cli_fail(CLI_BAD_INPUT, "--%s needs a value that is not empty: --%s %s",
                        option->name, option->name, option->argument);
    int code = option->is_pair ? split_pair(option, value) : CLI_OK;
    if (code == CLI_OK)
        code = option->set(option, p->settings, value);
    p->settings->given[p->settings->n_given++] = option;
    return code;
}

static int parse_option(parser *p, char *argument)
{
    if (argument[1] == '-') {
        char *name = argument + 2;
        size_t length = strcspn(name, "=");
        const cli_option *option = find_option(p->command, name, length);
        if (!option)
            return unknown_option(p->command, argument);
        return apply_option(p, option, name[length] == '=' ? name + length + 1 : NULL);
    }
    const cli_option *option = find_letter(p->command, argument[1]);
    if (!option)
        return unknown_option(p->command, argument);
    char *attached = argument[2] == '\0' ? NULL : argument + 2;
    return apply_option(p, option, attached && *attached == '=' ? attached + 1 : attached);
}

static int check_operands(const cli_command *command, const cli_settings *settings)
{
    if (settings->n_operands < command->least_operands)
        return cli_fail(CLI_BAD_INPUT, "%s needs %s; see neap help %s", command->name,
                        command->operands, command->name);
    if (settings->n_operands > command->most_operands)
        return cli_fail(CLI_BAD_INPUT, "%s takes no \"%s\" after %s; see neap help %s",
                        command->name, settings->operands[command->most_operands],
                        command->most_operands ? command->operands : "its name", command->name);
    return CLI_OK;
}

/* ---- Defaults ---- */

static const cli_default *default_of(const cli_option *option, const cli_command *command)
{
    const cli_default *entry = option->defaults;
    while (entry->command && strcmp(entry->command, command->name) != 0)
        entry++;
    return entry;
}

/* The defaults of all options: a setting without an option in this command has its usual value. */
static int set_defaults(const cli_command *command, cli_settings *settings)
{
    int code = CLI_OK;
    for (const cli_option *option = cli_options; option->name && code == CLI_OK; option++) {
        const char *value = default_of(option, command)->value;
        if (value)
            code = option->set(option, settings, value);
    }
    return code;
}

int cli_args_parse(const cli_command *command, int count, char **arguments, cli_settings *settings)
{
    parser p = {command, settings, arguments, arguments + count};
    bool options = true;
    int code = set_defaults(command, settings);
    while (code == CLI_OK && p.next < p.end) {
        char *argument = *p.next++;
        if (options && strcmp(argument, "--") == 0)
            options = false;
        else if (options && argument[0] == '-' && argument[1] != '\0')
            code = parse_option(&p, argument);
        else
            settings->operands[settings->n_operands++] = argument;
    }
    return code != CLI_OK || settings->help ? code : check_operands(command, settings);
}

/* ---- Help ---- */

/* ": time (the fastest in the budget), peak (...) or batch (...)" */
static void add_choices(const cli_option *option, neap_text *out)
{
    for (const cli_choice *choice = option->choices; choice->name; choice++) {
        bool first = choice == option->choices, last = !choice[1].name;
        neap_text_printf(out, "%s%s", first ? ": " : last ? " or " : ", ", choice->name);
        if (choice->meaning)
            neap_text_printf(out, " (%s)", choice->meaning);
    }
}

void cli_option_describe(const cli_option *option, const cli_command *command, neap_text *out)
{
    const char *hole = option->list ? strstr(option->help, "%s") : NULL;
    if (hole) {
        neap_text_append(out, option->help, (size_t)(hole - option->help));
        option->list(out);
        neap_text_puts(out, hole + 2);
    } else {
        neap_text_puts(out, option->help);
    }
    add_choices(option, out);
    const cli_default *entry = default_of(option, command);
    const char *words = entry->words ? entry->words : entry->value;
    if (words)
        neap_text_printf(out, " [default: %s]", words);
}

void cli_args_visit(const cli_command *command,
                    void (*visit)(void *context, const cli_option *option), void *context)
{
    for (const cli_option *option = cli_options; option->name; option++)
        if (takes(command, option))
            visit(context, option);
}
