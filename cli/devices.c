/* devices.c - neap devices: lists the devices that built-in models can take their times from, and
   the GPUs of this machine. */

#include "command.h"
#include "csv.h"
#include "files.h"
#include "json.h"
#include "load.h"
#include "output.h"

#include <math.h>
#include <neap/cost.h>
#include <neap/run.h>

static const char *const MATH_NAMES[NEAP_MATH_COUNT] = {
    [NEAP_MATH_F32] = "f32",   [NEAP_MATH_TF32] = "tf32", [NEAP_MATH_F16] = "f16",
    [NEAP_MATH_BF16] = "bf16", [NEAP_MATH_F64] = "f64",
};

/* ---- JSON: the form --devices reads ---- */

static void add_device_json(cli_json *json, const neap_device *device)
{
    cli_json_object(json, NULL);
    cli_json_string(json, "name", device->name);
    cli_json_string(json, "summary", device->summary);
    cli_json_bool(json, "unit", device->unit);
    cli_json_integer(json, "memory", device->memory);
    cli_json_real(json, "bandwidth", device->bandwidth);
    cli_json_object(json, "flops");
    for (int math = 0; math < NEAP_MATH_COUNT; math++)
        cli_json_real(json, MATH_NAMES[math], device->flops[math]);
    cli_json_end_object(json);
    cli_json_real(json, "compute_efficiency", device->compute_efficiency);
    cli_json_real(json, "memory_efficiency", device->memory_efficiency);
    cli_json_real(json, "launch", device->launch);
    cli_json_real(json, "link_out", device->link_out);
    cli_json_real(json, "link_in", device->link_in);
    cli_json_real(json, "link_latency", device->link_latency);
    cli_json_bool(json, "duplex", device->duplex);
    cli_json_end_object(json);
}

/* ---- CSV ---- */

static void add_csv_row(cli_csv *csv, const neap_device *device)
{
    const double rates[] = {device->bandwidth,
                            device->flops[NEAP_MATH_F32],
                            device->flops[NEAP_MATH_TF32],
                            device->flops[NEAP_MATH_F16],
                            device->flops[NEAP_MATH_BF16],
                            device->flops[NEAP_MATH_F64],
                            device->compute_efficiency,
                            device->memory_efficiency,
                            device->launch,
                            device->link_out,
                            device->link_in,
                            device->link_latency};
    cli_csv_string(csv, device->name);
    cli_csv_integer(csv, device->memory);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        cli_csv_real(csv, rates[i]);
    cli_csv_bool(csv, device->duplex);
    cli_csv_string(csv, device->summary);
    cli_csv_end_row(csv);
}

/* One device, or all for NULL. */
static int write_csv(const neap_devices *devices, const neap_device *one, const char *path,
                     neap_text *out)
{
    cli_csv csv;
    cli_csv_begin(&csv, "name,memory,bandwidth,f32,tf32,f16,bf16,f64,compute_efficiency,"
                        "memory_efficiency,launch,link_out,link_in,link_latency,duplex,summary");
    if (one)
        add_csv_row(&csv, one);
    for (uint32_t i = 0; !one && i < neap_devices_count(devices); i++)
        add_csv_row(&csv, neap_devices_at(devices, i));
    return cli_csv_deliver(&csv, path, out);
}

/* ---- Text ---- */

/* A rate in units of `unit`, "-" for none. */
static const char *rate(cli_text *text, double number, double unit)
{
    if (!(number > 0))
        return cli_format(text, "-");
    if (isinf(number))
        return cli_format(text, "any");
    return cli_format(text, number / unit < 100 ? "%.3g" : "%.0f", number / unit);
}

static void add_row(cli_table *table, const neap_device *device)
{
    static const neap_math SHOWN[] = {NEAP_MATH_F32, NEAP_MATH_TF32, NEAP_MATH_F16, NEAP_MATH_BF16};
    cli_text text;
    cli_cell(table, CLI_BOLD, "%s", device->name);
    cli_cell(table, CLI_PLAIN, "%s", rate(&text, (double)device->memory, 1e9));
    cli_cell(table, CLI_PLAIN, "%s", rate(&text, device->bandwidth, 1e9));
    for (size_t i = 0; i < sizeof SHOWN / sizeof SHOWN[0]; i++)
        cli_cell(table, CLI_PLAIN, "%s", rate(&text, device->flops[SHOWN[i]], 1e12));
    cli_cell(table, CLI_PLAIN, "%s", rate(&text, device->link_out, 1e9));
    cli_cell(table, CLI_DIM, "%s", device->summary);
}

