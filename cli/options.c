#include "options.h"

#include "memory.h"
#include "output.h"
#include "parse_values.h"
#include "train_options.h"

#include <neap/text.h>
#include <string.h>

/* ---- The settings ---- */

bool cli_settings_init(cli_settings *settings, int argument_count)
{
    size_t capacity = 2 * (size_t)argument_count + 2; /* --image makes two sizes */
    *settings = (cli_settings){.capacity = capacity,
                               .dtype = NEAP_F32,
                               .link_latency = -1,
                               .steps = 10,
                               .learning_rate = -1,
                               .momentum = -1,
                               .alignment = 1,
                               .extra_forward = 1};
    settings->operands = cli_memory_new(capacity, sizeof *settings->operands);
    settings->sizes = cli_memory_new(capacity, sizeof *settings->sizes);
    settings->device_files = cli_memory_new(capacity, sizeof *settings->device_files);
    settings->options = cli_memory_new(capacity, sizeof *settings->options);
    settings->pins = cli_memory_new(capacity, sizeof *settings->pins);
    if (settings->operands && settings->sizes && settings->device_files && settings->options &&
        settings->pins)
        return true;
    cli_settings_clear(settings);
    return false;
}

void cli_settings_clear(cli_settings *settings)
{
    size_t capacity = settings->capacity;
    cli_memory_release(settings->operands, capacity, sizeof *settings->operands);
    cli_memory_release(settings->sizes, capacity, sizeof *settings->sizes);
    cli_memory_release(settings->device_files, capacity, sizeof *settings->device_files);
    cli_memory_release(settings->options, capacity, sizeof *settings->options);
    cli_memory_release(settings->pins, capacity, sizeof *settings->pins);
    *settings = (cli_settings){0};
}

/* ---- Values ---- */

/* The position of a word in a list like "lean|torch", or -1 after an error line. */
static int find_choice(const char *option, const char *choices, const char *value)
{
    size_t length = strlen(value);
    int index = 0;
    for (const char *choice = choices; *choice; index++) {
        size_t end = strcspn(choice, "|");
        if (end == length && memcmp(choice, value, length) == 0)
            return index;
        choice += end + (choice[end] == '|');
    }
    cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is none of %s", option, value, choices);
    return -1;
}

/* Cuts NAME=VALUE in two; NULL after an error line. */
static char *split_assignment(const char *option, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text || equals[1] == '\0') {
        cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not of the form NAME=VALUE", option, text);
        return NULL;
    }
    *equals = '\0';
    return equals + 1;
}

static int parse_count(const char *option, const char *value, int64_t least, int64_t *number)
{
    if (cli_parse_integer(value, number) && *number >= least)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a whole number of %lld or more", option,
                    value, (long long)least);
}

/* ---- Model ---- */

static void note_model_option(cli_settings *s, const char *name)
{
    if (!s->model_option)
        s->model_option = name;
}

static neap_model_setting *find_size(const cli_settings *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_sizes; i++)
        if (strcmp(s->sizes[i].name, name) == 0)
            return &s->sizes[i];
    return NULL;
}

/* A size given twice has the later value. */
static void set_size(cli_settings *s, const char *name, int64_t value)
{
    neap_model_setting *old = find_size(s, name);
    if (old)
        old->value = value;
    else
        s->sizes[s->n_sizes++] = (neap_model_setting){name, value};
}

static int apply_size(cli_settings *s, const char *name, const char *value)
{
    int64_t number;
    int code = parse_count(name, value, 1, &number);
    if (code != CLI_OK)
        return code;
    note_model_option(s, name);
    set_size(s, name, number);
    return CLI_OK;
}

static int apply_batch(cli_settings *s, char *value)
{
    return apply_size(s, "batch", value);
}

static int apply_seq(cli_settings *s, char *value)
{
    return apply_size(s, "seq", value);
}

static int apply_image(cli_settings *s, char *value)
{
    int64_t height, width;
    if (!cli_parse_image(value, &height, &width) || height < 1 || width < 1)
        return cli_fail(CLI_BAD_INPUT,
                        "--image \"%s\" is no size in pixels, such as 416 or 416x608 (HxW)", value);
    note_model_option(s, "image");
    set_size(s, "image", height);
    if (strchr(value, 'x') || find_size(s, "image_w"))
        set_size(s, "image_w", width);
    return CLI_OK;
}

