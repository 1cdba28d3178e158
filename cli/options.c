#include "options.h"

#include "memory.h"
#include "output.h"
#include "parse_values.h"

#include <neap/data.h>
#include <neap/onnx.h>
#include <neap/run.h>
#include <neap/text.h>
#include <string.h>

/* ---- The settings ---- */

bool cli_settings_init(cli_settings *settings, int argument_count)
{
    size_t capacity = 2 * (size_t)argument_count + 2; /* --image makes two sizes */
    *settings = (cli_settings){.capacity = capacity, .link_latency = -1};
    settings->operands = cli_memory_new(capacity, sizeof *settings->operands);
    settings->given = cli_memory_new(capacity, sizeof *settings->given);
    settings->sizes = cli_memory_new(capacity, sizeof *settings->sizes);
    settings->device_files = cli_memory_new(capacity, sizeof *settings->device_files);
    settings->frozen = cli_memory_new(capacity, sizeof *settings->frozen);
    settings->options = cli_memory_new(capacity, sizeof *settings->options);
    settings->pins = cli_memory_new(capacity, sizeof *settings->pins);
    if (settings->operands && settings->given && settings->sizes && settings->device_files &&
        settings->frozen && settings->options && settings->pins)
        return true;
    cli_settings_clear(settings);
    return false;
}

void cli_settings_clear(cli_settings *settings)
{
    size_t capacity = settings->capacity;
    cli_memory_release(settings->operands, capacity, sizeof *settings->operands);
    cli_memory_release(settings->given, capacity, sizeof *settings->given);
    cli_memory_release(settings->sizes, capacity, sizeof *settings->sizes);
    cli_memory_release(settings->device_files, capacity, sizeof *settings->device_files);
    cli_memory_release(settings->frozen, capacity, sizeof *settings->frozen);
    cli_memory_release(settings->options, capacity, sizeof *settings->options);
    cli_memory_release(settings->pins, capacity, sizeof *settings->pins);
    *settings = (cli_settings){0};
}

bool cli_is_given(const cli_settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->n_given; i++)
        if (strcmp(settings->given[i]->name, name) == 0)
            return true;
    return false;
}

const char *cli_given_of(const cli_settings *settings, uint64_t groups)
{
    for (size_t i = 0; i < settings->n_given; i++)
        if (settings->given[i]->group & groups)
            return settings->given[i]->name;
    return NULL;
}

/* ---- Setters that many options share: the value goes to option->field ---- */

static void *field_of(const cli_option *option, cli_settings *settings)
{
    return (char *)settings + option->field;
}

static int set_flag(const cli_option *option, cli_settings *s, const char *value)
{
    (void)value;
    *(bool *)field_of(option, s) = true;
    return CLI_OK;
}

static int set_text(const cli_option *option, cli_settings *s, const char *value)
{
    *(const char **)field_of(option, s) = value;
    return CLI_OK;
}

static int set_count(const cli_option *option, cli_settings *s, const char *value)
{
    int64_t *number = field_of(option, s);
    if (cli_parse_integer(value, number) && *number >= option->least &&
        (option->most == 0 || *number <= option->most))
        return CLI_OK;
    if (option->most > 0)
        return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a whole number from %lld to %lld",
                        option->name, value, (long long)option->least, (long long)option->most);
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a whole number of %lld or more",
                    option->name, value, (long long)option->least);
}

static int set_real(const cli_option *option, cli_settings *s, const char *value)
{
    double *number = field_of(option, s);
    if (cli_parse_real(value, number) && *number >= 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a number of 0 or more", option->name, value);
}

static int set_choice(const cli_option *option, cli_settings *s, const char *value)
{
    neap_text names = {0};
    for (const cli_choice *choice = option->choices; choice->name; choice++) {
        if (strcmp(choice->name, value) == 0) {
            *(int *)field_of(option, s) = choice->value;
            neap_text_clear(&names);
            return CLI_OK;
        }
        neap_text_printf(&names, "%s%s", names.length ? ", " : "", choice->name);
    }
    cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not one of %s", option->name, value,
             neap_text_get(&names));
    neap_text_clear(&names);
    return CLI_BAD_INPUT;
}

