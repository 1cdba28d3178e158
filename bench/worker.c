/*
 * Keeps a network's kernels ready, and measures and trains it on request. What `neap train` does
 * for each plan anew, such as starting the GPU, loading libraries and building kernels, is done
 * once.
 *
 *     worker GRAPH.json BACKEND [--tf32] [--threads N] [--repetitions N] [--fresh] [--cache FILE]
 *            [--most-workspace BYTES] [--lock FILE]
 *
 * Requests are lines on standard input; an answer is a line of JSON, {"error": "..."} if it fails:
 *
 *     fit                          finds the kernels, which takes processors only
 *     link                         measures the link; kernels are then profiled as beside copies
 *     profile FILE                 measures the kernels, and writes the graph with their times
 *     train PLAN STEPS [WORD...]   trains by a plan
 *     verify PLAN STEPS [WORD...]  compares the bits of that with training without a plan
 *
 * Words are duplex, times (where the time of a step goes), times=FILE (the same, and when each step
 * of the plan began and ended, as CSV), poison, stress=SEED, and link=OUT,IN,LATENCY in bytes a
 * second and seconds. With --lock, what is timed takes that file's lock meanwhile: of several
 * workers one at a time uses the GPU, while the others prepare. If it may, that one goes first on
 * the processors, too, so that its kernels are launched in time. Measuring kernels lets others have
 * a turn twice a second.
 */
#include <neap/neap.h>

#include "base/clock.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST_STEPS    1000
#define FIRST         (-15) /* priority */
#define UNTYPICAL     2     /* first steps: a device gets them call by call, and records them */
#define LEAST_COUNTED 3
#define MOST_TURN     0.5 /* seconds, of measuring kernels */

static neap_diag diag;

typedef struct worker {
    neap_progress progress; /* of measuring kernels */
    neap_graph *graph;
    neap_backend *backend;
    neap_profile_options profile;
    neap_backend_options options;
    int lock;    /* file; -1: none */
    double turn; /* when it began */
} worker;

/* A request to train. */
typedef struct training {
    const char *path;
    int64_t steps;
    const char *times; /* file for the times of each step of the plan; or NULL */
    neap_link link;
    neap_train_options options;
    neap_plan *plan;
} training;

/* ---- Taking turns ---- */

static void take_turn(worker *w, bool takes)
{
    struct flock lock = {.l_type = takes ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET};
    if (w->lock >= 0 && fcntl(w->lock, F_SETLKW, &lock) != 0)
        fprintf(stderr, "worker: the lock cannot be taken\n");
    w->turn = neap_clock_seconds();
    if (w->lock >= 0 && setpriority(PRIO_PROCESS, 0, takes ? FIRST : 0) != 0)
        return; /* only the superuser may */
}

/* Asked between kernels, by this thread, for `fit` has found the algorithms. Never cancels. */
static bool pass_turn(neap_progress *progress)
{
    worker *w = (worker *)progress;
    const struct timespec moment = {.tv_nsec = 2000000};
    if (w->lock < 0 || neap_clock_seconds() - w->turn < MOST_TURN)
        return false;
    take_turn(w, false);
    nanosleep(&moment, NULL); /* those that wait get it */
    take_turn(w, true);
    return false;
}

/* ---- Answers ---- */

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar((unsigned char)*text < ' ' ? ' ' : *text);
    putchar('"');
}

static void print_number(const char *name, double number)
{
    if (isfinite(number))
        printf(", \"%s\": %.9g", name, number);
    else
        printf(", \"%s\": null", name);
}

static void print_bytes(const char *name, int64_t bytes)
{
    printf(", \"%s\": %lld", name, (long long)bytes);
}

static void fail(const char *message)
{
    printf("{\"error\": ");
    print_text(message);
    printf("}\n");
}

static void print_pair(const char *name, neap_time_pair pair)
{
    printf(", \"%s\": {\"planned\": %.9g, \"measured\": %.9g}", name, pair.planned, pair.measured);
}

