/* doctor_checks.c - what neap doctor runs. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "doctor.h"

#include "child.h"
#include "doctor_samples.h"
#include "memory.h"
#include "output.h"

#include <errno.h>
#include <neap/components.h>
#include <neap/cost.h>
#include <neap/data.h>
#include <neap/models.h>
#include <neap/onnx.h>
#include <neap/solve.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Differences of f32 results that have other orders of summation, and those of tensor cores. */
static const double MOST_ERROR = 1e-4, MOST_GPU_ERROR = 1e-2;
static const double PYTHON_SECONDS = 30;
enum { ARENA_BYTES = 256 << 20 };

void doctor_say(doctor_finding *finding, doctor_status status, const char *detail,
                const char *remedy)
{
    finding->status = status;
    finding->detail.length = 0;
    neap_text_puts(&finding->detail, detail);
    if (remedy)
        neap_text_puts(&finding->remedy, remedy);
}

static bool is_built_in(const char *component)
{
    char version[NEAP_COMPONENT_VERSION];
    for (uint32_t i = 0; i < neap_components_count(); i++)
        if (strcmp(neap_components_name(i), component) == 0)
            return *neap_components_version(i, version, sizeof version) != '\0';
    return false;
}

/* ---- Planning ---- */

/* Plans a chain of 8 layers in half of its memory, which every method can. */
static void plan_chain(doctor_finding *finding, const char *method)
{
    neap_graph *graph = NULL;
    neap_devices *devices = NULL;
    neap_solution *solution = NULL;
    neap_model_options options;
    neap_request request;
    neap_diag diag;
    cli_text text;
    neap_model_options_init(&options);
    options.n_settings = 1;
    options.settings = &(neap_model_setting){"layers", 8};
    neap_status status = neap_model_build(NULL, neap_models_find("chain"), &options, &graph, &diag);
    if (status == NEAP_OK)
        status = neap_devices_create(NULL, &devices, &diag);
    if (status == NEAP_OK)
        status = neap_cost_apply(graph, neap_devices_find(devices, "unit"), NEAP_MATH_F32, &diag);
    if (status == NEAP_OK) {
        neap_request_init(&request, graph, method);
        request.budget = 5;
        request.time_limit = 10;
        status = neap_solve(NULL, &request, &solution, &diag);
    }
    if (status != NEAP_OK)
        doctor_say(finding, DOCTOR_FAILED, diag.message, "build neap again: make test finds why");
    else if (!neap_solution_plan(solution))
        doctor_say(finding, DOCTOR_FAILED, neap_solution_message(solution),
                   "build neap again: make test finds why");
    else
        doctor_say(finding, DOCTOR_OK,
                   cli_format(&text, "a judged plan, overhead %.1f%%",
                              100 * neap_solution_figures(solution)->overhead),
                   NULL);
    neap_solution_destroy(solution);
    neap_devices_destroy(devices);
    neap_graph_destroy(graph);
}

static void check_planning(doctor_finding *finding)
{
    plan_chain(finding, "neap");
}

static void check_solver(doctor_finding *finding)
{
    if (is_built_in("HiGHS"))
        plan_chain(finding, "checkmate-lp");
    else
        doctor_say(finding, DOCTOR_MISSING, "this build has no HiGHS",
                   "for the checkmate methods: tools/setup.sh build, and build neap again");
}

/* ---- Kernels ---- */

static void check_step(doctor_finding *finding, const char *backend, int threads, double most,
                       const char *remedy)
{
    neap_diag diag;
    double error = 0;
    int used = 0;
    neap_text machine = {0};
    cli_text text;
    neap_status status = doctor_step(backend, threads, &error, &machine, &used, &diag);
    if (status != NEAP_OK) {
        doctor_say(finding, DOCTOR_FAILED, diag.message, remedy);
    } else if (!(error <= most)) {
        doctor_say(finding, DOCTOR_FAILED,
                   cli_format(&text, "results differ from plain C by %.2g", error), remedy);
    } else {
        finding->status = DOCTOR_OK;
        neap_text_printf(&finding->detail, "%s; equal to plain C within %.0e",
                         neap_text_get(&machine), most);
    }
    neap_text_clear(&machine);
}

static void check_kernels(doctor_finding *finding)
{
    static const char REMEDY[] = "tools/setup.sh build, and build neap again; --backend ref "
                                 "works meanwhile";
    if (is_built_in("oneDNN"))
        check_step(finding, "onednn", 1, MOST_ERROR, REMEDY);
    else
        doctor_say(finding, DOCTOR_MISSING, "this build has no oneDNN: training uses plain C",
                   REMEDY);
}

