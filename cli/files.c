#include "files.h"

#include "output.h"

#include <neap/text.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int file, const char *text, size_t length)
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
    if (write_all(STDOUT_FILENO, text, length))
        return CLI_OK;
    if (errno == EPIPE)
        return CLI_FAILED;
    return cli_fail(CLI_FAILED, "cannot write to standard output: %s", strerror(errno));
}

int cli_file_write(const char *path, const char *text, size_t length)
{
    neap_diag diag;
    struct stat old;
    if (neap_file_replace(path, text, length, &diag) == NEAP_OK)
        return CLI_OK;
    if (stat(path, &old) == 0 && S_ISDIR(old.st_mode))
        return cli_fail(CLI_BAD_INPUT, "%s: is a folder; give the name of a file", path);
    return cli_fail(CLI_FAILED, "%s", diag.message);
}

bool cli_is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

int cli_file_deliver(const char *path, const char *text, size_t length, cli_buffer *out)
{
    if (!cli_is_stdout(path))
        return cli_file_write(path, text, length);
    cli_buffer_add(out, text, length);
    return CLI_OK;
}