static int apply_set(cli_settings *s, char *value)
{
    char *text = split_assignment("set", value);
    if (!text)
        return CLI_BAD_INPUT;
    int64_t number;
    if (!cli_parse_integer(text, &number))
        return cli_fail(CLI_BAD_INPUT, "--set %s=%s: the value is no whole number", value, text);
    note_model_option(s, "set");
    set_size(s, value, number);
    return CLI_OK;
}

static int apply_dtype(cli_settings *s, char *value)
{
    static const struct {
        neap_dtype dtype;
        neap_math math;
    } TYPES[] = {{NEAP_F32, NEAP_MATH_F32},
                 {NEAP_F32, NEAP_MATH_TF32},
                 {NEAP_F16, NEAP_MATH_F32},
                 {NEAP_BF16, NEAP_MATH_F32}};
    int choice = find_choice("dtype", "f32|tf32|f16|bf16", value);
    if (choice < 0)
        return CLI_BAD_INPUT;
    s->dtype = TYPES[choice].dtype;
    s->math = TYPES[choice].math;
    s->has_math = choice < 2;
    if (!s->has_math)
        note_model_option(s, "dtype");
    return CLI_OK;
}

static int apply_optimizer(cli_settings *s, char *value)
{
    static const neap_optimizer OPTIMIZERS[] = {NEAP_OPTIMIZER_NONE, NEAP_OPTIMIZER_NONE,
                                                NEAP_OPTIMIZER_MOMENTUM, NEAP_OPTIMIZER_ADAM};
    int choice = find_choice("optimizer", "none|sgd|momentum|adam", value);
    if (choice < 0)
        return CLI_BAD_INPUT;
    s->optimizer = OPTIMIZERS[choice];
    s->has_optimizer = true;
    note_model_option(s, "optimizer");
    return CLI_OK;
}

static int apply_kernels(cli_settings *s, char *value)
{
    static const neap_kernels KERNELS[] = {NEAP_KERNELS_LEAN, NEAP_KERNELS_TORCH,
                                           NEAP_KERNELS_LAYER};
    int choice = find_choice("kernels", "lean|torch|layer", value);
    if (choice < 0)
        return CLI_BAD_INPUT;
    s->kernels = KERNELS[choice];
    note_model_option(s, "kernels");
    return CLI_OK;
}

/* ---- Device and link ---- */

static int apply_device(cli_settings *s, char *value)
{
    s->device = value;
    return CLI_OK;
}

static int apply_devices(cli_settings *s, char *value)
{
    s->device_files[s->n_device_files++] = value;
    return CLI_OK;
}

static int apply_link(cli_settings *s, char *value)
{
    s->link = value; /* "device" needs the device: load.c reads it */
    return CLI_OK;
}

static int apply_duplex(cli_settings *s, char *value)
{
    (void)value;
    s->duplex = true;
    s->link_option = "duplex";
    return CLI_OK;
}

static int apply_link_latency(cli_settings *s, char *value)
{
    s->link_option = "link-latency";
    if (cli_parse_seconds(value, &s->link_latency))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--link-latency \"%s\" is no time, such as 10us or 0.5ms",
                    value);
}

static int apply_host_memory(cli_settings *s, char *value)
{
    s->link_option = "host-memory";
    if (neap_bytes_parse(value, &s->host_memory, NULL) == NEAP_OK && s->host_memory > 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--host-memory \"%s\" is no size, such as 64GiB", value);
}

/* ---- Planning ---- */

static int apply_budget(cli_settings *s, char *value)
{
    s->budget = value; /* a percentage needs the graph: load.c reads it */
    return CLI_OK;
}

static int apply_method(cli_settings *s, char *value)
{
    s->method = value;
    return CLI_OK;
}

static int apply_methods(cli_settings *s, char *value)
{
    s->methods = value;
    return CLI_OK;
}

