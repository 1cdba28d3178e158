/* man.c - neap help --man: the manual page, from the same tables as the help. */

#include "command.h"

#include <neap/version.h>
#include <string.h>

/* Text in which roff sees no requests and no escapes; a hyphen stays one that can be copied. */
static void add_escaped(neap_text *out, const char *text)
{
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            neap_text_puts(out, "\\&");
        if (*text == '\\')
            neap_text_puts(out, "\\e");
        else if (*text == '-')
            neap_text_puts(out, "\\-");
        else if (text[0] == '\n' && text[1] == '\n')
            neap_text_puts(out, "\n.PP"); /* the second one ends its line */
        else
            neap_text_putc(out, *text);
        line_start = *text == '\n';
    }
    neap_text_putc(out, '\n');
}

/* The state of a list of options. */
typedef struct option_list {
    const cli_command *command;
    neap_text *out;
} option_list;

static void add_option(void *context, const cli_option *option)
{
    const option_list *list = context;
    neap_text text = {0}, name = {0};
    if (option->letter)
        neap_text_printf(&name, "-%c, ", option->letter);
    neap_text_printf(&name, "--%s%s%s", option->name, option->argument ? " " : "",
                     option->argument ? option->argument : "");
    cli_option_describe(option, list->command, &text);
    neap_text_puts(list->out, ".TP\n");
    add_escaped(list->out, neap_text_get(&name));
    add_escaped(list->out, neap_text_get(&text));
    neap_text_clear(&text);
    neap_text_clear(&name);
}

static void add_command(const cli_command *command, neap_text *out)
{
    option_list list = {command, out};
    neap_text_printf(out, ".SH NEAP %s\n", command->name);
    neap_text_puts(out, ".nf\n");
    neap_text_printf(out, "\\fBneap %s\\fR %s [OPTIONS]\n.fi\n.PP\n", command->name,
                     command->operands);
    add_escaped(out, command->about);
    cli_args_visit(command, add_option, &list);
    neap_text_puts(out, ".PP\nExamples:\n");
    for (size_t i = 0; i < CLI_EXAMPLES && command->examples[i].line; i++) {
        neap_text_puts(out, ".TP\n");
        add_escaped(out, command->examples[i].line);
        add_escaped(out, command->examples[i].meaning);
    }
}

void cli_help_man(neap_text *out)
{
    neap_text_printf(out, ".TH NEAP 1 \"\" \"neap %s\" \"User Commands\"\n", neap_version());
    neap_text_puts(out, ".SH NAME\nneap \\- train neural networks within a memory budget\n"
                        ".SH SYNOPSIS\n\\fBneap\\fR COMMAND [OPTIONS]\n.SH DESCRIPTION\n");
    add_escaped(out, cli_help_about);
    for (const cli_command *const *command = cli_commands; *command; command++)
        add_command(*command, out);
    neap_text_puts(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < CLI_EXIT_CODES; i++) {
        neap_text_printf(out, ".TP\n%d\n", cli_exit_codes[i].code);
        add_escaped(out, cli_exit_codes[i].meaning);
    }
}
