/* completion_zsh.c - the script for zsh, for its _arguments. */

#include "completion.h"

#include <string.h>

/* Text inside '...' in a part of a specification of _arguments, where [ ] : \ are special. */
static void add_part(neap_text *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            neap_text_puts(out, "'\\''");
        else if (strchr("[]:\\", *text))
            neap_text_printf(out, "\\%c", *text);
        else
            neap_text_putc(out, *text);
    }
}

static void add_action(neap_text *out, completion_kind kind, const neap_text *words)
{
    switch (kind) {
    case COMPLETION_NONE:
        neap_text_puts(out, " ");
        break;
    case COMPLETION_FILES:
        neap_text_puts(out, "_files");
        break;
    case COMPLETION_LIST:
        neap_text_printf(out, "_sequence compadd - %s", neap_text_get(words));
        break;
    case COMPLETION_WORDS:
        neap_text_puts(out, "(");
        add_part(out, neap_text_get(words));
        neap_text_puts(out, ")");
        break;
    case COMPLETION_WORDS_OR_FILES:
        neap_text_puts(out, "_neap_models");
        break;
    }
    if (words->status != NEAP_OK)
        out->status = words->status;
}

static void add_option(void *context, const cli_option *option)
{
    neap_text *out = context;
    neap_text words = {0}, summary = {0};
    completion_kind kind = completion_of_option(option, &words);
    completion_summary(option, &summary);
    const char *equals = option->argument ? "=" : "";
    neap_text_puts(out, " \\\n                '*'");
    if (option->letter)
        neap_text_printf(out, "{-%c,--%s%s}'[", option->letter, option->name, equals);
    else
        neap_text_printf(out, "--%s%s'[", option->name, equals);
    add_part(out, neap_text_get(&summary));
    neap_text_puts(out, "]");
    if (option->argument) {
        neap_text_puts(out, ":");
        add_part(out, option->argument);
        neap_text_puts(out, ":");
        add_action(out, kind, &words);
    }
    neap_text_puts(out, "'");
    if (summary.status != NEAP_OK)
        out->status = summary.status;
    neap_text_clear(&words);
    neap_text_clear(&summary);
}

static void add_command(const cli_command *command, neap_text *out)
{
    neap_text_printf(out, "        %s)\n            _arguments -S", command->name);
    cli_args_visit(command, add_option, out);
    for (size_t i = 0; i < command->most_operands; i++) {
        neap_text words = {0};
        completion_kind kind = completion_of_operand(command, i, &words);
        neap_text_printf(out, " \\\n                '%zu:%s:", i + 1,
                         kind == COMPLETION_FILES ? "file" : "name");
        add_action(out, kind, &words);
        neap_text_puts(out, "'");
        neap_text_clear(&words);
    }
    neap_text_puts(out, "\n            ;;\n");
}

/* 'plan:fit a training step into a memory budget' */
static void add_commands(neap_text *out)
{
    for (const cli_command *const *command = cli_commands; *command; command++) {
        neap_text_printf(out, "        '%s:", (*command)->name);
        add_part(out, (*command)->summary);
        neap_text_puts(out, "'\n");
    }
}

void completion_zsh(neap_text *out)
{
    neap_text words = {0};
    neap_text_puts(out, "#compdef neap\n"
                        "# zsh completion for neap. Made by: neap help --completion zsh\n\n"
                        "_neap_models()\n{\n    local -a models\n    models=(");
    for (const cli_command *const *command = cli_commands; *command && words.length == 0; command++)
        if (strcmp((*command)->name, "models") == 0)
            completion_of_operand(*command, 0, &words);
    neap_text_puts(out, neap_text_get(&words));
    neap_text_puts(out, ")\n    _alternative 'models:model:compadd -a models' "
                        "'files:file:_files'\n}\n\n"
                        "_neap()\n{\n    local -a commands\n    commands=(\n");
    add_commands(out);
    neap_text_puts(out, "        'help:explain a command'\n    )\n"
                        "    if ((CURRENT == 2)); then\n"
                        "        _describe command commands\n"
                        "        compadd -- --help --version\n"
                        "        return\n    fi\n"
                        "    local command=$words[2]\n"
                        "    shift words\n    ((CURRENT--))\n"
                        "    case $command in\n"
                        "        help)\n"
                        "            if [[ ${words[CURRENT-1]} == --completion ]]; then\n"
                        "                compadd bash zsh fish\n"
                        "            else\n"
                        "                _describe command commands\n"
                        "                compadd -- --man --completion\n"
                        "            fi\n            ;;\n");
    for (const cli_command *const *command = cli_commands; *command; command++)
        add_command(*command, out);
    neap_text_puts(out, "    esac\n}\n\n"
                        "if [[ ${funcstack[1]} == _neap ]]; then\n    _neap \"$@\"\n"
                        "else\n    compdef _neap neap\nfi\n");
    if (words.status != NEAP_OK)
        out->status = words.status;
    neap_text_clear(&words);
}