static int apply_option(cli_settings *s, char *value)
{
    char *text = split_assignment("option", value);
    if (!text)
        return CLI_BAD_INPUT;
    s->options[s->n_options++] = (neap_option_setting){value, text};
    return CLI_OK;
}

static int apply_time_limit(cli_settings *s, char *value)
{
    if (cli_parse_seconds(value, &s->time_limit) && s->time_limit > 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--time-limit \"%s\" is no time above 0, such as 30s or 5min",
                    value);
}

static int apply_threads(cli_settings *s, char *value)
{
    int64_t number;
    int code = parse_count("threads", value, 0, &number);
    if (code == CLI_OK && number > 65536)
        return cli_fail(CLI_BAD_INPUT, "--threads %s is too many; 0 means all the machine has",
                        value);
    if (code == CLI_OK)
        s->threads = (int)number;
    return code;
}

static int apply_seed(cli_settings *s, char *value)
{
    if (cli_parse_unsigned(value, &s->seed))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--seed \"%s\" is not a whole number from 0 to 2^64-1", value);
}

static int apply_alignment(cli_settings *s, char *value)
{
    return parse_count("alignment", value, 1, &s->alignment);
}

static int apply_log(cli_settings *s, char *value)
{
    (void)value;
    s->log = true;
    return CLI_OK;
}

/* ---- What the plan is to be like ---- */

static int apply_gap(cli_settings *s, char *value)
{
    if (cli_parse_percent(value, &s->gap) ||
        (cli_parse_real(value, &s->gap) && s->gap >= 0 && s->gap < 1))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--gap \"%s\" is no share, such as 1%% or 0.01", value);
}

static void note_constraint(cli_settings *s, const char *name)
{
    if (!s->constraint)
        s->constraint = name;
}

static int apply_objective(cli_settings *s, char *value)
{
    int choice = find_choice("objective", "time|peak|batch", value);
    if (choice < 0)
        return CLI_BAD_INPUT;
    s->objective = (cli_objective)choice;
    return CLI_OK;
}

static int add_pin(cli_settings *s, const char *name, neap_pin_kind kind, const char *pattern)
{
    note_constraint(s, name);
    s->pins[s->n_pins++] = (neap_pin){kind, pattern};
    return CLI_OK;
}

static int apply_keep(cli_settings *s, char *value)
{
    return add_pin(s, "keep", NEAP_PIN_KEEP, value);
}

static int apply_never_recompute(cli_settings *s, char *value)
{
    return add_pin(s, "never-recompute", NEAP_PIN_NO_RECOMPUTE, value);
}

static int apply_never_offload(cli_settings *s, char *value)
{
    return add_pin(s, "never-offload", NEAP_PIN_NO_OFFLOAD, value);
}

static int apply_start(cli_settings *s, char *value)
{
    note_constraint(s, "start");
    s->start = value;
    return CLI_OK;
}

/* ---- Curve ---- */

static int apply_budgets(cli_settings *s, char *value)
{
    s->budgets = value;
    return CLI_OK;
}

static int apply_points(cli_settings *s, char *value)
{
    int code = parse_count("points", value, 2, &s->points);
    if (code == CLI_OK && s->points > 1000)
        return cli_fail(CLI_BAD_INPUT, "--points %s is too many; at most 1000", value);
    return code;
}

static int apply_from(cli_settings *s, char *value)
{
    s->from = value;
    return CLI_OK;
}

static int apply_to(cli_settings *s, char *value)
{
    s->to = value;
    return CLI_OK;
}

/* ---- Max-batch ---- */

static int apply_extra_forward(cli_settings *s, char *value)
{
    s->batch_option = "extra-forward";
    s->extra_forward = -1;
    if (strcmp(value, "any") == 0 ||
        (cli_parse_real(value, &s->extra_forward) && s->extra_forward >= 0))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT,
                    "--extra-forward \"%s\" is no number of forward passes, such as 1 or 0.5; any "
                    "is no limit",
                    value);
}

static int apply_batch_of(cli_settings *s, char *value)
{
    s->batch_option = "batch-of";
    return parse_count("batch-of", value, 1, &s->batch_of);
}

static int apply_beyond(cli_settings *s, char *value)
{
    s->batch_option = "beyond";
    return parse_count("beyond", value, 0, &s->beyond);
}