/* ---- Setters of one option each ---- */

static neap_model_setting *find_size(const cli_settings *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_sizes; i++)
        if (strcmp(s->sizes[i].name, name) == 0)
            return &s->sizes[i];
    return NULL;
}

/* A size given twice has the later value. */
static void add_size(cli_settings *s, const char *name, int64_t value)
{
    neap_model_setting *old = find_size(s, name);
    if (old)
        old->value = value;
    else
        s->sizes[s->n_sizes++] = (neap_model_setting){name, value};
}

static int set_size(const cli_option *option, cli_settings *s, const char *value)
{
    int64_t number;
    if (!cli_parse_integer(value, &number) || number < 1)
        return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a whole number of 1 or more",
                        option->name, value);
    add_size(s, option->name, number);
    return CLI_OK;
}

static int set_image(const cli_option *option, cli_settings *s, const char *value)
{
    int64_t height, width;
    if (!cli_parse_image(value, &height, &width) || height < 1 || width < 1)
        return cli_fail(CLI_BAD_INPUT,
                        "--%s \"%s\" is not a size in pixels, such as 416 or 416x608 (HxW)",
                        option->name, value);
    add_size(s, "image", height);
    if (strchr(value, 'x') || find_size(s, "image_w"))
        add_size(s, "image_w", width);
    return CLI_OK;
}

static int set_any_size(const cli_option *option, cli_settings *s, const char *name)
{
    const char *value = name + strlen(name) + 1;
    int64_t number;
    if (!cli_parse_integer(value, &number))
        return cli_fail(CLI_BAD_INPUT, "--%s %s=%s: the value is not a whole number", option->name,
                        name, value);
    add_size(s, name, number);
    return CLI_OK;
}

static int set_dtype(const cli_option *option, cli_settings *s, const char *value)
{
    int code = set_choice(option, s, value); /* a neap_dtype */
    s->math = strcmp(value, "tf32") == 0 ? NEAP_MATH_TF32 : NEAP_MATH_F32;
    return code;
}

static int add_device_file(const cli_option *option, cli_settings *s, const char *value)
{
    (void)option;
    s->device_files[s->n_device_files++] = value;
    return CLI_OK;
}

static int add_frozen(const cli_option *option, cli_settings *s, const char *value)
{
    (void)option;
    s->frozen[s->n_frozen++] = value;
    return CLI_OK;
}

static int set_link_latency(const cli_option *option, cli_settings *s, const char *value)
{
    if (cli_parse_seconds(value, &s->link_latency))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a time, such as 10us or 0.5ms", option->name,
                    value);
}

static int set_host_memory(const cli_option *option, cli_settings *s, const char *value)
{
    if (neap_bytes_parse(value, &s->host_memory, NULL) == NEAP_OK && s->host_memory > 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a size, such as 64GiB", option->name, value);
}

static int set_split(const cli_option *option, cli_settings *s, const char *value)
{
    if (neap_bytes_parse(value, &s->split, NULL) == NEAP_OK && s->split > 0)
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a size, such as 64MiB", option->name, value);
}

static int add_method_option(const cli_option *option, cli_settings *s, const char *name)
{
    (void)option;
    s->options[s->n_options++] = (neap_option_setting){name, name + strlen(name) + 1};
    return CLI_OK;
}

static int set_time_limit(const cli_option *option, cli_settings *s, const char *value)
{
    s->time_limit = 0;
    if (strcmp(value, "none") == 0 ||
        (cli_parse_seconds(value, &s->time_limit) && s->time_limit > 0))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT,
                    "--%s \"%s\" is not a time above 0, such as 30s or 5min, and not none",
                    option->name, value);
}

static int set_threads(const cli_option *option, cli_settings *s, const char *value)
{
    s->threads = 0;
    return strcmp(value, "all") == 0 ? CLI_OK : set_count(option, s, value);
}

static int set_seed(const cli_option *option, cli_settings *s, const char *value)
{
    if (cli_parse_unsigned(value, &s->seed))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a whole number from 0 to 2^64-1",
                    option->name, value);
}