static void check_threads(doctor_finding *finding)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    neap_diag diag;
    double error = 0;
    int used = 0;
    cli_text text;
    neap_text machine = {0};
    neap_status status = doctor_step(neap_backends_default(), 0, &error, &machine, &used, &diag);
    neap_text_clear(&machine);
    if (status != NEAP_OK)
        doctor_say(finding, DOCTOR_FAILED, diag.message, "--threads 1 may work meanwhile");
    else if (!(error <= MOST_ERROR))
        doctor_say(finding, DOCTOR_FAILED,
                   cli_format(&text, "results differ from plain C by %.2g", error),
                   "--threads 1 may work meanwhile");
    else
        doctor_say(finding, DOCTOR_OK,
                   cli_format(&text, "%d thread%s on %ld processor%s", used, used == 1 ? "" : "s",
                              processors, processors == 1 ? "" : "s"),
                   NULL);
}

/* ---- Memory ---- */

static void check_memory(doctor_finding *finding)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    cli_text text, all;
    unsigned char *arena = cli_memory_resize(NULL, 0, ARENA_BYTES);
    if (!arena) {
        doctor_say(finding, DOCTOR_FAILED, "256 MiB cannot be allocated",
                   "see ulimit -v and the limits of the container");
        return;
    }
    int64_t sum = 0;
    for (size_t i = 0; i < ARENA_BYTES; i += 4096)
        arena[i] = (unsigned char)(i >> 12);
    for (size_t i = 0; i < ARENA_BYTES; i += 4096)
        sum += arena[i] == (unsigned char)(i >> 12);
    cli_memory_release(arena, ARENA_BYTES, 1);
    cli_bytes(&all, (int64_t)pages * size);
    if (sum == ARENA_BYTES / 4096)
        doctor_say(finding, DOCTOR_OK, cli_format(&text, "of %s in this machine", all.chars), NULL);
    else
        doctor_say(finding, DOCTOR_FAILED, "memory does not hold what is written to it",
                   "test the memory of this machine");
}

/* ---- Files ---- */

/* A new folder for samples; false after a finding. */
static bool make_folder(doctor_finding *finding, neap_text *path)
{
    const char *base = getenv("TMPDIR");
    neap_text_printf(path, "%s/neap-doctor-XXXXXX", base && *base ? base : "/tmp");
    if (path->status == NEAP_OK && mkdtemp(path->text))
        return true;
    doctor_say(finding, DOCTOR_FAILED, "no folder for temporary files can be made",
               "set TMPDIR to a folder that can be written to");
    return false;
}

static bool write_sample(const char *path, const unsigned char *bytes, size_t length,
                         neap_diag *diag)
{
    return neap_file_replace(path, (const char *)bytes, length, diag) == NEAP_OK;
}

/* Reads the picture as a data set of one class. */
static neap_status read_picture(const char *folder, float *pixels, neap_diag *diag)
{
    neap_dataset *dataset = NULL;
    int64_t label;
    neap_text spec = {0};
    neap_text_printf(&spec, "images:%s", folder);
    neap_status status = spec.status == NEAP_OK
                             ? neap_dataset_open(NULL, spec.text, NULL, &dataset, diag)
                             : (diag->status = spec.status);
    if (status == NEAP_OK && neap_dataset_shape_of(dataset).channels *
                                     neap_dataset_shape_of(dataset).height *
                                     neap_dataset_shape_of(dataset).width ==
                                 2)
        status = neap_dataset_batch(dataset, 0, 0, 1, pixels, &label, diag);
    neap_dataset_close(dataset);
    neap_text_clear(&spec);
    return status;
}

static void check_png(doctor_finding *finding)
{
    neap_text folder = {0}, class = {0}, file = {0};
    neap_diag diag = {.message = ""};
    float pixels[2] = {0, 0};
    if (!is_built_in("libpng")) {
        doctor_say(finding, DOCTOR_MISSING, "this build has no libpng",
                   "install libpng-dev and build neap again, or convert pictures to .ppm");
        return;
    }
    if (make_folder(finding, &folder)) {
        neap_text_printf(&class, "%s/class", folder.text);
        neap_text_printf(&file, "%s/class/a.png", folder.text);
        if (file.status != NEAP_OK || class.status != NEAP_OK || mkdir(class.text, 0700) != 0 ||
            !write_sample(file.text, doctor_png, doctor_png_bytes, &diag))
            doctor_say(finding, DOCTOR_FAILED, "the sample cannot be written", "look at TMPDIR");
        else if (read_picture(folder.text, pixels, &diag) != NEAP_OK)
            doctor_say(finding, DOCTOR_FAILED, diag.message, "install libpng again");
        else if (pixels[0] > -1.99f || pixels[1] < 1.99f)
            doctor_say(finding, DOCTOR_FAILED, "black and white are not what was read",
                       "install libpng again");
        else
            doctor_say(finding, DOCTOR_OK, "black and white as they should be", NULL);
        unlink(neap_text_get(&file));
        rmdir(neap_text_get(&class));
        rmdir(folder.text);
    }
    neap_text_clear(&file);
    neap_text_clear(&class);
    neap_text_clear(&folder);
}