/* ---- Output ---- */

static int apply_output(cli_settings *s, char *value)
{
    s->output = value;
    return CLI_OK;
}

static int apply_csv(cli_settings *s, char *value)
{
    s->csv = value;
    return CLI_OK;
}

static int apply_svg(cli_settings *s, char *value)
{
    s->svg = value;
    return CLI_OK;
}

static int apply_json(cli_settings *s, char *value)
{
    (void)value;
    s->json = true;
    return CLI_OK;
}

static int apply_chart(cli_settings *s, char *value)
{
    (void)value;
    s->chart = true;
    return CLI_OK;
}

static int apply_any_graph(cli_settings *s, char *value)
{
    (void)value;
    s->any_graph = true;
    return CLI_OK;
}

static int apply_help(cli_settings *s, char *value)
{
    (void)value;
    s->help = true;
    return CLI_OK;
}

/* ---- The table ---- */

#define MODEL_SECTION  "Built-in models (neap models NAME lists what one takes)"
#define DEVICE_SECTION "Times"
#define LINK_SECTION   "Host memory"
#define PLAN_SECTION   "Planning"
#define BATCH_SECTION  "The largest batch"
#define RUN_SECTION    "Kernels"
#define TRAIN_SECTION  "Training"
#define OUTPUT_SECTION "Output"

