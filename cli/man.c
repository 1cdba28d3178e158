/* man.c - neap help --man [COMMAND]: manual pages, from the same tables as the help. */

#include "command.h"

#include <neap/version.h>
#include <string.h>

/* ---- roff ---- */

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
}

static void add_line(neap_text *out, const char *text)
{
    add_escaped(out, text);
    neap_text_putc(out, '\n');
}

static void add_bold(neap_text *out, const char *text)
{
    neap_text_puts(out, "\\fB");
    add_escaped(out, text);
    neap_text_puts(out, "\\fR");
}

/* "neap-plan", or "neap" without a command. */
static void add_page_name(neap_text *out, const cli_command *command)
{
    neap_text_puts(out, "neap");
    if (command) {
        neap_text_puts(out, "\\-");
        add_escaped(out, command->name);
    }
}

static void begin_page(neap_text *out, const cli_command *command, const char *summary)
{
    neap_text_puts(out, ".TH ");
    for (const char *c = "NEAP"; *c; c++)
        neap_text_putc(out, *c);
    if (command) {
        neap_text_puts(out, "\\-");
        for (const char *c = command->name; *c; c++) {
            char letter[2] = {(char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c), '\0'};
            add_escaped(out, letter);
        }
    }
    neap_text_printf(out, " 1 \"\" \"neap %s\" \"User Commands\"\n.SH NAME\n", neap_version());
    add_page_name(out, command);
    neap_text_puts(out, " \\- ");
    add_line(out, summary);
}

static void add_exit_codes(neap_text *out)
{
    neap_text_puts(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < CLI_EXIT_CODES; i++) {
        neap_text_printf(out, ".TP\n%d\n", cli_exit_codes[i].code);
        add_line(out, cli_exit_codes[i].meaning);
    }
}

/* ---- One command ---- */

/* The state of a list of options. */
typedef struct option_list {
    const cli_command *command;
    const char *section;
    neap_text *out;
} option_list;

static void add_option(void *context, const cli_option *option)
{
    option_list *list = context;
    neap_text *out = list->out;
    neap_text text = {0}, name = {0};
    if (!list->section || strcmp(list->section, option->section) != 0) {
        neap_text_puts(out, ".SS ");
        add_line(out, list->section = option->section);
    }
    if (option->letter)
        neap_text_printf(&name, "-%c, ", option->letter);
    neap_text_printf(&name, "--%s", option->name);
    cli_option_describe(option, list->command, &text);
    neap_text_puts(out, ".TP\n");
    add_bold(out, neap_text_get(&name));
    if (option->argument) {
        neap_text_puts(out, " \\fI");
        add_escaped(out, option->argument);
        neap_text_puts(out, "\\fR");
    }
    neap_text_puts(out, "\n");
    add_line(out, neap_text_get(&text));
    if (text.status != NEAP_OK || name.status != NEAP_OK)
        out->status = NEAP_NO_MEMORY;
    neap_text_clear(&text);
    neap_text_clear(&name);
}

static void add_command(const cli_command *command, neap_text *out)
{
    option_list list = {command, NULL, out};
    begin_page(out, command, command->summary);
    neap_text_puts(out, ".SH SYNOPSIS\n\\fBneap ");
    add_escaped(out, command->name);
    neap_text_puts(out, "\\fR ");
    if (*command->operands) {
        add_escaped(out, command->operands);
        neap_text_puts(out, " ");
    }
    neap_text_puts(out, "[OPTIONS]\n.SH DESCRIPTION\n");
    add_line(out, command->about);
    neap_text_puts(out, ".SH OPTIONS\n");
    cli_args_visit(command, add_option, &list);
    neap_text_puts(out, ".SH EXAMPLES\n");
    for (size_t i = 0; i < CLI_EXAMPLES && command->examples[i].line; i++) {
        neap_text_puts(out, ".TP\n");
        add_bold(out, command->examples[i].line);
        neap_text_puts(out, "\n");
        add_line(out, command->examples[i].meaning);
    }
    add_exit_codes(out);
    neap_text_puts(out, ".SH SEE ALSO\n\\fBneap\\fR(1)\n");
}

/* ---- All commands ---- */

static void add_overview(neap_text *out)
{
    begin_page(out, NULL, "train neural networks within a memory budget");
    neap_text_puts(out, ".SH SYNOPSIS\n\\fBneap\\fR COMMAND [OPTIONS]\n.br\n\\fBneap help\\fR "
                        "[COMMAND]\n.br\n\\fBneap \\-\\-version\\fR\n.SH DESCRIPTION\n");
    add_line(out, cli_help_about);
    neap_text_puts(out, ".SH COMMANDS\n");
    for (const cli_command *const *command = cli_commands; *command; command++) {
        neap_text_puts(out, ".TP\n\\fB");
        add_page_name(out, *command);
        neap_text_puts(out, "\\fR(1)\n");
        add_line(out, (*command)->summary);
    }
    add_exit_codes(out);
    neap_text_puts(out, ".SH ENVIRONMENT\n.TP\nNEAP_DEVICES\n");
    add_line(out, "files with more devices, separated by colons (neap help devices)");
    neap_text_puts(out, ".TP\nNEAP_CUDA_PATH\n");
    add_line(out, "folders of NVIDIA's libraries, separated by colons; none: nowhere");
    neap_text_puts(out, ".TP\nNO_COLOR\n");
    add_line(out, "if it is set, output has no colours");
    neap_text_puts(out, ".TP\nXDG_CACHE_HOME\n");
    add_line(out, "the folder in which neap/profile.json keeps measured times; ~/.cache without "
                  "it");
}

void cli_help_man(const cli_command *command, neap_text *out)
{
    if (command)
        add_command(command, out);
    else
        add_overview(out);
}