static int set_gap(const cli_option *option, cli_settings *s, const char *value)
{
    if (cli_parse_percent(value, &s->gap) ||
        (cli_parse_real(value, &s->gap) && s->gap >= 0 && s->gap < 1))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT, "--%s \"%s\" is not a fraction below 1, such as 1%% or 0.01",
                    option->name, value);
}

/* option->least is a neap_pin_kind. */
static int add_pin(const cli_option *option, cli_settings *s, const char *value)
{
    s->pins[s->n_pins++] = (neap_pin){(neap_pin_kind)option->least, value};
    return CLI_OK;
}

static int set_extra_forward(const cli_option *option, cli_settings *s, const char *value)
{
    s->extra_forward = -1;
    if (strcmp(value, "any") == 0 ||
        (cli_parse_real(value, &s->extra_forward) && s->extra_forward >= 0))
        return CLI_OK;
    return cli_fail(CLI_BAD_INPUT,
                    "--%s \"%s\" is not a number of forward passes, such as 1 or 0.5, and not any",
                    option->name, value);
}

static int set_profile_cache(const cli_option *option, cli_settings *s, const char *value)
{
    if (strcmp(value, "-") == 0)
        return cli_fail(CLI_BAD_INPUT, "--%s takes the name of a file, or none", option->name);
    s->profile_cache = value;
    return CLI_OK;
}

/* ---- Lists for the help ---- */

/* The separator in front of item `i` of `count`. */
static const char *separator(uint32_t i, uint32_t count)
{
    return i == 0 ? "" : i + 1 < count ? ", " : " or ";
}

static void list_backends(neap_text *out)
{
    uint32_t count = neap_backends_count();
    for (uint32_t i = 0; i < count; i++) {
        const char *name = neap_backends_name(i);
        bool is_default = strcmp(name, neap_backends_default()) == 0;
        neap_text_printf(out, "%s%s%s", separator(i, count), name,
                         is_default ? " (the default)" : "");
    }
}

static void list_measured_backends(neap_text *out)
{
    uint32_t count = neap_backends_count();
    for (uint32_t i = 0; i < count; i++)
        neap_text_printf(out, "%s%s", separator(i, count), neap_backends_name(i));
}

static void list_datasets(neap_text *out)
{
    uint32_t count = neap_datasets_count();
    for (uint32_t i = 0; i < count; i++)
        neap_text_printf(out, "%s%s", separator(i, count), neap_datasets_form(i));
}

/* ---- The table ---- */

#define MODEL_SECTION  "Built-in models (neap models NAME lists what one takes)"
#define ONNX_SECTION   "ONNX files"
#define DEVICE_SECTION "Times"
#define LINK_SECTION   "Host memory"
#define PLAN_SECTION   "Planning"
#define BATCH_SECTION  "The largest batch"
#define RUN_SECTION    "Kernels"
#define TRAIN_SECTION  "Training"
#define OUTPUT_SECTION "Output"

#define FIELD(setter, member) .set = setter, .field = offsetof(cli_settings, member)
#define TEXT(member)          FIELD(set_text, member)
#define FLAG(member)          FIELD(set_flag, member)
#define REAL(member)          FIELD(set_real, member)
#define COUNT(member, from)   FIELD(set_count, member), .least = (from)
#define DEFAULT(text)         .defaults = {{NULL, text, NULL}}
#define STRING(macro)         STRING_OF(macro)
#define STRING_OF(text)       #text

/* Threads that a machine may have, by far. */
#define MOST_THREADS 65536