static neap_status read_onnx(const char *path, uint32_t *ops, neap_diag *diag)
{
    neap_onnx *file = NULL;
    neap_graph *graph = NULL;
    neap_onnx_options options;
    neap_onnx_options_init(&options);
    options.batch = 2;
    neap_status status = neap_onnx_open(NULL, path, &file, diag);
    if (status == NEAP_OK)
        status = neap_onnx_build(file, &options, &graph, NULL, diag);
    if (status == NEAP_OK)
        *ops = neap_graph_op_count(graph);
    neap_graph_destroy(graph);
    neap_onnx_close(file);
    return status;
}

static void check_onnx(doctor_finding *finding)
{
    neap_text folder = {0}, file = {0};
    neap_diag diag = {.message = ""};
    uint32_t ops = 0;
    cli_text text;
    if (!neap_onnx_available()) {
        doctor_say(finding, DOCTOR_MISSING, "this build reads no ONNX files",
                   "tools/setup.sh build, and build neap again");
        return;
    }
    if (make_folder(finding, &folder)) {
        neap_text_printf(&file, "%s/a.onnx", folder.text);
        if (file.status != NEAP_OK ||
            !write_sample(file.text, doctor_onnx, doctor_onnx_bytes, &diag))
            doctor_say(finding, DOCTOR_FAILED, "the sample cannot be written", "look at TMPDIR");
        else if (read_onnx(file.text, &ops, &diag) != NEAP_OK)
            doctor_say(finding, DOCTOR_FAILED, diag.message, "install protobuf-c again");
        else
            doctor_say(finding, DOCTOR_OK, cli_format(&text, "a training step of %u ops", ops),
                       NULL);
        unlink(neap_text_get(&file));
        rmdir(folder.text);
    }
    neap_text_clear(&file);
    neap_text_clear(&folder);
}

/* Folders on the way to a path, as far as they are missing. */
static void make_folders(neap_text *path)
{
    for (size_t i = 1; i < path->length; i++) {
        if (path->text[i] != '/')
            continue;
        path->text[i] = '\0';
        mkdir(path->text, 0777);
        path->text[i] = '/';
    }
}

static void check_cache(doctor_finding *finding)
{
    static const char REMEDY[] = "set XDG_CACHE_HOME to a folder that can be written to; without "
                                 "one, kernels are measured every time";
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    neap_text path = {0};
    neap_diag diag;
    if (cache && *cache)
        neap_text_printf(&path, "%s/neap/", cache);
    else if (home && *home)
        neap_text_printf(&path, "%s/.cache/neap/", home);
    size_t folder = path.length;
    neap_text_printf(&path, "doctor.%ld", (long)getpid());
    if (path.status != NEAP_OK || folder == 0) {
        doctor_say(finding, DOCTOR_MISSING, "neither XDG_CACHE_HOME nor HOME is set", REMEDY);
    } else {
        make_folders(&path);
        if (neap_file_replace(path.text, "neap\n", 5, &diag) == NEAP_OK) {
            unlink(path.text);
            path.text[folder] = '\0';
            doctor_say(finding, DOCTOR_OK, path.text, NULL);
        } else {
            doctor_say(finding, DOCTOR_FAILED, diag.message, REMEDY);
        }
    }
    neap_text_clear(&path);
}

/* ---- The GPU ---- */

static void check_library(doctor_finding *finding, size_t index)
{
    neap_cuda_machine machine;
    neap_cuda_describe(&machine);
    const neap_cuda_library *library = &machine.libraries[index];
    if (!*library->file) {
        doctor_say(finding, DOCTOR_MISSING, "not found", library->problem);
        return;
    }
    finding->status = DOCTOR_OK;
    neap_text_printf(&finding->detail, "version %s in %s", library->version, library->file);
}

static void check_driver(doctor_finding *finding)
{
    check_library(finding, 0);
}