static void list_devices(const neap_devices *devices, neap_text *out)
{
    static const cli_column COLUMNS[] = {
        {"name", false, false}, {"GB", true, false},   {"GB/s", true, false},
        {"f32", true, false},   {"tf32", true, false}, {"f16", true, false},
        {"bf16", true, false},  {"link", true, false}, {"", false, false}};
    cli_table table;
    cli_table_init(&table, COLUMNS, 9, 0);
    for (uint32_t i = 0; i < neap_devices_count(devices); i++)
        add_row(&table, neap_devices_at(devices, i));
    cli_table_finish(&table, out);
    cli_styled(out, CLI_DIM,
               "f32 to bf16: peak of products in TFLOP/s. link: to host memory, in "
               "GB/s.");
    neap_text_puts(out, "\n");
}

/* ---- The backend for GPUs ---- */

static void add_gpu(cli_table *table, int index)
{
    neap_gpu gpu;
    neap_diag diag;
    cli_text text, memory;
    const char *name = cli_format(&text, "GPU %d", index);
    if (neap_cuda_describe_gpu(index, &gpu, &diag) != NEAP_OK)
        cli_fact(table, name, CLI_BAD, "unusable", "%s", diag.message);
    else
        cli_fact(table, name, CLI_GOOD, gpu.name,
                 "%s, compute capability %d.%d, %d multiprocessors", cli_bytes(&memory, gpu.memory),
                 gpu.major, gpu.minor, gpu.multiprocessors);
}

static void list_backend(neap_text *out)
{
    neap_cuda_machine machine;
    cli_table table;
    neap_cuda_describe(&machine);
    neap_text_puts(out, "\n");
    cli_styled(out, CLI_BOLD, "backend cuda");
    cli_styled(out, CLI_DIM, "  what it needs, and what is here");
    neap_text_puts(out, "\n");
    cli_facts_init(&table);
    for (int i = 0; i < machine.gpus; i++)
        add_gpu(&table, i);
    bool has_driver = *machine.libraries[0].file != '\0';
    if (machine.gpus == 0)
        cli_fact(&table, "GPU", CLI_BAD, "none", "%s", has_driver ? machine.problem : "");
    for (int i = 0; i < NEAP_CUDA_LIBRARIES; i++) {
        const neap_cuda_library *library = &machine.libraries[i];
        if (*library->file)
            cli_fact(&table, library->name, CLI_PLAIN, library->version, "%s: %s", library->purpose,
                     library->file);
        else
            cli_fact(&table, library->name, CLI_BAD, "missing", "%s: %s", library->purpose,
                     library->problem);
    }
    cli_table_finish(&table, out);
}

static void add_link(cli_table *table, const neap_device *device)
{
    cli_text text, in, latency;
    if (!(device->link_out > 0) || !(device->link_in > 0)) {
        cli_fact(table, "link", CLI_PLAIN, "none", "%s", "");
        return;
    }
    cli_fact(table, "link", CLI_PLAIN, cli_format(&text, "%.3g GB/s out", 1e-9 * device->link_out),
             "%s in, %s each, %s", cli_format(&in, "%.3g GB/s", 1e-9 * device->link_in),
             cli_seconds(&latency, device->link_latency),
             device->duplex ? "both ways at once" : "one way at a time");
}

