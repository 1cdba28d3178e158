/* completion_bash.c - the script for bash 4 and later. */

#include "completion.h"

#include <string.h>

/* The fixed part: finds the command and the option that the word belongs to. */
static const char HEAD[] =
    "# bash completion for neap. Made by: neap help --completion bash\n"
    "\n"
    "_neap_words()\n"
    "{\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
    "}\n"
    "\n"
    "# Words with commas between them: completes the last.\n"
    "_neap_list()\n"
    "{\n"
    "    local before=\n"
    "    [[ $cur == *,* ]] && before=${cur%,*},\n"
    "    mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$1\" -- \"${cur##*,}\")\n"
    "    compopt -o nospace\n"
    "}\n"
    "\n"
    "_neap_files()\n"
    "{\n"
    "    local -a found\n"
    "    mapfile -t found < <(compgen -f -- \"$cur\")\n"
    "    COMPREPLY+=(\"${found[@]}\")\n"
    "    compopt -o filenames\n"
    "}\n"
    "\n"
    "_neap()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} option= command=${COMP_WORDS[1]}\n"
    "    local before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    COMPREPLY=()\n"
    "    # bash cuts --name=value into three words\n"
    "    if [[ $cur == = ]]; then\n"
    "        option=$before cur=\n"
    "    elif [[ $before == = ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    elif [[ $before == -* ]]; then\n"
    "        option=$before\n"
    "    fi\n"
    "    if ((COMP_CWORD == 1)); then\n";

static void add_names(neap_text *out)
{
    for (const cli_command *const *command = cli_commands; *command; command++)
        neap_text_printf(out, "%s%s", command == cli_commands ? "" : " ", (*command)->name);
}

/* ---- Values of options: the same in all commands ---- */

static void add_action(neap_text *out, completion_kind kind, const neap_text *words)
{
    switch (kind) {
    case COMPLETION_NONE:
        break;
    case COMPLETION_FILES:
        neap_text_puts(out, "_neap_files; ");
        break;
    case COMPLETION_LIST:
        neap_text_printf(out, "_neap_list '%s'; ", neap_text_get(words));
        break;
    case COMPLETION_WORDS:
    case COMPLETION_WORDS_OR_FILES:
        neap_text_printf(out, "_neap_words '%s'; ", neap_text_get(words));
        if (kind == COMPLETION_WORDS_OR_FILES)
            neap_text_puts(out, "_neap_files; ");
        break;
    }
    if (words->status != NEAP_OK)
        out->status = words->status;
}

/* Some options are in the table once for each group of commands. */
static bool is_first(const cli_option *option)
{
    for (const cli_option *other = cli_options; other < option; other++)
        if (strcmp(other->name, option->name) == 0)
            return false;
    return true;
}

static void add_values(neap_text *out)
{
    neap_text_puts(out, "    case $option in\n");
    for (const cli_option *option = cli_options; option->name; option++) {
        if (!option->argument || !is_first(option))
            continue;
        neap_text words = {0};
        completion_kind kind = completion_of_option(option, &words);
        neap_text_puts(out, "        ");
        if (option->letter)
            neap_text_printf(out, "-%c | ", option->letter);
        neap_text_printf(out, "--%s) ", option->name);
        add_action(out, kind, &words);
        neap_text_puts(out, "return ;;\n");
        neap_text_clear(&words);
    }
    neap_text_puts(out, "    esac\n");
}

/* ---- Commands: their options and operands ---- */

static void add_option(void *context, const cli_option *option)
{
    neap_text_printf(context, " --%s", option->name);
}

static void add_command(const cli_command *command, neap_text *out)
{
    neap_text words = {0};
    neap_text_printf(out, "        %s)\n            if [[ $cur == -* ]]; then\n", command->name);
    neap_text_puts(out, "                _neap_words '");
    size_t start = out->length;
    cli_args_visit(command, add_option, out);
    if (out->status == NEAP_OK && out->length > start) /* without the first blank */
        memmove(out->text + start, out->text + start + 1, out->length-- - start);
    neap_text_puts(out, "'\n");
    if (command->most_operands > 0) {
        /* all operands alike: later ones are files, which the first may be, too */
        completion_kind kind = completion_of_operand(command, 0, &words);
        neap_text_puts(out, "            else\n                ");
        add_action(out, kind, &words);
        if (out->status == NEAP_OK)
            out->length -= 2; /* "; " */
        neap_text_puts(out, "\n");
    }
    neap_text_puts(out, "            fi\n            ;;\n");
    neap_text_clear(&words);
}

void completion_bash(neap_text *out)
{
    neap_text_puts(out, HEAD);
    neap_text_puts(out, "        _neap_words '");
    add_names(out);
    neap_text_puts(out, " help --help --version'\n        return\n    fi\n");
    add_values(out);
    neap_text_puts(out, "    case $command in\n        help)\n            "
                        "if [[ $option == --completion ]]; then\n                "
                        "_neap_words 'bash zsh fish'\n            else\n                "
                        "_neap_words '");
    add_names(out);
    neap_text_puts(out, " --man --completion'\n            fi\n            ;;\n");
    for (const cli_command *const *command = cli_commands; *command; command++)
        add_command(*command, out);
    neap_text_puts(out, "    esac\n}\n\ncomplete -F _neap neap\n");
}
