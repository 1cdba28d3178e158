/* realpath and mkstemp are X/Open functions; O_TMPFILE is Linux's, and done without elsewhere. */
#define _GNU_SOURCE

#include "base/file.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/random.h"

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

/* ---- Writing ---- */

static int write_all(int file, const neap_file_piece *pieces, size_t n_pieces)
{
    for (size_t i = 0; i < n_pieces; i++) {
        const char *data = pieces[i].data;
        size_t left = pieces[i].length;
        while (left > 0) {
            ssize_t count = write(file, data, left);
            if (count < 0 && errno == EINTR)
                continue;
            if (count < 0)
                return -1;
            data += count;
            left -= (size_t)count;
        }
    }
    return 0;
}

static neap_status write_directly(int file, const char *path, const neap_file_piece *pieces,
                                  size_t n_pieces, neap_diag *diag)
{
    return write_all(file, pieces, n_pieces) == 0 ? NEAP_OK : fail_file(diag, "write", path);
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

/* The part of a path before its last slash. */
static void folder_of(neap_text *folder, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        neap_text_puts(folder, ".");
    else
        neap_text_append(folder, path, slash == path ? 1 : (size_t)(slash - path));
}

/* A file being written that is to become `path`. */
typedef struct draft {
    int file;
    bool named;       /* is in the folder as `temporary` */
    neap_text folder; /* of path */
    neap_text temporary;
} draft;

/*
 * Begins without a name where the system can: then a process that is killed leaves nothing behind.
 * The name it gets for the moment before the renaming needs /proc.
 */
static void begin_draft(draft *d)
{
    d->file = -1;
    d->named = false;
#ifdef O_TMPFILE
    char link[64];
    d->file = open(d->folder.text, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    snprintf(link, sizeof link, "/proc/self/fd/%d", d->file);
    if (d->file >= 0 && access(link, F_OK) != 0) {
        close(d->file);
        d->file = -1;
    }
#endif
    if (d->file < 0) {
        d->file = mkstemp(d->temporary.text);
        d->named = d->file >= 0;
    }
}

/* Gives a nameless draft its temporary name: random, and another if it is taken. */
static int name_draft(draft *d)
{
    if (d->named)
        return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", d->file);
    uint64_t state = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)d;
    char *letters = d->temporary.text + d->temporary.length - 6;
    for (int attempt = 0; attempt < 1000; attempt++) {
        for (int i = 0; i < 6; i++)
            letters[i] = (char)('a' + neap_random_below(&state, 26));
        if (linkat(AT_FDCWD, link, AT_FDCWD, d->temporary.text, AT_SYMLINK_FOLLOW) == 0) {
            d->named = true;
            return 0;
        }
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

/* The new name itself has to reach the disk. A file system that cannot do this has no better way,
 * and the file is in place: no failure. */
static void sync_folder(const char *folder)
{
    int file = open(folder, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    (void)fsync(file);
    close(file);
}

/* `path` is what the caller calls it, for messages; `place` is where it is. */
static neap_status replace(draft *d, const char *path, const char *place,
                           const neap_file_piece *pieces, size_t n_pieces, neap_diag *diag)
{
    begin_draft(d);
    if (d->file < 0)
        return fail_file(diag, "write", path);
    /* Naming and renaming stand together: what is between them is what being killed can leave
     * behind. Once fsync is through, close has nothing to tell. */
    bool failed = write_all(d->file, pieces, n_pieces) != 0 ||
                  fchmod(d->file, mode_for(place)) != 0 || fsync(d->file) != 0 ||
                  name_draft(d) != 0 || rename(d->temporary.text, place) != 0;
    int reason = errno;
    close(d->file);
    if (!failed) {
        sync_folder(d->folder.text);
        return NEAP_OK;
    }
    if (d->named)
        unlink(d->temporary.text);
    errno = reason;
    return fail_file(diag, "write", path);
}

neap_status neap_file_write_pieces(neap_allocator *allocator, const char *path,
                                   const neap_file_piece *pieces, size_t n_pieces, neap_diag *diag)
{
    if (strcmp(path, "-") == 0)
        return write_directly(STDOUT_FILENO, "standard output", pieces, n_pieces, diag);
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
        neap_status status = write_directly(file, path, pieces, n_pieces, diag);
        close(file);
        return status;
    }
    char target[PATH_MAX]; /* a link stays one: what it points to is replaced */
    const char *place = realpath(path, target) ? target : path;
    draft d;
    neap_text_init(&d.folder, allocator);
    neap_text_init(&d.temporary, allocator);
    folder_of(&d.folder, place);
    neap_text_puts(&d.temporary, place);
    neap_text_puts(&d.temporary, ".XXXXXX");
    neap_status status = d.folder.status == NEAP_OK && d.temporary.status == NEAP_OK
                             ? replace(&d, path, place, pieces, n_pieces, diag)
                             : neap_fail_no_memory(diag);
    neap_text_clear(&d.folder);
    neap_text_clear(&d.temporary);
    return status;
}

neap_status neap_file_write(neap_allocator *allocator, const char *path, const char *text,
                            size_t length, neap_diag *diag)
{
    neap_file_piece piece = {text, length};
    return neap_file_write_pieces(allocator, path, &piece, 1, diag);
}

neap_status neap_file_write_text(neap_text *text, const char *path, neap_diag *diag)
{
    neap_status status = text->status == NEAP_OK ? neap_file_write(text->allocator, path,
                                                                   text->text, text->length, diag)
                                                 : neap_fail_no_memory(diag);
    neap_text_clear(text);
    return status;
}

neap_status neap_file_replace(const char *path, const char *text, size_t length, neap_diag *diag)
{
    return neap_file_write(NULL, path, text, length, diag);
}

neap_status neap_file_make_folders(neap_allocator *allocator, const char *path, neap_diag *diag)
{
    size_t size = strlen(path) + 1;
    char *part;
    neap_status status = NEAP_NEW(allocator, size, &part, diag);
    if (status != NEAP_OK)
        return status;
    for (const char *slash = strchr(path + (*path == '/'), '/'); slash;
         slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        mkdir(part, 0777);
    }
    NEAP_DELETE(allocator, size, part);
    return NEAP_OK;
}

/* ---- Reading parts ---- */

neap_status neap_file_open(const char *path, int *file, int64_t *bytes, neap_diag *diag)
{
    struct stat status;
    *bytes = 0;
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*file < 0)
        return fail_file(diag, "read", path);
    int failed = fstat(*file, &status) != 0;
    if (!failed && S_ISREG(status.st_mode)) {
        *bytes = status.st_size;
        return NEAP_OK;
    }
    int reason = errno;
    close(*file);
    *file = -1;
    errno = failed ? reason : EISDIR;
    if (failed || S_ISDIR(status.st_mode))
        return fail_file(diag, "read", path);
    return neap_fail(diag, NEAP_IO, "cannot read %s: not an ordinary file", path);
}

neap_status neap_file_read_at(int file, const char *path, int64_t offset, void *buffer,
                              size_t length, neap_diag *diag)
{
    char *to = buffer;
    while (length > 0) {
        ssize_t count = pread(file, to, length, (off_t)offset);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return fail_file(diag, "read", path);
        if (count == 0)
            return neap_fail(diag, NEAP_INVALID,
                             "%s: ends at byte %lld, %zu bytes too early; the file is cut off",
                             path, (long long)offset, length);
        to += count;
        offset += count;
        length -= (size_t)count;
    }
    return NEAP_OK;
}
