/* completion.c - neap help --completion SHELL: what completes what. */

#include "completion.h"

#include <neap/cost.h>
#include <neap/data.h>
#include <neap/models.h>
#include <neap/planner.h>
#include <neap/run.h>
#include <string.h>

/* ---- Words ---- */

/* Only words that mean nothing else to any shell. */
static void add_word(neap_text *words, const char *word, size_t length)
{
    static const char SAFE[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:+";
    for (size_t i = 0; i < length; i++)
        if (!strchr(SAFE, word[i]))
            return;
    neap_text_puts(words, words->length > 0 ? " " : "");
    neap_text_append(words, word, length);
}

static void add_models(neap_text *words)
{
    for (uint32_t i = 0; i < neap_models_count(); i++) {
        const char *name = neap_model_name(neap_models_at(i));
        add_word(words, name, strlen(name));
    }
}

static void add_methods(neap_text *words)
{
    for (uint32_t i = 0; i < neap_methods_count(); i++) {
        const char *name = neap_method_name(neap_methods_at(i));
        add_word(words, name, strlen(name));
    }
}

static void add_methods_and_all(neap_text *words)
{
    add_methods(words);
    add_word(words, "all", 3);
}

static void add_devices(neap_text *words)
{
    neap_devices *devices = NULL;
    neap_diag diag;
    if (neap_devices_create(NULL, &devices, &diag) != NEAP_OK) {
        words->status = NEAP_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < neap_devices_count(devices); i++) {
        const char *name = neap_devices_at(devices, i)->name;
        add_word(words, name, strlen(name));
    }
    neap_devices_destroy(devices);
}

static void add_backends(neap_text *words)
{
    for (uint32_t i = 0; i < neap_backends_count(); i++)
        add_word(words, neap_backends_name(i), strlen(neap_backends_name(i)));
}

/* "images:" of "images:DIR" */
static void add_datasets(neap_text *words)
{
    for (uint32_t i = 0; i < neap_datasets_count(); i++) {
        const char *form = neap_datasets_form(i), *colon = strchr(form, ':');
        add_word(words, form, colon ? (size_t)(colon - form) + 1 : strlen(form));
    }
}

static void add_links(neap_text *words)
{
    add_word(words, "device", 6);
    add_word(words, "measured", 8);
}

/* ---- Options and operands ---- */

/* Options whose words are not choices of the table. */
static const struct named_words {
    const char *option;
    void (*add)(neap_text *words);
} NAMED[] = {
    {"method", add_methods_and_all}, {"device", add_devices}, {"backend", add_backends},
    {"data", add_datasets},          {"link", add_links},
};

static bool is_list(const cli_option *option)
{
    size_t length = strlen(option->argument);
    return length > 4 && strcmp(option->argument + length - 4, ",...") == 0;
}

completion_kind completion_of_option(const cli_option *option, neap_text *words)
{
    if (!option->argument)
        return COMPLETION_NONE;
    for (const cli_choice *choice = option->choices; choice->name; choice++)
        add_word(words, choice->name, strlen(choice->name));
    for (size_t i = 0; i < sizeof NAMED / sizeof NAMED[0]; i++)
        if (strcmp(NAMED[i].option, option->name) == 0)
            NAMED[i].add(words);
    if (words->length > 0)
        return is_list(option) ? COMPLETION_LIST : COMPLETION_WORDS;
    bool file = strstr(option->argument, "FILE") || strcmp(option->argument, "PLAN") == 0;
    return file ? COMPLETION_FILES : COMPLETION_NONE;
}

/* Whether word `index` of the operands, such as "MODEL PLAN", is this one. */
static bool is_operand(const cli_command *command, size_t index, const char *name)
{
    const char *at = command->operands;
    for (; *at && index > 0; index--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    at += *at == '[';
    size_t length = strcspn(at, " ]");
    return length == strlen(name) && strncmp(at, name, length) == 0;
}

completion_kind completion_of_operand(const cli_command *command, size_t index, neap_text *words)
{
    static const struct {
        const char *command;
        void (*add)(neap_text *words);
    } LISTS[] = {{"models", add_models}, {"methods", add_methods}, {"devices", add_devices}};
    if (index >= command->most_operands)
        return COMPLETION_NONE;
    if (is_operand(command, index, "MODEL")) {
        add_models(words);
        return COMPLETION_WORDS_OR_FILES;
    }
    for (size_t i = 0; i < sizeof LISTS / sizeof LISTS[0]; i++)
        if (strcmp(LISTS[i].command, command->name) == 0) {
            LISTS[i].add(words);
            return COMPLETION_WORDS;
        }
    return COMPLETION_FILES;
}

/* ---- Texts ---- */

void completion_summary(const cli_option *option, neap_text *out)
{
    static const size_t MOST = 60;
    const char *help = option->help;
    size_t length = strcspn(help, ":;(%");
    if (length > MOST)
        for (length = MOST; length > 0 && help[length] != ' ';)
            length--;
    while (length > 0 && strchr(" ,", help[length - 1]))
        length--;
    neap_text_append(out, help, length);
}

void completion_quoted(neap_text *out, const char *text)
{
    neap_text_puts(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            neap_text_puts(out, "'\\''");
        else
            neap_text_putc(out, *text);
    }
    neap_text_puts(out, "'");
}

static const struct shell {
    const char *name;
    void (*write)(neap_text *out);
} SHELLS[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

int cli_help_completion(const char *shell, neap_text *out)
{
    for (size_t i = 0; shell && i < sizeof SHELLS / sizeof SHELLS[0]; i++)
        if (strcmp(SHELLS[i].name, shell) == 0) {
            SHELLS[i].write(out);
            return CLI_OK;
        }
    if (!shell)
        return cli_fail(CLI_BAD_INPUT, "--completion needs a shell: bash, zsh or fish");
    return cli_fail(CLI_BAD_INPUT, "no completion for \"%s\"; there is one for bash, zsh and fish",
                    shell);
}