/* ---- Kernels ---- */

static neap_status fit(worker *w)
{
    double begin = neap_clock_seconds();
    neap_status status = neap_backend_fit(w->backend, w->graph, &diag);
    if (status == NEAP_OK)
        printf("{\"seconds\": %.3f}\n", neap_clock_seconds() - begin);
    return status;
}

static neap_status measure_link(worker *w)
{
    neap_link link;
    take_turn(w, true);
    neap_status status = neap_backend_measure_link(w->backend, &link, &w->profile.beside, &diag);
    take_turn(w, false);
    if (status != NEAP_OK)
        return status;
    printf("{\"slowdown\": %.9g", w->profile.beside.slowdown);
    print_number("out_bandwidth", link.out_bandwidth);
    print_number("in_bandwidth", link.in_bandwidth);
    print_number("latency", link.latency);
    print_number("out_bandwidth_both", w->profile.beside.out_bandwidth);
    print_number("in_bandwidth_both", w->profile.beside.in_bandwidth);
    printf("}\n");
    return NEAP_OK;
}

static neap_status profile(worker *w, const char *path)
{
    neap_profile_report report;
    take_turn(w, true);
    double begin = neap_clock_seconds();
    neap_status status = neap_profile(NULL, w->graph, w->backend, &w->profile, &report, &diag);
    double seconds = neap_clock_seconds() - begin;
    take_turn(w, false);
    if (status == NEAP_OK)
        status = neap_graph_write_file(w->graph, path, &diag);
    w->profile.refresh = false; /* what has been measured here counts from now on */
    if (status == NEAP_OK)
        printf("{\"kernels\": %u, \"measured\": %u, \"seconds\": %.3f, \"spread\": %.9g}\n",
               report.kernels, report.measured, seconds, report.worst_spread);
    return status;
}

/* ---- Training ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median without the first steps, unless these are all there is. */
static double typical(double *seconds, int64_t count)
{
    int64_t skipped = count >= UNTYPICAL + LEAST_COUNTED ? UNTYPICAL : 0;
    qsort(seconds + skipped, (size_t)(count - skipped), sizeof *seconds, by_size);
    return seconds[skipped + (count - skipped) / 2];
}

static neap_status write_times(const worker *w, const training *t, const neap_timeline *timeline,
                               const neap_step_time *times)
{
    const neap_step *steps = neap_plan_steps(t->plan);
    FILE *file = fopen(t->times, "w");
    snprintf(diag.message, sizeof diag.message, "%s cannot be written", t->times);
    if (!file)
        return NEAP_IO;
    fprintf(file, "step,kind,id,planned_begin,planned_end,begin,end\n");
    for (size_t i = 0; i < timeline->n_steps; i++)
        fprintf(file, "%zu,%s,%u,%.9f,%.9f,%.9f,%.9f\n", i, neap_step_kind_name(steps[i].kind),
                steps[i].id, neap_graph_seconds(w->graph, timeline->steps[i].begin),
                neap_graph_seconds(w->graph, timeline->steps[i].end), times[i].begin, times[i].end);
    return fclose(file) == 0 ? NEAP_OK : NEAP_IO;
}

static neap_status measure_parts(const worker *w, const training *t, neap_trainer *trainer,
                                 neap_time_parts *parts)
{
    neap_timeline timeline;
    const neap_step_time *times = neap_runner_step_times(neap_trainer_runner(trainer));
    neap_status status = neap_timeline_build(
        NULL, w->graph, t->plan, t->link.out_bandwidth > 0 ? &t->link : NULL, &timeline, &diag);
    if (status != NEAP_OK)
        return status;
    status = neap_report_time_parts(NULL, w->graph, t->plan, &timeline, times, parts, &diag);
    if (status == NEAP_OK && t->times)
        status = write_times(w, t, &timeline, times);
    neap_timeline_clear(&timeline);
    return status;
}

