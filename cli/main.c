/* main.c - the neap command: finds the subcommand, runs it, writes its output. */
#include "command.h"
#include "files.h"
#include "output.h"

#include <fcntl.h>
#include <neap/components.h>
#include <neap/version.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A caller may have closed a standard stream. A file opened later must not get its descriptor, or
 * stray output would go there. A placeholder that cannot be used takes the descriptor, so that
 * using the stream is still an error.
 */
static void hold_standard_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            (void)!open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* neap help --man [COMMAND] */
static int run_man(const char *name, neap_text *out)
{
    const cli_command *command = name ? cli_command_find(name) : NULL;
    if (name && !command)
        return cli_command_unknown(name);
    cli_help_man(command, out);
    return CLI_OK;
}

/* neap help [COMMAND] */
static int run_help(int count, char **arguments, neap_text *out)
{
    const char *second = count > 1 ? arguments[1] : NULL;
    if (count > 0 && count <= 2 && strcmp(arguments[0], "--man") == 0)
        return run_man(second, out);
    if (count > 0 && count <= 2 && strcmp(arguments[0], "--completion") == 0)
        return cli_help_completion(second, out);
    if (count > 1)
        return cli_fail(CLI_BAD_INPUT, "help explains one command at a time: neap help %s",
                        arguments[0]);
    if (count == 0 || is_one_of(arguments[0], "help", "--help")) {
        cli_help_overview(out);
        return CLI_OK;
    }
    const cli_command *command = cli_command_find(arguments[0]);
    if (!command)
        return cli_command_unknown(arguments[0]);
    cli_help_command(command, out);
    return CLI_OK;
}

/* Do not start long work if its results cannot be written. */
static int check_outputs(const cli_settings *settings)
{
    const char *const paths[] = {settings->output, settings->csv,         settings->svg,
                                 settings->save,   settings->memory_file, settings->log_file,
                                 settings->trace,  settings->report};
    int code = cli_stdout_check(settings);
    for (size_t i = 0; i < sizeof paths / sizeof *paths && code == CLI_OK; i++) {
        if (paths[i] && !cli_is_stdout(paths[i]))
            code = cli_file_check(paths[i]);
        if (code == CLI_OK && paths[i] && paths[i] != settings->report && settings->report &&
            !cli_is_stdout(paths[i]) && strcmp(paths[i], settings->report) == 0)
            code = cli_fail(CLI_BAD_INPUT, "--report %s: another output goes to the same file",
                            settings->report);
    }
    return code;
}

/* Adds an argument, in quotes if a shell would change it. */
static void add_quoted(neap_text *line, const char *argument)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";
    neap_text_puts(line, line->length > 0 ? " " : "");
    if (*argument && strspn(argument, plain) == strlen(argument)) {
        neap_text_puts(line, argument);
        return;
    }
    neap_text_putc(line, '\'');
    for (; *argument; argument++)
        if (*argument == '\'')
            neap_text_puts(line, "'\\''");
        else
            neap_text_putc(line, *argument);
    neap_text_putc(line, '\'');
}

/* The command line, before parsing takes its arguments apart. */
static void add_command_line(neap_text *line, const char *name, int count, char **arguments)
{
    neap_text_puts(line, "neap");
    add_quoted(line, name);
    for (int i = 0; i < count; i++)
        add_quoted(line, arguments[i]);
}

static int run_command(const char *name, int count, char **arguments, neap_text *out)
{
    const cli_command *command = cli_command_find(name);
    if (!command)
        return cli_command_unknown(name);
    cli_settings settings;
    neap_text line = {0};
    add_command_line(&line, name, count, arguments);
    if (line.status != NEAP_OK || !cli_settings_init(&settings, count)) {
        neap_text_clear(&line);
        return cli_fail_memory();
    }
    settings.command = line.text;
    int code = cli_args_parse(command, count, arguments, &settings);
    if (code == CLI_OK && settings.help)
        cli_help_command(command, out);
    else if (code == CLI_OK && (code = check_outputs(&settings)) == CLI_OK)
        code = command->run(&settings, out);
    cli_settings_clear(&settings);
    neap_text_clear(&line);
    return code;
}

/* "neap X.Y.Z", and below it what is built in. */
static void print_version(neap_text *out)
{
    char version[NEAP_COMPONENT_VERSION];
    cli_table table;
    neap_text_printf(out, "neap %s\n", neap_version());
    cli_facts_init(&table);
    for (uint32_t i = 0; i < neap_components_count(); i++) {
        bool there = *neap_components_version(i, version, sizeof version) != '\0';
        cli_fact(&table, neap_components_name(i), CLI_PLAIN, there ? version : "not built in", "%s",
                 neap_components_purpose(i));
    }
    cli_table_finish(&table, out);
}

static int run(int count, char **arguments, neap_text *out)
{
    if (count == 0) {
        neap_text help = {0};
        cli_help_overview(&help);
        fputs(neap_text_get(&help), stderr);
        neap_text_clear(&help);
        return CLI_BAD_INPUT;
    }
    const char *word = arguments[0];
    if (is_one_of(word, "--version", "-V")) {
        print_version(out);
        return CLI_OK;
    }
    if (is_one_of(word, "--help", "-h") || strcmp(word, "help") == 0)
        return run_help(count - 1, arguments + 1, out);
    if (word[0] == '-' && word[1] != '\0')
        return cli_fail(CLI_BAD_INPUT,
                        "%s: a command comes first, as in neap plan MODEL; neap help lists them",
                        word);
    return run_command(word, count - 1, arguments + 1, out);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file past the limit of ulimit -f */
    neap_text out = {0};
    int code = run(argc > 0 ? argc - 1 : 0, argv + 1, &out);
    if (out.status != NEAP_OK) {
        code = cli_fail_memory();
    } else if (out.length > 0) {
        int written = cli_stdout_write(out.text, out.length);
        if (written != CLI_OK)
            code = written;
    }
    neap_text_clear(&out);
    if (neap_has_left_threads()) {
        fflush(NULL);
        _Exit(code);
    }
    exit(code);
}
