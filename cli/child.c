#define _POSIX_C_SOURCE 200809L
#include "child.h"

#include "progress.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_OUTPUT = 64 << 10, POLL_MILLISECONDS = 50 };

/* The read end of its output; -1: it did not start. */
static int start(char *const *arguments, pid_t *pid)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    bool started = false;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        started = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY,
                                                   0) == 0 &&
                  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0 &&
                  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY,
                                                   0) == 0 &&
                  posix_spawnp(pid, arguments[0], &actions, NULL, arguments, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (started)
        return ends[0];
    close(ends[0]);
    return -1;
}

/* Reads until it closes its output; false: the time is up. */
static bool read_output(int from, double end, neap_text *out)
{
    char bytes[4096];
    size_t total = 0;
    for (;;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        if (cli_interrupted() || cli_clock() > end)
            return false;
        if (poll(&ready, 1, POLL_MILLISECONDS) <= 0)
            continue;
        ssize_t count = read(from, bytes, sizeof bytes);
        if (count <= 0)
            return true;
        size_t kept = total < MOST_OUTPUT ? (size_t)count : 0;
        neap_text_append(out, bytes, kept);
        total += kept;
    }
}

/* Waits for its end; false: the time is up. */
static bool wait_for(pid_t pid, double end, int *state)
{
    for (;;) {
        pid_t ended = waitpid(pid, state, WNOHANG);
        if (ended != 0)
            return ended == pid;
        if (cli_interrupted() || cli_clock() > end)
            return false;
        poll(NULL, 0, POLL_MILLISECONDS / 10);
    }
}

cli_child_end cli_child_run(char *const *arguments, double seconds, neap_text *out)
{
    pid_t pid = 0;
    int state = 0;
    double end = cli_clock() + seconds;
    int from = start(arguments, &pid);
    if (from < 0)
        return CLI_CHILD_MISSING;
    bool in_time = read_output(from, end, out) && wait_for(pid, end, &state);
    close(from);
    if (!in_time) {
        kill(pid, SIGKILL);
        waitpid(pid, &state, 0);
        return CLI_CHILD_TIMEOUT;
    }
    return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? CLI_CHILD_OK : CLI_CHILD_FAILED;
}
