/* help.c - the list of commands, and what `neap help` prints. */

#include "command.h"
#include "output.h"

#include <neap/text.h>

#include <string.h>

const cli_command *const cli_commands[] = {
    &cli_command_plan,    &cli_command_train,     &cli_command_explain,
    &cli_command_compare, &cli_command_curve,     &cli_command_report,
    &cli_command_profile, &cli_command_max_batch, &cli_command_check,
    &cli_command_graph,   &cli_command_models,    &cli_command_methods,
    &cli_command_devices, &cli_command_doctor,    NULL,
};

const char cli_help_about[] =
    "Give neap a network and a memory budget in bytes. It decides what to keep, what to recompute "
    "and what to move to host memory, gives every tensor an address, has an independent judge "
    "replay the plan, tells how far it is from the optimum, and trains by it.";

const cli_exit_code cli_exit_codes[CLI_EXIT_CODES] = {
    {CLI_OK, "success"},
    {CLI_FAILED, "a failed --verify, output that cannot be written, out of memory, or an internal "
                 "error"},
    {CLI_BAD_INPUT, "bad input: an unknown command or option, a value or combination that is not "
                    "allowed, a file that cannot be read or is malformed, or a plan that check "
                    "rejects"},
    {CLI_INFEASIBLE, "no plan fits the budget; the message names a budget or a method that works"},
    {CLI_STOPPED, "the time limit or Ctrl-C came before the result was complete"},
};

static const cli_example TRY[] = {
    {"neap plan resnet50 --batch 64 --budget 45% --chart",
     "plan for 45% of the memory, and see where it goes"},
    {"neap compare gpt2 --budget 60%", "all methods on one network"},
    {"neap models", "the networks that come with neap"},
};

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command *const *command = cli_commands; *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

int cli_command_unknown(const char *name)
{
    neap_suggestion suggestion;
    neap_suggestion_begin(&suggestion, name);
    for (const cli_command *const *command = cli_commands; *command; command++)
        neap_suggestion_offer(&suggestion, (*command)->name);
    neap_suggestion_offer(&suggestion, "help");
    if (suggestion.best)
        return cli_fail(CLI_BAD_INPUT, "no command \"%s\"; did you mean %s?", name,
                        suggestion.best);
    return cli_fail(CLI_BAD_INPUT, "no command \"%s\"; neap help lists them", name);
}

static void add_heading(neap_text *out, const char *heading)
{
    neap_text_puts(out, "\n");
    cli_styled(out, CLI_BOLD, "%s", heading);
    neap_text_puts(out, "\n");
}

static void add_examples(neap_text *out, const char *heading, const cli_example *examples,
                         size_t count)
{
    add_heading(out, heading);
    for (size_t i = 0; i < count && examples[i].line; i++) {
        neap_text_printf(out, "  %s\n      ", examples[i].line);
        cli_styled(out, CLI_DIM, "%s", examples[i].meaning);
        neap_text_puts(out, "\n");
    }
}

void cli_help_overview(neap_text *out)
{
    static const cli_column COLUMNS[] = {{NULL, false, false}, {NULL, false, false}};
    cli_styled(out, CLI_BOLD, "neap");
    neap_text_puts(out, " trains neural networks at the lowest high-water mark of memory\n\n");
    neap_text_puts(out, "Usage: neap COMMAND [OPTIONS]\n\n");
    cli_wrap(out, cli_help_about, 0, 0, (size_t)cli_width());
    neap_text_puts(out, "\n");

    add_heading(out, "Commands");
    cli_table table;
    cli_table_init(&table, COLUMNS, 2, 2);
    for (const cli_command *const *command = cli_commands; *command; command++) {
        cli_cell(&table, CLI_PLAIN, "%s", (*command)->name);
        cli_cell(&table, CLI_PLAIN, "%s", (*command)->summary);
    }
    cli_cell(&table, CLI_PLAIN, "help");
    cli_cell(&table, CLI_PLAIN,
             "explain a command: neap help plan; --man [COMMAND] and "
             "--completion SHELL print a manual page and a script");
    cli_table_finish(&table, out);

    add_examples(out, "Try", TRY, sizeof TRY / sizeof TRY[0]);
    add_heading(out, "Exit status");
    for (size_t i = 0; i < CLI_EXIT_CODES; i++) {
        neap_text_printf(out, "  %d  ", cli_exit_codes[i].code);
        cli_wrap(out, cli_exit_codes[i].meaning, 5, 5, (size_t)cli_width());
        neap_text_puts(out, "\n");
    }
}

/* Where the list of options stands. */
typedef struct option_list {
    const cli_command *command;
    const char *section;
    neap_text *out;
} option_list;

static void add_option(void *context, const cli_option *option)
{
    static const size_t HELP_COLUMN = 26;
    option_list *list = context;
    neap_text *out = list->out;
    if (!list->section || strcmp(list->section, option->section) != 0)
        add_heading(out, list->section = option->section);
    size_t start = out->length;
    neap_text_puts(out, "  ");
    if (option->letter)
        neap_text_printf(out, "-%c, ", option->letter);
    neap_text_printf(out, "--%s%s%s", option->name, option->argument ? " " : "",
                     option->argument ? option->argument : "");
    size_t length = out->length - start;
    if (length + 2 > HELP_COLUMN) {
        neap_text_puts(out, "\n");
        length = 0;
    }
    neap_text_repeat(out, ' ', HELP_COLUMN - length);
    neap_text text = {0};
    cli_option_describe(option, list->command, &text);
    cli_wrap(out, neap_text_get(&text), HELP_COLUMN, HELP_COLUMN, (size_t)cli_width());
    neap_text_puts(out, "\n");
    neap_text_clear(&text);
}

void cli_help_command(const cli_command *command, neap_text *out)
{
    neap_text_printf(out, "Usage: neap %s%s%s [OPTIONS]\n\n", command->name,
                     *command->operands ? " " : "", command->operands);
    cli_wrap(out, command->about, 0, 0, (size_t)cli_width());
    neap_text_puts(out, "\n");
    option_list list = {command, NULL, out};
    cli_args_visit(command, add_option, &list);
    add_examples(out, "Examples", command->examples, CLI_EXAMPLES);
}