static void describe(const neap_device *device, neap_text *out)
{
    cli_text text, size;
    cli_table table;
    cli_styled(out, CLI_BOLD, "%s", device->name);
    cli_styled(out, CLI_DIM, "  %s", device->summary);
    neap_text_puts(out, "\n");
    cli_facts_init(&table);
    if (device->memory > 0)
        cli_fact(&table, "memory", CLI_PLAIN,
                 cli_format(&text, "%.4g GB", 1e-9 * (double)device->memory), "%s",
                 cli_bytes(&size, device->memory));
    if (device->unit) {
        cli_fact(&table, "times", CLI_PLAIN, "1 s an op", "views take none");
    } else {
        if (isinf(device->bandwidth))
            cli_fact(&table, "bandwidth", CLI_PLAIN, "no limit", "memory traffic takes no time");
        else
            cli_fact(&table, "bandwidth", CLI_PLAIN,
                     cli_format(&text, "%.4g GB/s", 1e-9 * device->bandwidth),
                     "%.0f%% of it reached", 100 * device->memory_efficiency);
        for (int math = 0; math < NEAP_MATH_COUNT; math++)
            if (device->flops[math] > 0)
                cli_fact(&table, MATH_NAMES[math], CLI_PLAIN,
                         cli_format(&text, "%.4g TFLOP/s", 1e-12 * device->flops[math]),
                         "%.0f%% of it reached", 100 * device->compute_efficiency);
        cli_fact(&table, "launch", CLI_PLAIN, cli_seconds(&text, device->launch),
                 "what an op costs besides");
    }
    add_link(&table, device);
    cli_table_finish(&table, out);
}

/* ---- The command ---- */

static int print_all(const neap_devices *devices, const cli_settings *settings, neap_text *out)
{
    int code = settings->csv ? write_csv(devices, NULL, settings->csv, out) : CLI_OK;
    if (code != CLI_OK || cli_stdout_taken(settings))
        return code;
    if (!settings->json) {
        list_devices(devices, out);
        list_backend(out);
        return CLI_OK;
    }
    cli_json json;
    cli_json_begin(&json, out);
    cli_json_array(&json, NULL);
    for (uint32_t i = 0; i < neap_devices_count(devices); i++)
        add_device_json(&json, neap_devices_at(devices, i));
    cli_json_end_array(&json);
    return CLI_OK;
}

static int print_one(const neap_devices *devices, const cli_settings *settings, neap_text *out)
{
    const neap_device *device = cli_find_device(devices, settings->operands[0]);
    if (!device)
        return CLI_BAD_INPUT;
    int code = settings->csv ? write_csv(devices, device, settings->csv, out) : CLI_OK;
    if (code != CLI_OK || cli_stdout_taken(settings))
        return code;
    if (settings->json) {
        cli_json json;
        cli_json_begin(&json, out);
        add_device_json(&json, device);
    } else {
        describe(device, out);
    }
    return CLI_OK;
}

static int run_devices(const cli_settings *settings, neap_text *out)
{
    neap_devices *devices;
    int code = cli_load_devices(settings, &devices);
    if (code != CLI_OK)
        return code;
    code = settings->n_operands > 0 ? print_one(devices, settings, out)
                                    : print_all(devices, settings, out);
    neap_devices_destroy(devices);
    return code;
}

const cli_command cli_command_devices = {
    .name = "devices",
    .operands = "[NAME]",
    .summary = "list the devices to plan for, and the GPU libraries found here",
    .about = "Lists the devices for --device. An op takes the longer of its arithmetic and its "
             "memory traffic, at the fraction of the device's peak rates that kernels reach, plus "
             "the time of a launch. Device flops counts only arithmetic, 1 s for 10^12 operations; "
             "device unit gives every op 1 s. To add a device or correct one of these, write a "
             "file for --devices or NEAP_DEVICES (several paths, separated by colons). Measured "
             "times come in a graph file instead. Below the list it says which GPUs and which of "
             "NVIDIA's libraries backend cuda finds on this machine, and how to get what is "
             "missing; NEAP_CUDA_PATH names the folders of libraries in other places.",
    .examples =
        {
            {"neap devices", "all of them"},
            {"neap devices h200", "one, with its link to the host"},
            {"neap devices --devices mine.json --json", "with those of a file, for a script"},
        },
    .groups = CLI_GROUP_DEVICES | CLI_GROUP_CSV | CLI_GROUP_JSON,
    .least_operands = 0,
    .most_operands = 1,
    .run = run_devices,
};