const cli_option cli_options[] = {
    {"budget", 0, "SIZE", CLI_GROUP_BUDGET, PLAN_SECTION,
     "memory for the whole step: 8GiB, 5e9, or 50% of what it takes without a plan", apply_budget},
    {"method", 0, "NAME", CLI_GROUP_METHOD, PLAN_SECTION,
     "how to plan (see neap methods); auto, the default, takes the fastest plan it finds",
     apply_method},
    {"objective", 0, "WHAT", CLI_GROUP_OBJECTIVE, PLAN_SECTION,
     "the best in time within the budget (the default), in peak, for which no budget is needed, or "
     "in batch: the largest that fits (plan only; neap help max-batch)",
     apply_objective},
    {"budget", 0, "SIZE", CLI_GROUP_MAX_BATCH, PLAN_SECTION,
     "memory for the whole step: 16GB, 8GiB, 5e9", apply_budget},
    {"method", 0, "A,B,...", CLI_GROUP_MAX_BATCH, PLAN_SECTION,
     "how to plan (see neap methods): one, several, all, or auto, the default, as for plan",
     apply_method},
    {"methods", 0, "A,B,...", CLI_GROUP_METHODS, PLAN_SECTION, "these methods only; all by default",
     apply_methods},
    {"budgets", 0, "A,B,...", CLI_GROUP_CURVE, PLAN_SECTION, "these budgets, such as 30%,50%,8GiB",
     apply_budgets},
    {"points", 0, "N", CLI_GROUP_CURVE, PLAN_SECTION, "or so many, evenly spaced: 9 by default",
     apply_points},
    {"from", 0, "SIZE", CLI_GROUP_CURVE, PLAN_SECTION, "the least of them: 20% by default",
     apply_from},
    {"to", 0, "SIZE", CLI_GROUP_CURVE, PLAN_SECTION, "the largest of them: 100% by default",
     apply_to},
    {"keep", 0, "PATTERN", CLI_GROUP_WISHES, PLAN_SECTION,
     "keep tensors of such names, or all that ops of such names make, in memory to their last use; "
     "* and ? stand for any characters; may be repeated",
     apply_keep},
    {"never-recompute", 0, "PATTERN", CLI_GROUP_WISHES, PLAN_SECTION,
     "likewise: make them once; may be repeated", apply_never_recompute},
    {"never-offload", 0, "PATTERN", CLI_GROUP_WISHES, PLAN_SECTION,
     "likewise: never move them to host memory; may be repeated", apply_never_offload},
    {"start", 0, "PLAN", CLI_GROUP_WISHES, PLAN_SECTION,
     "begin with this plan for the same graph, whatever its budget", apply_start},
    {"gap", 0, "SHARE", CLI_GROUP_WISHES, PLAN_SECTION,
     "good enough is a plan proven to be within 1%, 0.005, ... of the fastest; 0 by default",
     apply_gap},
    {"option", 0, "NAME=VALUE", CLI_GROUP_SOLVE, PLAN_SECTION,
     "an option of the method (neap methods NAME lists them); may be repeated", apply_option},
    {"time-limit", 0, "TIME", CLI_GROUP_SOLVE, PLAN_SECTION,
     "stop a method after 30s, 5min, ... and take its best plan so far; 10s where many plans are "
     "made, else none by default",
     apply_time_limit},
    {"log", 0, NULL, CLI_GROUP_SOLVE, PLAN_SECTION,
     "write a line on stderr whenever the best plan or the bound improves", apply_log},
    {"threads", 0, "N", CLI_GROUP_SOLVE, PLAN_SECTION,
     "threads to plan with, and to train; 0, the default, is all there are; without a time limit "
     "the plan does not depend on it",
     apply_threads},
    {"seed", 0, "N", CLI_GROUP_SOLVE, PLAN_SECTION,
     "for methods that draw lots, and for all that training draws; 0 by default", apply_seed},
    {"alignment", 0, "BYTES", CLI_GROUP_SOLVE, PLAN_SECTION,
     "every address is a multiple of it; 1 by default", apply_alignment},
    {"any-graph", 0, NULL, CLI_GROUP_ANY_GRAPH, PLAN_SECTION,
     "judge the plan even if it was made for a graph of another name", apply_any_graph},

    {"extra-forward", 0, "X", CLI_GROUP_BATCHES, BATCH_SECTION,
     "how much longer than every op once a step with it may take, in forward passes: 1 by default; "
     "any is no limit",
     apply_extra_forward},
    {"batch-of", 0, "N", CLI_GROUP_BATCHES, BATCH_SECTION,
     "the batch that a graph file was made for: what is no parameter grows with the batch",
     apply_batch_of},
    {"beyond", 0, "N", CLI_GROUP_BATCHES, BATCH_SECTION,
     "try so many batches past the first that fails; 0 by default", apply_beyond},

    {"batch", 0, "N", CLI_GROUP_BATCH, MODEL_SECTION, "images or sequences in a batch",
     apply_batch},
    {"image", 0, "H[xW]", CLI_GROUP_MODEL, MODEL_SECTION, "image size in pixels: 224, 416x608",
     apply_image},
    {"seq", 0, "N", CLI_GROUP_MODEL, MODEL_SECTION, "sequence length", apply_seq},
    {"set", 0, "NAME=N", CLI_GROUP_MODEL, MODEL_SECTION,
     "any size the model has, such as layers=48; may be repeated", apply_set},
    {"dtype", 0, "TYPE", CLI_GROUP_MODEL, MODEL_SECTION,
     "f32 (the default), tf32 (f32 in memory, tf32 in products), f16 or bf16", apply_dtype},
    {"optimizer", 0, "NAME", CLI_GROUP_MODEL, MODEL_SECTION,
     "whose state takes memory too: none (the default), sgd, momentum or adam", apply_optimizer},
    {"kernels", 0, "WHOSE", CLI_GROUP_MODEL, MODEL_SECTION,
     "lean (the default), torch: PyTorch's, which keep more for the backward pass, or layer: a "
     "layer's backward reads all that it read and made, as Checkmate assumes",
     apply_kernels},

    {"device", 0, "NAME", CLI_GROUP_DEVICE, DEVICE_SECTION,
     "the device that runs it (see neap devices): h200 by default for a built-in model; a graph "
     "file has times of its own, which this replaces",
     apply_device},
    {"devices", 0, "FILE", CLI_GROUP_DEVICES, DEVICE_SECTION,
     "a file with more devices; may be repeated (NEAP_DEVICES=A:B does the same)", apply_devices},

    {"link", 0, "RATE[,RATE]", CLI_GROUP_LINK, LINK_SECTION,
     "allow transfers to host memory, at 12.2GB/s, or out and in at 12GB/s,13GB/s, or at what "
     "the device has: \"device\"",
     apply_link},
    {"duplex", 0, NULL, CLI_GROUP_LINK, LINK_SECTION, "one transfer each way at the same time",
     apply_duplex},
    {"link-latency", 0, "TIME", CLI_GROUP_LINK, LINK_SECTION,
     "what each transfer takes besides, such as 10us", apply_link_latency},
    {"host-memory", 0, "SIZE", CLI_GROUP_LINK, LINK_SECTION, "the most the host may hold",
     apply_host_memory},

    {"steps", 0, "N", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "steps in all, those before --resume included: 10 by default", cli_apply_steps},
    {"data", 0, "SPEC", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "synthetic (the default), mnist:DIR, cifar10:DIR, or images:DIR with a folder of PNG or PPM "
     "files for each class",
     cli_apply_data},
    {"rate", 0, "X", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "the learning rate: 0.01 by default, 0.001 with adam", cli_apply_rate},
    {"momentum", 0, "X", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "of the optimizer momentum, which is the default: 0.9", cli_apply_momentum},
    {"weight-decay", 0, "X", CLI_GROUP_TRAIN, TRAIN_SECTION, "0 by default",
     cli_apply_weight_decay},
    {"warmup", 0, "N", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "steps in which the learning rate grows to its value; 0 by default", cli_apply_warmup},
    {"cosine", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "then let it fall to 0 at the last step, along a cosine", cli_apply_cosine},
    {"plan", 0, "FILE", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "train by this plan (neap train with the same options made it: --save-plan) instead of making "
     "one",
     cli_apply_plan_file},
    {"save", 0, "FILE", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "write a checkpoint (safetensors) at the end; an old file is replaced in one step",
     cli_apply_save},
    {"save-every", 0, "N", CLI_GROUP_TRAIN, TRAIN_SECTION, "and after every N steps",
     cli_apply_save_every},
    {"resume", 0, "FILE", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "go on from a checkpoint, as if training had not stopped", cli_apply_resume},
    {"verify", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "train the steps with and without the plan and compare losses, gradients and weights to the "
     "bit",
     cli_apply_verify},
    {"poison", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "fill what is freed with NaNs, so that using it shows", cli_apply_poison},

    {"backend", 0, "NAME", CLI_GROUP_BACKEND, RUN_SECTION,
     "whose kernels: onednn (the default where neap was built with it), ref, or null, which "
     "computes nothing",
     cli_apply_backend},
    {"profile-cache", 0, "FILE", CLI_GROUP_BACKEND, RUN_SECTION,
     "where measured times are kept; ~/.cache/neap/profile.json by default, none for no file",
     cli_apply_profile_cache},
    {"fresh", 0, NULL, CLI_GROUP_BACKEND, RUN_SECTION, "measure again what is kept there",
     cli_apply_fresh},

    {"save-plan", 0, "FILE", CLI_GROUP_TRAIN, OUTPUT_SECTION, "write the plan", apply_output},
    {"threads", 0, "N", CLI_GROUP_PROFILE_OUT, RUN_SECTION,
     "threads that run a kernel; 0, the default, is all there are", apply_threads},
    {"output", 'o', "FILE", CLI_GROUP_PROFILE_OUT, OUTPUT_SECTION,
     "write the graph with measured times; - is standard output", apply_output},
    {"output", 'o', "FILE", CLI_GROUP_GRAPH_OUT, OUTPUT_SECTION,
     "write the graph, with times; - is standard output", apply_output},
    {"output", 'o', "FILE", CLI_GROUP_PLAN_OUT, OUTPUT_SECTION,
     "write the plan; - is standard output", apply_output},
    {"chart", 0, NULL, CLI_GROUP_CHART, OUTPUT_SECTION, "draw memory over time", apply_chart},
    {"csv", 0, "FILE", CLI_GROUP_CURVE, OUTPUT_SECTION, "write every point as a line of CSV",
     apply_csv},
    {"svg", 0, "FILE", CLI_GROUP_CURVE, OUTPUT_SECTION, "draw the curves", apply_svg},
    {"json", 0, NULL, CLI_GROUP_JSON, OUTPUT_SECTION, "print JSON, for programs", apply_json},
    {"help", 'h', NULL, CLI_GROUP_HELP, OUTPUT_SECTION, "print this", apply_help},
    {0},
};