static void print_parts(const neap_time_parts *parts)
{
    printf(", \"times\": {\"out_bytes\": %lld", (long long)parts->out_bytes);
    print_bytes("in_bytes", parts->in_bytes);
    print_pair("step", parts->step);
    print_pair("computing_alone", parts->alone);
    print_pair("computing_beside_copies", parts->beside);
    print_pair("idle", parts->idle);
    print_pair("copies_out", parts->out);
    print_pair("copies_in", parts->in);
    printf("}");
}

static neap_status run_steps(worker *w, const training *t, neap_trainer *trainer, double *seconds,
                             double *loss)
{
    neap_train_report report;
    neap_status status = NEAP_OK;
    take_turn(w, true);
    for (int64_t i = 0; i < t->steps && status == NEAP_OK; i++) {
        status = neap_trainer_step(trainer, &report, &diag);
        seconds[i] = report.run.seconds;
        *loss = report.loss;
    }
    take_turn(w, false);
    return status;
}

/* The answer's beginning: what the judge says of the plan. */
static neap_status judge(const worker *w, const training *t, neap_verdict *verdict)
{
    neap_check_options options;
    neap_check_options_init(&options);
    options.budget = INT64_MAX;
    options.link = t->link.out_bandwidth > 0 ? &t->link : NULL;
    neap_status status = neap_check(NULL, w->graph, t->plan, &options, verdict, &diag);
    if (status == NEAP_OK && !verdict->accepted) {
        snprintf(diag.message, sizeof diag.message, "%s", verdict->reason);
        return NEAP_INVALID;
    }
    return status;
}

static neap_status train(worker *w, const training *t)
{
    neap_trainer *trainer = NULL;
    neap_verdict verdict;
    neap_time_parts parts;
    double seconds[MOST_STEPS], loss = NAN;
    double begin = neap_clock_seconds();
    neap_status status = judge(w, t, &verdict);
    if (status == NEAP_OK)
        status =
            neap_trainer_create(NULL, w->graph, t->plan, w->backend, &t->options, &trainer, &diag);
    double ready = neap_clock_seconds();
    if (status == NEAP_OK)
        status = run_steps(w, t, trainer, seconds, &loss);
    if (status == NEAP_OK && t->options.run.measure)
        status = measure_parts(w, t, trainer, &parts);
    if (status == NEAP_OK) {
        neap_runner *runner = neap_trainer_runner(trainer);
        printf("{\"steps\": %lld", (long long)t->steps);
        print_bytes("peak_bytes", verdict.peak_bytes);
        print_bytes("arena_bytes", neap_runner_arena_bytes(runner));
        print_bytes("host_bytes", neap_runner_host_bytes(runner));
        print_number("base_time", neap_graph_seconds(w->graph, neap_graph_base_ticks(w->graph)));
        print_number("predicted_time", verdict.time);
        print_number("first_step", seconds[0]);
        print_number("step_time", typical(seconds, t->steps));
        print_number("last_loss", loss);
        print_number("preparing", ready - begin);
        if (t->options.run.measure)
            print_parts(&parts);
        printf("}\n");
    }
    neap_trainer_destroy(trainer);
    return status;
}

static neap_status verify(const worker *w, const training *t)
{
    neap_verify_report report;
    neap_status status = neap_train_verify(NULL, w->graph, t->plan, w->backend, &t->options,
                                           t->steps, NULL, &report, &diag);
    if (status != NEAP_OK)
        return status;
    printf("{\"equal\": %s", report.equal ? "true" : "false");
    print_bytes("compared", (int64_t)report.compared);
    if (!report.equal)
        printf(", \"differs\": \"step %lld\"", (long long)report.differs_step);
    printf("}\n");
    return NEAP_OK;
}

/* ---- Requests ---- */

