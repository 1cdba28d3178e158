#define _XOPEN_SOURCE 700 /* posix_openpt */

#include "run_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Files ---- */

/* Reads from where the file stands to its end. */
static char *read_stream(int file)
{
    size_t length = 0, capacity = 4096;
    char *text = malloc(capacity);
    assert_non_null(text);
    for (;;) {
        if (capacity - length < 2) {
            capacity *= 2;
            text = realloc(text, capacity);
            assert_non_null(text);
        }
        ssize_t count = read(file, text + length, capacity - length - 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) /* a terminal whose other end has gone is an error, and the end */
            break;
        length += (size_t)count;
    }
    text[length] = '\0';
    return text;
}

char *read_text_file(const char *path)
{
    int file = open(path, O_RDONLY);
    if (file < 0)
        return NULL;
    char *text = read_stream(file);
    close(file);
    return text;
}

void write_text_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file)
        fail_msg("%s: %s", path, strerror(errno));
    assert_int_not_equal(fputs(text, file), EOF);
    assert_int_equal(fclose(file), 0);
}

char *join_path(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *make_temporary_folder(void)
{
    const char *parent = getenv("TMPDIR");
    char *folder = join_path(parent && *parent ? parent : "/tmp", "neap-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

void remove_temporary_folder(char *folder)
{
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        char *path = join_path(folder, entry->d_name);
        unlink(path); /* fails for . and .. */
        free(path);
    }
    closedir(entries);
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

/* An anonymous file. */
static int scratch_file(void)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int copy = dup(fileno(file));
    assert_true(copy >= 0);
    fclose(file);
    return copy;
}

/* ---- The program ---- */

enum { MOST_WORDS = 64, MOST_VARIABLES = 8 };

/* Cuts a line at blanks; words[0] is already there. */
static void split_words(char *line, char **words)
{
    int count = 1;
    for (char *word = line + strspn(line, " "); *word; word += strspn(word, " ")) {
        assert_true(count + 1 < MOST_WORDS);
        words[count++] = word;
        word += strcspn(word, " ");
        if (*word)
            *word++ = '\0';
    }
    words[count] = NULL;
}

/* Casts one element of argv: execve takes char *, but does not write to the strings. */
static char *as_argument(const char *text)
{
    union {
        const char *in;
        char *out;
    } pun = {text};
    return pun.out;
}

/* Does "NAME=VALUE" set this variable? */
static bool sets(const char *variable, const char *name)
{
    size_t length = strlen(name);
    return variable && strncmp(variable, name, length) == 0 && variable[length] == '=';
}

static void build_environment(const char *extra, char *variables[MOST_VARIABLES + 1])
{
    static const char *const PASSED_ON[] = {"PATH", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS"};
    static char texts[4][4096];
    int count = 0;
    if (!sets(extra, "LC_ALL"))
        variables[count++] = as_argument("LC_ALL=C.UTF-8");
    if (!sets(extra, "TERM"))
        variables[count++] = as_argument("TERM=xterm");
    for (size_t i = 0; i < sizeof PASSED_ON / sizeof PASSED_ON[0]; i++) {
        const char *value = getenv(PASSED_ON[i]);
        if (!value)
            continue;
        snprintf(texts[i], sizeof texts[i], "%s=%s", PASSED_ON[i], value);
        variables[count++] = texts[i];
    }
    if (extra)
        variables[count++] = as_argument(extra);
    variables[count] = NULL;
}

/* The parent's end of a terminal; *slave gets the program's. */
static int open_terminal(int columns, int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(*slave >= 0);
    struct winsize size = {.ws_row = 40, .ws_col = (unsigned short)(columns ? columns : 100)};
    assert_int_equal(ioctl(*slave, TIOCSWINSZ, &size), 0);
    return master;
}

/* In the child: streams into place, then the program. */
static void become(char **words, char **variables, const run_options *options, int in, int out,
                   int err)
{
    if (options->folder && chdir(options->folder) != 0)
        _exit(127);
    signal(SIGINT, SIG_DFL); /* a shell has its background jobs ignore it */
    dup2(in, STDIN_FILENO);
    dup2(err, STDERR_FILENO);
    if (options->closed_output)
        close(STDOUT_FILENO);
    else
        dup2(out, STDOUT_FILENO);
    long most = sysconf(_SC_OPEN_MAX);
    for (int file = 3; file < (most > 0 && most < 256 ? (int)most : 256); file++)
        close(file);
    execve(words[0], words, variables);
    _exit(127);
}

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void run_start(const char *program, const char *line, const run_options *options, run_child *child)
{
    static const run_options NONE;
    if (!options)
        options = &NONE;
    char *copy = join_path("", line); /* "/line" */
    char *words[MOST_WORDS], *variables[MOST_VARIABLES + 1];
    words[0] = as_argument(program);
    split_words(copy + 1, words);
    build_environment(options->environment, variables);

    int in = scratch_file(), err = scratch_file(), out, master = -1;
    if (options->input) {
        assert_int_equal(write(in, options->input, strlen(options->input)),
                         (int)strlen(options->input));
        lseek(in, 0, SEEK_SET);
    }
    if (options->terminal)
        master = open_terminal(options->columns, &out);
    else if (options->output_path)
        out = open(options->output_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    else
        out = scratch_file();
    assert_true(out >= 0);

    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become(words, variables, options, in, out, options->errors ? out : err);
    if (options->terminal)
        close(out);
    close(in);
    free(copy);
    *child = (run_child){.pid = pid,
                         .out = options->terminal ? master : out,
                         .err = err,
                         .terminal = options->terminal};
}

void run_finish(run_child *child, run_result *result)
{
    if (child->terminal)
        result->out = read_stream(child->out);
    if (!child->ended)
        child->code = wait_for(child->pid);
    if (!child->terminal) {
        lseek(child->out, 0, SEEK_SET);
        result->out = read_stream(child->out);
    }
    lseek(child->err, 0, SEEK_SET);
    result->err = read_stream(child->err);
    result->code = child->code;
    close(child->out);
    close(child->err);
    if (result->code == 127)
        fail_msg("the program cannot be started");
}

void run_line(const char *program, const char *line, const run_options *options, run_result *result)
{
    run_child child;
    run_start(program, line, options, &child);
    run_finish(&child, result);
}

/* ---- Watching ---- */

typedef bool condition(const run_child *child, const char *text, int number);

static bool has_ended(run_child *child)
{
    int status;
    if (!child->ended && waitpid(child->pid, &status, WNOHANG) == child->pid) {
        child->ended = true;
        child->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return child->ended;
}

static bool wait_until(run_child *child, condition *holds, const char *text, int number)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 30000; i++) {
        if (holds(child, text, number))
            return true;
        if (has_ended(child))
            return holds(child, text, number);
        nanosleep(&pause, NULL);
    }
    return false;
}

static bool has_written(const run_child *child, const char *text, int number)
{
    (void)number;
    char path[64]; /* opened again: the program's own file position does not change */
    snprintf(path, sizeof path, "/proc/self/fd/%d", child->out);
    char *written = read_text_file(path);
    bool found = written && strstr(written, text);
    free(written);
    return found;
}

static char *read_proc(const run_child *child, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", child->pid, name);
    return read_text_file(path);
}

static bool has_computed(const run_child *child, const char *text, int number)
{
    (void)text;
    char *facts = read_proc(child, "stat");
    const char *at = facts ? strrchr(facts, ')') : NULL; /* after the program's name */
    for (int field = 2; at && field < 14; field++)
        at = strchr(at + 1, ' ');
    char *next = NULL;
    long long ticks = at ? strtoll(at, &next, 10) : 0; /* user, then system */
    ticks += next ? strtoll(next, NULL, 10) : 0;
    free(facts);
    return ticks * 1000 / sysconf(_SC_CLK_TCK) >= number;
}

static bool has_handler(const run_child *child, const char *text, int number)
{
    (void)text;
    char *facts = read_proc(child, "status");
    const char *caught = facts ? strstr(facts, "SigCgt:") : NULL;
    unsigned long long mask = caught ? strtoull(caught + 7, NULL, 16) : 0;
    free(facts);
    return mask >> (number - 1) & 1;
}

bool run_wait_output(run_child *child, const char *text)
{
    return wait_until(child, has_written, text, 0);
}

bool run_wait_cpu(run_child *child, int milliseconds)
{
    return wait_until(child, has_computed, NULL, milliseconds);
}

bool run_wait_handler(run_child *child, int signal_number)
{
    return wait_until(child, has_handler, NULL, signal_number);
}

void run_signal(const run_child *child, int signal_number)
{
    if (!child->ended)
        assert_int_equal(kill(child->pid, signal_number), 0);
}

void run_result_clear(run_result *result)
{
    free(result->out);
    free(result->err);
    *result = (run_result){0};
}