static void check_nvrtc(doctor_finding *finding)
{
    check_library(finding, 1);
}

static void check_cudnn(doctor_finding *finding)
{
    check_library(finding, 2);
}

static void check_cublaslt(doctor_finding *finding)
{
    check_library(finding, 3);
}

static void check_nvml(doctor_finding *finding)
{
    check_library(finding, 4);
}

static void check_gpu(doctor_finding *finding)
{
    neap_cuda_machine machine;
    neap_cuda_describe(&machine);
    if (machine.gpus > 0)
        check_step(finding, "cuda", 0, MOST_GPU_ERROR,
                   "neap devices says what backend cuda needs; docs/gpu.md has more");
    else if (*machine.libraries[0].file)
        doctor_say(finding, DOCTOR_MISSING, machine.problem,
                   "give this machine, or its container, access to a GPU of NVIDIA");
    else
        doctor_say(finding, DOCTOR_MISSING, "there is no driver", "see driver below");
}

/* ---- PyTorch ---- */

/* The versions come line by line; what cannot be imported ends the program early. */
static void check_torch(doctor_finding *finding)
{
    static const char CODE[] = "import torch\nprint(torch.__version__, flush=True)\n"
                               "import neap.torch\nprint('neap.torch', flush=True)\n";
    static const char REMEDY[] = "in the environment that has PyTorch: pip install . in neap's "
                                 "folder (docs/pytorch.md)";
    char python[] = "python3", option[] = "-c", code[sizeof CODE];
    char *const arguments[] = {python, option, code, NULL};
    neap_text lines = {0};
    memcpy(code, CODE, sizeof CODE);
    cli_child_end end = cli_child_run(arguments, PYTHON_SECONDS, &lines);
    size_t version = strcspn(neap_text_get(&lines), "\n");
    cli_text text;
    cli_format(&text, "PyTorch %.*s", version < 32 ? (int)version : 32, neap_text_get(&lines));
    neap_string_clean(text.chars);
    if (end == CLI_CHILD_MISSING)
        doctor_say(finding, DOCTOR_MISSING, "there is no python3 on the PATH", REMEDY);
    else if (end == CLI_CHILD_TIMEOUT)
        doctor_say(finding, DOCTOR_FAILED, "python3 did not end in time", REMEDY);
    else if (end == CLI_CHILD_OK)
        doctor_say(finding, DOCTOR_OK, text.chars, NULL);
    else if (version == 0)
        doctor_say(finding, DOCTOR_MISSING, "python3 finds no PyTorch", REMEDY);
    else
        doctor_say(finding, DOCTOR_MISSING, "python3 finds PyTorch, but not neap.torch", REMEDY);
    neap_text_clear(&lines);
}

/* ---- The terminal ---- */

static void check_terminal(doctor_finding *finding)
{
    int width = cli_terminal_width(STDOUT_FILENO);
    finding->status = DOCTOR_OK;
    if (width > 0)
        neap_text_printf(&finding->detail, "%d columns, ", width);
    else
        neap_text_puts(&finding->detail, "output is not a terminal, ");
    neap_text_printf(&finding->detail, "%s, charts in %s", cli_colors() ? "colours" : "no colours",
                     cli_unicode() ? "Unicode" : "ASCII");
}

/* ---- All ---- */

const doctor_check doctor_checks[] = {
    {"planning", "a plan for 8 layers in half of their memory", true, check_planning},
    {"solver", "the same by linear programming", false, check_solver},
    {"memory", "an arena of 256 MiB, written and read", true, check_memory},
    {"kernels", "a training step on oneDNN", true, check_kernels},
    {"threads", "the same on all processors", true, check_threads},
    {"cache", "a file for measured times", false, check_cache},
    {"PNG", "a picture of two pixels", false, check_png},
    {"ONNX", "a model of one matrix product", false, check_onnx},
    {"GPU", "a training step on backend cuda", false, check_gpu},
    {"driver", "loaded, to use the GPU", false, check_driver},
    {"NVRTC", "loaded, to compile kernels", false, check_nvrtc},
    {"cuDNN", "loaded, for convolutions", false, check_cudnn},
    {"cuBLASLt", "loaded, for matrix products", false, check_cublaslt},
    {"NVML", "loaded, to measure its memory", false, check_nvml},
    {"PyTorch", "python3 imports torch and neap.torch", false, check_torch},
    {"terminal", "asked for its width and encoding", false, check_terminal},
};

const uint32_t doctor_checks_count = sizeof doctor_checks / sizeof doctor_checks[0];
