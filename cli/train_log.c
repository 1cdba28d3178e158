#define _XOPEN_SOURCE 700 /* ftruncate */

#include "train_log.h"

#include "files.h"
#include "output.h"
#include "training.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How every line of a log begins. */
static const char BEGIN[] = "{\"step\": ";

static int fail_file(int code, const char *path)
{
    return cli_fail(code, "cannot write %s: %s", path, strerror(errno));
}

/* ---- Opening ---- */

int cli_train_log_check(const char *path, bool append)
{
    char start[sizeof BEGIN - 1];
    struct stat info;
    if (!append || stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
        return CLI_OK;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return cli_fail(CLI_BAD_INPUT, "cannot read %s: %s", path, strerror(errno));
    ssize_t length = read(file, start, sizeof start);
    close(file);
    if (length >= 0 && memcmp(start, BEGIN, (size_t)length) == 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT,
                    "%s is not a log of neap train, so --resume does not continue it; name another "
                    "file",
                    path);
}

/* A crash may have left a part of a line at the end: removes it. False with errno set. */
static bool drop_partial_line(int file)
{
    char block[4096];
    struct stat info;
    if (fstat(file, &info) != 0)
        return false;
    off_t end = S_ISREG(info.st_mode) ? info.st_size : 0;
    off_t keep = end;
    for (off_t at = end; at > 0;) {
        off_t begin = at > (off_t)sizeof block ? at - (off_t)sizeof block : 0;
        ssize_t length = pread(file, block, (size_t)(at - begin), begin);
        if (length != at - begin)
            return false;
        while (at > begin && block[at - begin - 1] != '\n')
            at--;
        keep = at;
        if (at > begin)
            break;
    }
    return keep == end || ftruncate(file, keep) == 0;
}

static void add_size(neap_text *line, const char *name, int64_t bytes)
{
    if (bytes < 0)
        neap_text_printf(line, ", \"%s\": null", name);
    else
        neap_text_printf(line, ", \"%s\": %" PRId64, name, bytes);
}

static void add_string(neap_text *line, const char *name, const char *value)
{
    neap_text_printf(line, ", \"%s\": ", name);
    neap_text_json_string(line, value);
}

static void add_real(neap_text *line, const char *name, double value)
{
    neap_text_printf(line, ", \"%s\": ", name);
    if (isfinite(value))
        neap_text_double(line, value);
    else
        neap_text_puts(line, "null");
}

/* The moment in UTC, as ISO 8601 has it. */
static void add_moment(neap_text *line, const char *name)
{
    struct timespec now;
    struct tm parts;
    char text[32] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    neap_text_printf(line, ", \"%s\": \"%s.%03ldZ\"", name, text, now.tv_nsec / 1000000);
}

static void make_constant(cli_training *t)
{
    neap_text *line = &t->log.constant;
    add_moment(line, "run");
    add_string(line, "graph", neap_graph_name(t->planning.model.graph));
    add_string(line, "backend", neap_backend_name(t->measured.backend));
    add_string(line, "method", neap_plan_method(t->plan));
    neap_text_printf(line, ", \"seed\": %" PRIu64 ", \"batch\": %" PRId64,
                     neap_trainer_seed(t->trainer), t->batch);
    add_size(line, "budget_bytes", t->planning.budget);
    add_size(line, "peak_bytes", t->peak);
    add_size(line, "arena_bytes", t->arena);
    add_size(line, "host_bytes", neap_runner_host_bytes(neap_trainer_runner(t->trainer)));
    add_real(line, "predicted_seconds", t->predicted);
    neap_text_puts(line, "}\n");
}

int cli_train_log_open(cli_training *t)
{
    const char *path = t->settings.log_file;
    bool append = t->settings.resume != NULL;
    if (!path)
        return CLI_OK;
    int flags = O_CREAT | O_CLOEXEC | (append ? O_RDWR | O_APPEND : O_WRONLY | O_TRUNC);
    int file = open(path, flags, 0666);
    if (file < 0 && append && errno == EACCES) /* a pipe that can only be written to */
        file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0 || (append && !drop_partial_line(file))) {
        int code = fail_file(CLI_FAILED, path);
        if (file >= 0)
            close(file);
        return code;
    }
    t->log.file = file;
    make_constant(t);
    return t->log.constant.status == NEAP_OK ? CLI_OK : cli_fail_memory();
}

void cli_train_log_close(cli_train_log *log)
{
    if (log->file >= 0)
        close(log->file);
    log->file = -1;
    neap_text_clear(&log->constant);
    neap_text_clear(&log->line);
}

/* ---- A step ---- */

int cli_train_log_add(cli_training *t, const neap_train_report *report)
{
    neap_text *line = &t->log.line;
    double all = report->run.seconds + report->data_seconds;
    if (t->log.file < 0)
        return CLI_OK;
    line->length = 0;
    neap_text_printf(line, "%s%" PRId64, BEGIN, report->step);
    add_real(line, "loss", report->loss);
    add_real(line, "learning_rate", report->learning_rate);
    add_real(line, "seconds", report->run.seconds);
    add_real(line, "data_seconds", report->data_seconds);
    add_real(line, "wait_seconds", report->run.wait_seconds);
    add_real(line, "samples_per_second", all > 0 ? (double)t->batch / all : (double)NAN);
    neap_text_printf(line, ", \"computed_ops\": %" PRIu64 ", \"transferred_bytes\": %" PRIu64,
                     report->run.computed, report->run.transferred);
    add_moment(line, "time");
    neap_text_puts(line, neap_text_get(&t->log.constant));
    if (line->status != NEAP_OK)
        return cli_fail_memory();
    return cli_descriptor_write(t->log.file, line->text, line->length)
               ? CLI_OK
               : fail_file(CLI_FAILED, t->settings.log_file);
}
