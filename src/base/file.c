/* realpath and mkstemp are X/Open functions. */
#define _XOPEN_SOURCE 700

#include "base/file.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/text_buffer.h"

#include <neap/text.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static neap_status fail_file(neap_diag *diag, const char *what, const char *path)
{
    return neap_fail(diag, NEAP_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static neap_status read_all(int file, const char *path, neap_text *buffer, neap_diag *diag)
{
    char block[65536];
    for (;;) {
        ssize_t count = read(file, block, sizeof block);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_file(diag, "read", path);
        if (count == 0)
            return NEAP_OK;
        neap_text_append(buffer, block, (size_t)count);
        if (buffer->status != NEAP_OK)
            return neap_fail_no_memory(diag);
    }
}

neap_status neap_file_read(neap_allocator *allocator, const char *path, char **text, size_t *length,
                           neap_diag *diag)
{
    *text = NULL;
    *length = 0;
    int is_stdin = strcmp(path, "-") == 0;
    int file = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return fail_file(diag, "read", path);
    neap_text buffer;
    neap_text_init(&buffer, allocator);
    neap_status status = read_all(file, path, &buffer, diag);
    if (!is_stdin)
        close(file);
    if (status == NEAP_OK)
        status = neap_text_take(&buffer, text, length, diag);
    neap_text_clear(&buffer);
    return status;
}

static int write_all(int file, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t count = write(file, text, length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        text += count;
        length -= (size_t)count;
    }
    return 0;
}

static neap_status write_directly(int file, const char *path, const char *text, size_t length,
                                  neap_diag *diag)
{
    return write_all(file, text, length) == 0 ? NEAP_OK : fail_file(diag, "write", path);
}

/* Permissions that a newly created file would have, or those of the file it replaces. */
static mode_t mode_for(const char *path)
{
    struct stat old;
    if (stat(path, &old) == 0)
        return old.st_mode & 0777;
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static neap_status replace(char *temporary, const char *path, const char *text, size_t length,
                           neap_diag *diag)
{
    int file = mkstemp(temporary);
    if (file < 0)
        return fail_file(diag, "write", path);
    int failed =
        write_all(file, text, length) != 0 || fchmod(file, mode_for(path)) != 0 || fsync(file) != 0;
    int reason = errno;
    if (close(file) != 0 && !failed) {
        failed = 1;
        reason = errno;
    }
    if (!failed && rename(temporary, path) != 0) {
        failed = 1;
        reason = errno;
    }
    if (!failed)
        return NEAP_OK;
    unlink(temporary);
    errno = reason;
    return fail_file(diag, "write", path);
}

neap_status neap_file_write(neap_allocator *allocator, const char *path, const char *text,
                            size_t length, neap_diag *diag)
{
    if (strcmp(path, "-") == 0)
        return write_directly(STDOUT_FILENO, "standard output", text, length, diag);
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (exists && S_ISDIR(old.st_mode)) {
        errno = EISDIR;
        return fail_file(diag, "write", path);
    }
    if (exists && !S_ISREG(old.st_mode)) {
        int file = open(path, O_WRONLY | O_CLOEXEC);
        if (file < 0)
            return fail_file(diag, "write", path);
        neap_status status = write_directly(file, path, text, length, diag);
        close(file);
        return status;
    }
    char target[PATH_MAX]; /* a link stays one: what it points to is replaced */
    const char *place = realpath(path, target) ? target : path;
    neap_text temporary;
    neap_text_init(&temporary, allocator);
    neap_text_puts(&temporary, place);
    neap_text_puts(&temporary, ".XXXXXX");
    neap_status status = temporary.status == NEAP_OK
                             ? replace(temporary.text, place, text, length, diag)
                             : neap_fail_no_memory(diag);
    neap_text_clear(&temporary);
    return status;
}

neap_status neap_file_replace(const char *path, const char *text, size_t length, neap_diag *diag)
{
    return neap_file_write(NULL, path, text, length, diag);
}
