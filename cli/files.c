/* realpath is an X/Open function, as mkstemp was. */
#define _XOPEN_SOURCE 700

#include "files.h"

#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

static int fail_to_write(const char *path)
{
    return cli_fail(CLI_FAILED, "%s: cannot be written: %s", path, strerror(errno));
}

/* A device or a pipe: there is nothing to replace. */
static int write_through(const char *path, const char *text, size_t length)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return fail_to_write(path);
    bool written = write_all(file, text, length);
    int error = errno;
    written = close(file) == 0 && written;
    errno = written ? 0 : error;
    return written ? CLI_OK : fail_to_write(path);
}

/* What open() would give a new file, which mkstemp does not. */
static mode_t default_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return (mode_t)(0666 & ~mask);
}

/* Writes beside the target, then moves over it. */
static int replace(const char *path, mode_t mode, const char *text, size_t length)
{
    cli_buffer temporary = {0};
    cli_buffer_print(&temporary, "%s.XXXXXX", path);
    if (temporary.failed)
        return cli_fail_memory();
    int code = CLI_OK;
    int file = mkstemp(temporary.data);
    if (file < 0) {
        code = fail_to_write(path);
    } else {
        bool done = write_all(file, text, length) && fchmod(file, mode) == 0;
        int error = errno;
        if (close(file) != 0 && done) {
            done = false;
            error = errno;
        }
        if (done && rename(temporary.data, path) != 0) {
            done = false;
            error = errno;
        }
        if (!done) {
            unlink(temporary.data);
            errno = error;
            code = fail_to_write(path);
        }
    }
    cli_buffer_clear(&temporary);
    return code;
}

int cli_file_write(const char *path, const char *text, size_t length)
{
    struct stat old;
    if (stat(path, &old) != 0) {
        if (errno != ENOENT)
            return fail_to_write(path);
        return replace(path, default_mode(), text, length);
    }
    if (S_ISDIR(old.st_mode))
        return cli_fail(CLI_BAD_INPUT, "%s: is a folder; give the name of a file", path);
    if (!S_ISREG(old.st_mode))
        return write_through(path, text, length);
    char target[PATH_MAX]; /* a link stays one: what it points to is replaced */
    if (!realpath(path, target))
        return fail_to_write(path);
    return replace(target, old.st_mode & 07777, text, length);
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
