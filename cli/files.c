#define _XOPEN_SOURCE 700 /* realpath */

#include "files.h"

#include "output.h"

#include <neap/text.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_descriptor_write(int file, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(file, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        text += written;
        length -= (size_t)written;
    }
    return true;
}

int cli_stdout_write(const char *text, size_t length)
{
    if (cli_descriptor_write(STDOUT_FILENO, text, length))
        return CLI_OK;
    if (errno == EPIPE)
        return CLI_FAILED;
    return cli_fail(CLI_FAILED, "cannot write to standard output: %s", strerror(errno));
}

static int fail_folder(const char *path)
{
    return cli_fail(CLI_BAD_INPUT, "%s: is a folder; give the name of a file", path);
}

int cli_file_write(const char *path, const char *text, size_t length)
{
    neap_diag diag;
    struct stat old;
    if (neap_file_replace(path, text, length, &diag) == NEAP_OK)
        return CLI_OK;
    if (stat(path, &old) == 0 && S_ISDIR(old.st_mode))
        return fail_folder(path);
    return cli_fail(CLI_FAILED, "%s", diag.message);
}

/* The file is first written under another name in the same folder, so that must be permitted. */
static int check_folder(const char *path)
{
    neap_text folder = {0};
    const char *slash = strrchr(path, '/');
    int code = CLI_OK;
    if (slash)
        neap_text_append(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    else
        neap_text_puts(&folder, ".");
    if (folder.status != NEAP_OK)
        code = cli_fail_memory();
    else if (access(folder.text, W_OK | X_OK) != 0)
        code = cli_fail(CLI_BAD_INPUT, "cannot write %s: folder %s: %s", path, folder.text,
                        strerror(errno));
    neap_text_clear(&folder);
    return code;
}

int cli_file_check(const char *path)
{
    struct stat old;
    char target[PATH_MAX];
    if (stat(path, &old) != 0)
        return check_folder(path);
    if (S_ISDIR(old.st_mode))
        return fail_folder(path);
    if (S_ISREG(old.st_mode))
        return check_folder(realpath(path, target) ? target : path);
    return access(path, W_OK) == 0
               ? CLI_OK
               : cli_fail(CLI_BAD_INPUT, "cannot write %s: %s", path, strerror(errno));
}

bool cli_is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

int cli_stdout_check(const cli_settings *settings)
{
    const struct {
        const char *name;
        bool given;
    } takers[] = {
        {"-o -", cli_is_stdout(settings->output) && cli_is_given(settings, "output")},
        {"--json", settings->json},
        {"--csv -", cli_is_stdout(settings->csv)},
        {"--svg -", cli_is_stdout(settings->svg)},
        {"--report -", cli_is_stdout(settings->report)},
        {"--chart", settings->chart},
    };
    const char *first = NULL;
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++) {
        if (takers[i].given && first)
            return cli_fail(CLI_BAD_INPUT,
                            "%s and %s cannot both go to standard output; choose one, or name a "
                            "file",
                            first, takers[i].name);
        if (takers[i].given)
            first = takers[i].name;
    }
    return CLI_OK;
}

bool cli_stdout_taken(const cli_settings *settings)
{
    return cli_is_stdout(settings->output) || cli_is_stdout(settings->csv) ||
           cli_is_stdout(settings->svg) || cli_is_stdout(settings->report);
}

int cli_file_deliver(const char *path, const char *text, size_t length, neap_text *out)
{
    if (!cli_is_stdout(path))
        return cli_file_write(path, text, length);
    neap_text_append(out, text, length);
    return CLI_OK;
}

int cli_graph_deliver(const char *path, const neap_graph *graph, neap_text *out)
{
    neap_diag diag;
    char *text;
    size_t length;
    if (neap_graph_write_text(graph, NULL, &text, &length, &diag) != NEAP_OK)
        return cli_fail_diag(&diag);
    int code = cli_file_deliver(path, text, length, out);
    neap_release(NULL, text, length + 1);
    return code;
}