const cli_option cli_options[] = {
    {"budget", 0, "SIZE", CLI_GROUP_BUDGET, PLAN_SECTION,
     "memory for the whole training step: a size such as 8GiB or 5e9 (bytes), or a percentage of "
     "what the step needs without a plan",
     TEXT(budget)},
    {"budget", 0, "SIZE", CLI_GROUP_MAX_BATCH, PLAN_SECTION,
     "memory for the whole training step: a size such as 16GB, 8GiB or 5e9 (bytes)", TEXT(budget)},
    {"method", 0, "NAME,...", CLI_GROUP_SOLVE, PLAN_SECTION,
     "methods to plan by (neap methods lists them), separated by commas, or all", TEXT(method),
     .defaults = {{"compare", "all", NULL},
                  {"curve", "all", NULL},
                  {"train", "neap", "neap; store-all without --budget"},
                  {NULL, "neap", NULL}}},
    {"objective", 0, "WHAT", CLI_GROUP_OBJECTIVE, PLAN_SECTION, "what the best plan is",
     FIELD(set_choice, objective),
     .choices = {{"time", "the fastest in the budget", CLI_OBJECTIVE_TIME},
                 {"peak", "the least memory; needs no budget", CLI_OBJECTIVE_PEAK},
                 {"batch", "the largest batch in the budget; plan only", CLI_OBJECTIVE_BATCH}},
     DEFAULT("time")},
    {"budgets", 0, "SIZE,...", CLI_GROUP_CURVE, PLAN_SECTION,
     "plan at these budgets, such as 30%,50%,8GiB", TEXT(budgets)},
    {"points", 0, "N", CLI_GROUP_CURVE, PLAN_SECTION, "or at this many, evenly spaced",
     COUNT(points, 2), .most = 1000, DEFAULT("9")},
    {"points", 0, "N", CLI_GROUP_PAGE, PLAN_SECTION,
     "budgets of the trade-off curve, between the least that any plan needs and what the step "
     "needs "
     "without a plan; 0: no curve",
     COUNT(points, 0), .most = 1000, .defaults = {{"report", "6", NULL}}},
    {"plan", 0, "FILE", CLI_GROUP_PAGE, PLAN_SECTION,
     "report on this plan, which neap plan -o wrote with the same options, instead of planning",
     TEXT(plan_file)},
    {"from", 0, "SIZE", CLI_GROUP_CURVE, PLAN_SECTION, "the smallest of them", TEXT(from),
     DEFAULT("20%")},
    {"to", 0, "SIZE", CLI_GROUP_CURVE, PLAN_SECTION, "the largest of them", TEXT(to),
     DEFAULT("100%")},
    {"keep", 0, "PATTERN", CLI_GROUP_CONSTRAINT, PLAN_SECTION,
     "keep matching tensors in memory until their last use; PATTERN is the name of a tensor or of "
     "the op that makes it, * and ? match any characters; may be repeated",
     .set = add_pin, .least = NEAP_PIN_KEEP},
    {"never-recompute", 0, "PATTERN", CLI_GROUP_CONSTRAINT, PLAN_SECTION,
     "compute matching tensors only once; may be repeated", .set = add_pin,
     .least = NEAP_PIN_NO_RECOMPUTE},
    {"never-offload", 0, "PATTERN", CLI_GROUP_CONSTRAINT, PLAN_SECTION,
     "never move matching tensors to host memory; may be repeated", .set = add_pin,
     .least = NEAP_PIN_NO_OFFLOAD},
    {"start", 0, "PLAN", CLI_GROUP_CONSTRAINT, PLAN_SECTION,
     "start from this plan for the same graph, whatever its budget", TEXT(start)},
    {"gap", 0, "FRACTION", CLI_GROUP_GAP, PLAN_SECTION,
     "stop once the plan is proven within this fraction of the optimum, such as 1% or 0.005",
     .set = set_gap, DEFAULT("0")},
    {"option", 0, "NAME=VALUE", CLI_GROUP_SOLVE, PLAN_SECTION,
     "set an option of a method (neap methods NAME lists them); may be repeated",
     .set = add_method_option, .is_pair = true},
    {"time-limit", 0, "TIME", CLI_GROUP_SOLVE, PLAN_SECTION,
     "stop a method after this time, such as 30s or 5min, and use its best plan so far; reading "
     "the "
     "graph and assigning addresses are included",
     .set = set_time_limit,
     .defaults = {{"train", "10s", NULL},
                  {"compare", "10s", NULL},
                  {"explain", "15s", "15s for all plans together"},
                  {"curve", "10s", "10s for each budget"},
                  {"report", "10s", "10s for each budget"},
                  {"max-batch", "10s", "none for one method, 10s for each of several"},
                  {NULL, "none", NULL}}},
    {"log", 0, NULL, CLI_GROUP_SEARCH_LOG, PLAN_SECTION,
     "write a line on stderr whenever the best plan or the bound improves", FLAG(log)},
    {"log-search", 0, NULL, CLI_GROUP_TRAIN, PLAN_SECTION,
     "write a line on stderr whenever the best plan or the bound improves", FLAG(log)},
    {"threads", 0, "N", CLI_GROUP_SOLVE, PLAN_SECTION,
     "number of threads; without a time limit the plan does not depend on it",
     FIELD(set_threads, threads), .most = MOST_THREADS, DEFAULT("all")},
    {"seed", 0, "N", CLI_GROUP_SOLVE, PLAN_SECTION,
     "seed of the random numbers that some methods use, and training", .set = set_seed,
     DEFAULT("0")},
    {"alignment", 0, "BYTES", CLI_GROUP_SOLVE, PLAN_SECTION,
     "make every address a multiple of this", COUNT(alignment, 1),
     .defaults = {{"train", STRING(NEAP_RUN_ALIGNMENT), NULL},
                  {NULL, "1", "1; " STRING(NEAP_RUN_ALIGNMENT) " with measured kernels"}}},
    {"in-place", 0, "WHETHER", CLI_GROUP_SOLVE, PLAN_SECTION,
     "run ops in place wherever their input is not needed any more",
     FIELD(set_choice, out_of_place),
     .choices = {{"yes", NULL, 0}, {"no", "as most papers count memory", 1}}, DEFAULT("yes")},
    {"state", 0, "PLACE", CLI_GROUP_SOLVE, PLAN_SECTION,
     "where parameters and optimizer state are between their uses", FIELD(set_choice, state),
     .choices = {{"auto", "on the device; with --link, wherever that is faster", NEAP_STATE_AUTO},
                 {"device", "always on the device", NEAP_STATE_DEVICE},
                 {"host", "on the host when the step begins and ends; needs --link",
                  NEAP_STATE_HOST}},
     DEFAULT("auto")},
    {"split", 0, "SIZE", CLI_GROUP_SPLIT, PLAN_SECTION,
     "put values larger than this into pieces of at most this size, such as 16MiB, each of which "
     "is "
     "moved and freed by itself",
     .set = set_split},
    {"any-graph", 0, NULL, CLI_GROUP_ANY_GRAPH, PLAN_SECTION,
     "accept a plan made for a graph of another name", FLAG(any_graph)},

    {"extra-forward", 0, "N", CLI_GROUP_BATCHES, BATCH_SECTION,
     "how much longer than one run of every op the step may take, in forward passes; any for no "
     "limit",
     .set = set_extra_forward, DEFAULT("1")},
    {"batch-of", 0, "N", CLI_GROUP_BATCHES, BATCH_SECTION,
     "the batch that a graph file was made for: everything except the parameters scales with the "
     "batch",
     COUNT(batch_of, 1)},
    {"beyond", 0, "N", CLI_GROUP_BATCHES, BATCH_SECTION,
     "also try this many batches after the first that fails", COUNT(beyond, 0), DEFAULT("0")},

    {"batch", 0, "N", CLI_GROUP_BATCH, MODEL_SECTION, "images or sequences in a batch",
     .set = set_size},
    {"image", 0, "H[xW]", CLI_GROUP_MODEL, MODEL_SECTION,
     "image size in pixels, such as 224 or 416x608", .set = set_image},
    {"seq", 0, "N", CLI_GROUP_MODEL, MODEL_SECTION, "sequence length", .set = set_size},
    {"set", 0, "NAME=N", CLI_GROUP_MODEL, MODEL_SECTION,
     "set any size of the model, such as layers=48, or one that an ONNX file leaves open, by its "
     "name there; may be repeated",
     .set = set_any_size, .is_pair = true},
    {"dtype", 0, "TYPE", CLI_GROUP_DTYPE, MODEL_SECTION, "number type", FIELD(set_dtype, dtype),
     .choices = {{"f32", NULL, NEAP_F32},
                 {"tf32", "f32 in memory, tf32 in matrix products", NEAP_F32},
                 {"f16", NULL, NEAP_F16},
                 {"bf16", NULL, NEAP_BF16}},
     DEFAULT("f32")},
    {"optimizer", 0, "NAME", CLI_GROUP_OPTIMIZER, MODEL_SECTION,
     "optimizer, whose updates and state are part of the step; a graph file may have its own",
     FIELD(set_choice, optimizer),
     .choices = {{"none", "the step ends with the gradients", NEAP_OPTIMIZER_NONE},
                 {"sgd", NULL, NEAP_OPTIMIZER_SGD},
                 {"momentum", NULL, NEAP_OPTIMIZER_MOMENTUM},
                 {"adam", NULL, NEAP_OPTIMIZER_ADAM},
                 {"adamw", NULL, NEAP_OPTIMIZER_ADAMW}},
     .defaults = {{"train", "sgd", NULL}, {NULL, "none", NULL}}},
    {"clip-norm", 0, "X", CLI_GROUP_OPTIMIZER, MODEL_SECTION,
     "scale gradients down to this norm over all parameters; keeps all of them to the end",
     REAL(clip_norm), DEFAULT("0")},
    {"accumulate", 0, "N", CLI_GROUP_OPTIMIZER, MODEL_SECTION,
     "micro-batches of a step: the plan runs once for each, and the last run updates",
     COUNT(accumulate, 1), .most = INT32_MAX, DEFAULT("1")},
    {"kernels", 0, "KIND", CLI_GROUP_MODEL, MODEL_SECTION, "what the ops of the backward pass read",
     FIELD(set_choice, kernels),
     .choices = {{"lean", "only what they need", NEAP_KERNELS_LEAN},
                 {"torch", "what PyTorch's kernels read", NEAP_KERNELS_TORCH},
                 {"layer",
                  "all inputs and outputs of their layer, as Checkmate assumes; only to plan",
                  NEAP_KERNELS_LAYER}},
     DEFAULT("lean")},

    {"loss", 0, "NAME", CLI_GROUP_ONNX, ONNX_SECTION,
     "loss on the output; an output of one number is the loss itself", FIELD(set_choice, loss),
     .choices = {{"cross-entropy", "against labels", NEAP_ONNX_CROSS_ENTROPY},
                 {"mse", "mean squared error, against targets", NEAP_ONNX_MSE},
                 {"none", "the output is the loss", NEAP_ONNX_NO_LOSS}},
     DEFAULT("cross-entropy")},
    {"loss-output", 0, "NAME", CLI_GROUP_ONNX, ONNX_SECTION,
     "the output that the loss is put on, or that is the loss", TEXT(loss_output),
     .defaults = {{NULL, NULL, "the first"}}},
    {"freeze", 0, "PATTERN", CLI_GROUP_ONNX, ONNX_SECTION,
     "keep the values of parameters whose name in the file matches; * and ? match any characters; "
     "may be repeated",
     .set = add_frozen},
    {"train-dropout", 0, NULL, CLI_GROUP_ONNX, ONNX_SECTION,
     "let Dropout nodes drop; they do nothing otherwise", FLAG(train_dropout)},
    {"batch-norm", 0, "HOW", CLI_GROUP_ONNX, ONNX_SECTION,
     "whose mean and variance batch normalization uses", FIELD(set_choice, batch_norm),
     .choices = {{"auto", "train if the file was exported for training, else frozen",
                  NEAP_ONNX_BATCH_NORM_AS_EXPORTED},
                 {"train", "those of the batch", NEAP_ONNX_BATCH_NORM_TRAIN},
                 {"frozen", "those of the file", NEAP_ONNX_BATCH_NORM_FROZEN}},
     DEFAULT("auto")},

    {"device", 0, "NAME", CLI_GROUP_DEVICE, DEVICE_SECTION,
     "use this device's times (neap devices lists them), also in place of a graph file's own",
     TEXT(device), .defaults = {{NULL, "h200", "h200 for a built-in model or an ONNX file"}}},
    {"devices", 0, "FILE", CLI_GROUP_DEVICES, DEVICE_SECTION,
     "read more devices from a file; may be repeated (NEAP_DEVICES=A:B does the same)",
     .set = add_device_file},

    {"link", 0, "RATE", CLI_GROUP_LINK, LINK_SECTION,
     "allow transfers to host memory at this rate: 12.2GB/s; 12GB/s,13GB/s for out and in; or "
     "device, for the device's own link; or measured, on a GPU's backend",
     TEXT(link)},
    {"duplex", 0, NULL, CLI_GROUP_LINK, LINK_SECTION,
     "allow one transfer each way at the same time", FLAG(duplex)},
    {"link-latency", 0, "TIME", CLI_GROUP_LINK, LINK_SECTION,
     "fixed time of each transfer, such as 10us", .set = set_link_latency},
    {"host-memory", 0, "SIZE", CLI_GROUP_LINK, LINK_SECTION, "most that the host may hold",
     .set = set_host_memory},

    {"steps", 0, "N", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "steps in total, including those before --resume", COUNT(steps, 1), .most = INT64_MAX / 4,
     DEFAULT("10")},
    {"data", 0, "SPEC", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "data set: %s; images:DIR has a folder of PNG or PPM files for each class",
     .list = list_datasets, TEXT(data), DEFAULT("synthetic")},
    {"rate", 0, "X", CLI_GROUP_TRAIN, TRAIN_SECTION, "learning rate", REAL(learning_rate),
     .defaults = {{NULL, "0.01", "0.01; " STRING(CLI_ADAM_RATE) " for adam and adamw"}}},
    {"momentum", 0, "X", CLI_GROUP_TRAIN, TRAIN_SECTION, "momentum of --optimizer momentum",
     REAL(momentum), DEFAULT("0.9")},
    {"weight-decay", 0, "X", CLI_GROUP_TRAIN, TRAIN_SECTION, "weight decay", REAL(weight_decay),
     DEFAULT("0")},
    {"warmup", 0, "N", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "steps over which the learning rate rises to its value", COUNT(warmup, 0),
     .most = INT64_MAX / 4, DEFAULT("0")},
    {"cosine", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "then lower it along a cosine, to 0 at the last step", FLAG(cosine)},
    {"plan", 0, "FILE", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "train by this plan, which --save-plan wrote with the same options", TEXT(plan_file)},
    {"save", 0, "FILE", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "write a checkpoint (safetensors) at the end or, for an ONNX file, FILE.onnx with the trained "
     "weights; an old file is replaced in one step",
     TEXT(save)},
    {"save-every", 0, "N", CLI_GROUP_TRAIN, TRAIN_SECTION, "write it after every N steps, too",
     COUNT(save_every, 1), .most = INT64_MAX / 4},
    {"resume", 0, "FILE", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "continue exactly where this checkpoint left off", TEXT(resume)},
    {"verify", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "train with and without the plan, and compare losses, weights and state bit for bit",
     FLAG(verify)},
    {"pace", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "let transfers take as long as on --link, even if this machine copies faster", FLAG(pace)},
    {"poison", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "fill freed memory with NaNs, so that any use of it shows", FLAG(poison)},
    {"stress", 0, "SEED", CLI_GROUP_TRAIN, TRAIN_SECTION,
     "delay kernels of a GPU, and copies, at random; the results do not change", COUNT(stress, 1),
     .most = INT64_MAX},
    {"device-memory", 0, NULL, CLI_GROUP_TRAIN, TRAIN_SECTION,
     "show what of the GPU's memory is in use beside the arena", FLAG(device_memory)},

    {"backend", 0, "NAME", CLI_GROUP_KERNELS, RUN_SECTION, "whose kernels to run: %s",
     .list = list_backends, TEXT(backend)},
    {"backend", 0, "NAME", CLI_GROUP_MEASURED, RUN_SECTION,
     "measure the kernels of a backend on this machine, instead of taking the times of --device: "
     "%s",
     .list = list_measured_backends, TEXT(backend)},
    {"gpu", 0, "N", CLI_GROUP_BACKEND, RUN_SECTION, "backend cuda: which GPU, from 0",
     COUNT(gpu, 0), .most = 1023, DEFAULT("0")},
    {"nondeterministic", 0, NULL, CLI_GROUP_BACKEND, RUN_SECTION,
     "backend cuda: use library kernels too whose bits vary from run to run",
     FLAG(nondeterministic)},
    {"threads", 0, "N", CLI_GROUP_PROFILE_OUT, RUN_SECTION, "number of threads that run a kernel",
     FIELD(set_threads, threads), .most = MOST_THREADS, DEFAULT("all")},
    {"link", 0, "measured", CLI_GROUP_PROFILE_OUT, RUN_SECTION,
     "backend cuda: measure the link to host memory, too; times are then those of kernels beside "
     "copies",
     TEXT(link)},
    {"profile-cache", 0, "FILE", CLI_GROUP_BACKEND, RUN_SECTION,
     "file that keeps the measured times; none for no file", .set = set_profile_cache,
     .defaults = {{NULL, NULL, "neap/profile.json in $XDG_CACHE_HOME or ~/.cache"}}},
    {"fresh", 0, NULL, CLI_GROUP_BACKEND, RUN_SECTION, "measure again what that file has",
     FLAG(fresh)},
    {"repetitions", 0, "N", CLI_GROUP_BACKEND, RUN_SECTION,
     "runs of each kernel that is measured, more where they are short; 1: a single one, quick and "
     "rough",
     COUNT(repetitions, 1), .most = 1000, DEFAULT("5")},

    {"save-plan", 0, "FILE", CLI_GROUP_TRAIN, OUTPUT_SECTION, "write the plan to a file",
     TEXT(output)},
    {"log", 0, "FILE", CLI_GROUP_TRAIN, OUTPUT_SECTION,
     "write a line of JSON after each step: loss, learning rate, times; --resume appends to it",
     TEXT(log_file)},
    {"trace", 0, "FILE", CLI_GROUP_TRACE, OUTPUT_SECTION,
     "write the plan's timeline as a trace for Perfetto or Chrome: ops, copies, memory",
     TEXT(trace)},
    {"trace", 0, "FILE", CLI_GROUP_TRAIN, OUTPUT_SECTION,
     "write the last step as a trace for Perfetto or Chrome: ops, copies, memory", TEXT(trace)},
    {"save-memory", 0, "FILE", CLI_GROUP_TRAIN, OUTPUT_SECTION,
     "write the planned and the measured memory of each step of the plan as CSV; freed memory then "
     "goes back to the system at once, which takes time",
     TEXT(memory_file)},
    {"output", 'o', "FILE", CLI_GROUP_PROFILE_OUT, OUTPUT_SECTION,
     "write the graph with measured times to a file; - is standard output", TEXT(output)},
    {"output", 'o', "FILE", CLI_GROUP_GRAPH_OUT, OUTPUT_SECTION,
     "write the graph with its times to a file; - is standard output", TEXT(output)},
    {"output", 'o', "FILE", CLI_GROUP_PLAN_OUT, OUTPUT_SECTION,
     "write the plan to a file; - is standard output", TEXT(output)},
    {"output", 'o', "FILE", CLI_GROUP_PAGE, OUTPUT_SECTION,
     "write the report to this file; - is standard output", TEXT(output),
     .defaults = {{NULL, NULL, "GRAPH.html, by the name of the graph, in the current folder"}}},
    {"report", 0, "FILE", CLI_GROUP_REPORT, OUTPUT_SECTION,
     "write a report as a web page, with charts and every step; - is standard output",
     TEXT(report)},
    {"chart", 0, NULL, CLI_GROUP_CHART, OUTPUT_SECTION, "draw a chart, as wide as the terminal",
     FLAG(chart)},
    {"csv", 0, "FILE", CLI_GROUP_CSV, OUTPUT_SECTION,
     "write the table as CSV; - is standard output", TEXT(csv)},
    {"svg", 0, "FILE", CLI_GROUP_SVG, OUTPUT_SECTION,
     "draw a picture for papers as SVG; - is standard output", TEXT(svg)},
    {"json", 0, NULL, CLI_GROUP_JSON, OUTPUT_SECTION, "print JSON, for programs", FLAG(json)},
    {"help", 'h', NULL, CLI_GROUP_HELP, OUTPUT_SECTION, "print this help", FLAG(help)},
    {0},
};
