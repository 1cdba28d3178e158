/* completion_fish.c - the script for fish: one `complete` line for each command and option. */

#include "completion.h"

#include <string.h>

static const char HEAD[] =
    "# fish completion for neap. Made by: neap help --completion fish\n"
    "\n"
    "function __neap_command --description 'whether this is the command'\n"
    "    set -l words (commandline --current-process --tokenize --cut-at-cursor)\n"
    "    test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
    "end\n"
    "\n"
    "function __neap_first --description 'whether there is no command yet'\n"
    "    test (count (commandline --current-process --tokenize --cut-at-cursor)) -eq 1\n"
    "end\n"
    "\n"
    "# Words with commas between them: completes the last.\n"
    "function __neap_list\n"
    "    set -l before (commandline --current-token | string replace --regex '^--[^=]*=' '' | "
    "string match --regex '.*,')\n"
    "    printf '%s\\n' $before$argv\n"
    "end\n"
    "\n"
    "complete --command neap --no-files\n"
    "complete --command neap --condition __neap_first --long-option help "
    "--description 'list the commands'\n"
    "complete --command neap --condition __neap_first --long-option version "
    "--description 'print the version'\n";

/* "complete --command neap --condition '__neap_command plan'" */
static void begin_line(neap_text *out, const char *command)
{
    neap_text_printf(out, "complete --command neap --condition '__neap_command %s'", command);
}

static void add_words(neap_text *out, completion_kind kind, const neap_text *words)
{
    if (kind == COMPLETION_LIST)
        neap_text_printf(out, " --arguments '(__neap_list %s)'", neap_text_get(words));
    else if (words->length > 0)
        neap_text_printf(out, " --arguments '%s'", neap_text_get(words));
    if (words->status != NEAP_OK)
        out->status = words->status;
}

typedef struct option_list {
    const cli_command *command;
    neap_text *out;
} option_list;

static void add_option(void *context, const cli_option *option)
{
    const option_list *list = context;
    neap_text *out = list->out;
    neap_text words = {0}, summary = {0};
    completion_kind kind = completion_of_option(option, &words);
    completion_summary(option, &summary);
    begin_line(out, list->command->name);
    if (option->letter)
        neap_text_printf(out, " --short-option %c", option->letter);
    neap_text_printf(out, " --long-option %s", option->name);
    if (kind == COMPLETION_FILES)
        neap_text_puts(out, " --require-parameter --force-files");
    else if (option->argument)
        neap_text_puts(out, " --exclusive");
    add_words(out, kind, &words);
    neap_text_puts(out, " --description ");
    completion_quoted(out, neap_text_get(&summary));
    neap_text_puts(out, "\n");
    if (summary.status != NEAP_OK)
        out->status = summary.status;
    neap_text_clear(&words);
    neap_text_clear(&summary);
}

static void add_command(const cli_command *command, neap_text *out)
{
    option_list list = {command, out};
    neap_text words = {0};
    neap_text_printf(out,
                     "\ncomplete --command neap --condition __neap_first --arguments %s "
                     "--description ",
                     command->name);
    completion_quoted(out, command->summary);
    neap_text_puts(out, "\n");
    if (command->most_operands > 0) { /* later operands are files, which the first may be, too */
        completion_kind kind = completion_of_operand(command, 0, &words);
        begin_line(out, command->name);
        if (kind == COMPLETION_FILES || kind == COMPLETION_WORDS_OR_FILES)
            neap_text_puts(out, " --force-files");
        add_words(out, kind, &words);
        neap_text_puts(out, "\n");
    }
    cli_args_visit(command, add_option, &list);
    neap_text_clear(&words);
}

void completion_fish(neap_text *out)
{
    neap_text_puts(out, HEAD);
    for (const cli_command *const *command = cli_commands; *command; command++)
        add_command(*command, out);
    neap_text_puts(out, "\ncomplete --command neap --condition __neap_first --arguments help "
                        "--description 'explain a command'\n");
    begin_line(out, "help");
    neap_text_puts(out, " --arguments '");
    for (const cli_command *const *command = cli_commands; *command; command++)
        neap_text_printf(out, "%s%s", command == cli_commands ? "" : " ", (*command)->name);
    neap_text_puts(out, "'\n");
    begin_line(out, "help");
    neap_text_puts(out, " --long-option man --description 'print a manual page'\n");
    begin_line(out, "help");
    neap_text_puts(out, " --long-option completion --exclusive --arguments 'bash zsh fish' "
                        "--description 'print the completion of a shell'\n");
}