static bool read_word(const char *word, training *t)
{
    neap_run_options *run = &t->options.run;
    neap_link *link = &t->link;
    if (strcmp(word, "duplex") == 0)
        link->duplex = run->duplex = true;
    else if (strcmp(word, "times") == 0)
        run->measure = true;
    else if (strncmp(word, "times=", 6) == 0)
        run->measure = true, t->times = word + 6;
    else if (strcmp(word, "poison") == 0)
        run->poison = true;
    else if (strncmp(word, "stress=", 7) == 0)
        run->stress = strtoull(word + 7, NULL, 10);
    else
        return sscanf(word, "link=%lf,%lf,%lf", &link->out_bandwidth, &link->in_bandwidth,
                      &link->latency) == 3;
    return true;
}

static neap_status read_training(training *t)
{
    const char *path = strtok(NULL, " "), *steps = strtok(NULL, " "), *word;
    *t = (training){.path = path, .steps = steps ? strtol(steps, NULL, 10) : 0};
    neap_train_options_init(&t->options);
    snprintf(diag.message, sizeof diag.message, "PLAN STEPS [WORD...] are expected");
    if (!path || t->steps < 1 || t->steps > MOST_STEPS)
        return NEAP_INVALID;
    while ((word = strtok(NULL, " ")) != NULL)
        if (!read_word(word, t))
            return NEAP_INVALID;
    return neap_plan_read_file(NULL, path, &t->plan, &diag);
}

static void answer(worker *w, char *line)
{
    const char *request = strtok(line, " "), *path;
    training t = {.plan = NULL};
    neap_status status = NEAP_INVALID;
    snprintf(diag.message, sizeof diag.message, "unknown request");
    if (!request)
        request = "";
    if (strcmp(request, "fit") == 0) {
        status = fit(w);
    } else if (strcmp(request, "link") == 0) {
        status = measure_link(w);
    } else if (strcmp(request, "profile") == 0 && (path = strtok(NULL, " ")) != NULL) {
        status = profile(w, path);
    } else if (strcmp(request, "train") == 0 || strcmp(request, "verify") == 0) {
        status = read_training(&t);
        if (status == NEAP_OK)
            status = *request == 't' ? train(w, &t) : verify(w, &t);
        neap_plan_destroy(t.plan);
    }
    if (status != NEAP_OK)
        fail(diag.message);
    fflush(stdout);
}

/* ---- The command line ---- */

static void set(worker *w, const char *option, const char *word)
{
    if (strcmp(option, "--threads") == 0)
        w->options.threads = (int)strtol(word, NULL, 10);
    else if (strcmp(option, "--repetitions") == 0)
        w->profile.repetitions = (int)strtol(word, NULL, 10);
    else if (strcmp(option, "--cache") == 0)
        w->profile.cache = word;
    else if (strcmp(option, "--most-workspace") == 0)
        w->profile.most_workspace = strtoll(word, NULL, 10);
    else if (strcmp(option, "--lock") == 0)
        w->lock = open(word, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
}

int main(int argc, char **argv)
{
    worker w = {.progress = {.cancelled = pass_turn}, .lock = -1};
    char *line = NULL;
    size_t capacity = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: worker GRAPH.json BACKEND [OPTION...]\n");
        return 2;
    }
    neap_profile_options_init(&w.profile);
    w.profile.progress = &w.progress;
    neap_backend_options_init(&w.options);
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], "--tf32") == 0)
            w.options.tf32 = true;
        else if (strcmp(argv[i], "--fresh") == 0)
            w.profile.refresh = true;
        else if (i + 1 < argc)
            set(&w, argv[i], argv[i + 1]), i++;
    if (neap_graph_read_file(NULL, argv[1], &w.graph, &diag) != NEAP_OK ||
        neap_backend_open_with(NULL, argv[2], &w.options, &w.backend, &diag) != NEAP_OK) {
        fail(diag.message);
        neap_graph_destroy(w.graph);
        return 1;
    }
    while (getline(&line, &capacity, stdin) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        answer(&w, line);
    }
    free(line);
    neap_backend_close(w.backend);
    neap_graph_destroy(w.graph);
    return 0;
}
