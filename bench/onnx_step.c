/*
 * One step of a model in an ONNX file, on given inputs.
 *
 *     onnx_step MODEL.onnx INPUTS.safetensors RESULT [OPTION...]
 *
 * INPUTS has a tensor for each input of the graph that the file does not determine: the model's
 * inputs by their names, "labels" or "targets". Without --forward the program runs the forward and
 * the backward pass, prints the loss, and writes the model again to RESULT, an .onnx file, with the
 * gradient of every parameter in place of its elements; then it prints the parameters' names, a
 * line each. With --forward it writes the tensor "output" to RESULT, a .safetensors file.
 *
 *     --forward            the forward pass alone, without a loss
 *     --output NAME        the output to compute, or to put the loss on; the first by default
 *     --backend NAME       ref by default
 *     --batch N            the extent of the inputs' batch dimension
 *     --batch-norm MODE    train or frozen; as exported by default
 *     --loss NAME          cross-entropy (the default), mse or none
 *
 * It ends with 2, and a message, if the model cannot be trained, and with 3 if neap fails.
 */
#include <neap/onnx.h>
#include <neap/run.h>
#include <neap/safetensors.h>
#include <neap/solve.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static neap_diag diag;

static void must(neap_status status)
{
    if (status != NEAP_OK) {
        fprintf(stderr, "%s\n", diag.message);
        exit(status == NEAP_INVALID || status == NEAP_UNSUPPORTED ? 2 : 3);
    }
}

static void *must_allocate(size_t bytes)
{
    void *block = malloc(bytes > 0 ? bytes : 1);
    if (!block) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return block;
}

/* ---- Options ---- */

typedef struct settings {
    const char *model, *inputs, *result, *backend;
    neap_onnx_options onnx;
} settings;

/* The place of a word among `count` words; ends the program if it is none of them. */
static int choice(const char *option, const char *word, int count, const char *const *words)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    fprintf(stderr, "%s: unknown word %s\n", option, word);
    exit(2);
}

static void set(settings *s, const char *option, const char *word)
{
    static const char *const losses[] = {"cross-entropy", "mse", "none"};
    static const char *const modes[] = {"as-exported", "train", "frozen"};
    if (strcmp(option, "--output") == 0) {
        s->onnx.loss_output = word;
    } else if (strcmp(option, "--backend") == 0) {
        s->backend = word;
    } else if (strcmp(option, "--batch") == 0) {
        s->onnx.batch = strtol(word, NULL, 10);
    } else if (strcmp(option, "--batch-norm") == 0) {
        s->onnx.batch_norm = (neap_onnx_batch_norm)choice(option, word, 3, modes);
    } else if (strcmp(option, "--loss") == 0) {
        s->onnx.loss = (neap_onnx_loss)choice(option, word, 3, losses);
    } else {
        fprintf(stderr, "unknown option %s\n", option);
        exit(2);
    }
}

static settings parse(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: onnx_step MODEL.onnx INPUTS.safetensors RESULT [OPTION...]\n");
        exit(2);
    }
    settings s = {.model = argv[1], .inputs = argv[2], .result = argv[3], .backend = "ref"};
    neap_onnx_options_init(&s.onnx);
    for (int i = 4; i < argc; i++)
        if (strcmp(argv[i], "--forward") == 0) {
            s.onnx.training.forward_only = true;
            s.onnx.loss = NEAP_ONNX_NO_LOSS;
        } else if (i + 1 < argc) {
            set(&s, argv[i], argv[i + 1]);
            i++;
        } else {
            fprintf(stderr, "%s needs a value\n", argv[i]);
            exit(2);
        }
    return s;
}

/* ---- Inputs ---- */

/* The gradient of the loss is an input named after it, and 1 here. */
static bool is_loss_gradient(const neap_graph *graph, const char *name)
{
    uint32_t count;
    const char *loss = neap_graph_value(graph, neap_graph_outputs(graph, &count)[0])->name;
    size_t length = strlen(loss);
    return strncmp(name, loss, length) == 0 && strcmp(name + length, ".grad") == 0;
}

static void read_tensor(const neap_safetensors *file, const neap_array *array, const char *name,
                        void *elements)
{
    const neap_safetensors_entry *entry = neap_safetensors_find(file, name);
    int64_t bytes = array->elements * neap_dtype_bytes(array->dtype);
    if (!entry || entry->bytes != bytes ||
        (entry->dtype != array->dtype && neap_dtype_bytes(array->dtype) != 1)) {
        fprintf(stderr, "input \"%s\": the inputs have no tensor of this name, type and size\n",
                name);
        exit(2);
    }
    must(neap_safetensors_read(file, entry, elements, (size_t)bytes, &diag));
}

static void fill_input(neap_runner *runner, const neap_graph *graph, uint32_t value,
                       const neap_onnx_binding *binding, const neap_safetensors *file)
{
    const char *name = neap_graph_value(graph, value)->name;
    neap_array array;
    bool found;
    must(neap_runner_array(runner, value, &array, &diag));
    void *elements = must_allocate((size_t)array.elements * (size_t)neap_dtype_bytes(array.dtype));
    must(neap_onnx_fill(binding, name, array.dtype, elements, array.elements, &found, &diag));
    if (!found && is_loss_gradient(graph, name)) {
        *(float *)elements = 1;
        found = true;
    }
    if (!found)
        read_tensor(file, &array, name, elements);
    must(neap_runner_write(runner, value, elements, &diag));
    free(elements);
}

/* ---- Results ---- */

/* Gradients in place of weights. */
typedef struct gradients {
    neap_onnx_weights base;
    neap_runner *runner;
    const neap_graph *graph;
} gradients;

/* The outputs are the loss and the gradients of the parameters, in their order. */
static uint32_t gradient_of(const neap_graph *graph, const char *parameter)
{
    uint32_t count, next = 1;
    const uint32_t *outputs = neap_graph_outputs(graph, &count);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++) {
        const neap_value *value = neap_graph_value(graph, v);
        if (strcmp(value->kind, NEAP_KIND_PARAMETER) != 0)
            continue;
        if (strcmp(value->name, parameter) == 0 && next < count)
            return outputs[next];
        next++;
    }
    return NEAP_NONE;
}

static neap_status read_gradient(neap_onnx_weights *self, const char *name, float *numbers,
                                 int64_t count, neap_diag *problem)
{
    const gradients *from = (const gradients *)self;
    uint32_t value = gradient_of(from->graph, name);
    if (value == NEAP_NONE) {
        fprintf(stderr, "\"%s\" has no gradient\n", name);
        exit(2);
    }
    neap_array array;
    must(neap_runner_array(from->runner, value, &array, &diag));
    if (array.elements != count) {
        fprintf(stderr, "\"%s\": %lld elements, its gradient has %lld\n", name, (long long)count,
                (long long)array.elements);
        exit(2);
    }
    return neap_runner_read(from->runner, value, numbers, problem);
}

static void write_gradients(neap_runner *runner, const neap_graph *graph,
                            const neap_onnx_binding *binding, const char *path)
{
    uint32_t count;
    float loss;
    gradients from = {{read_gradient}, runner, graph};
    must(neap_runner_read(runner, neap_graph_outputs(graph, &count)[0], &loss, &diag));
    must(neap_onnx_write(binding, path, &from.base, &diag));
    printf("%.9g\n", (double)loss);
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (strcmp(neap_graph_value(graph, v)->kind, NEAP_KIND_PARAMETER) == 0)
            printf("%s\n", neap_graph_value(graph, v)->name);
}

static void write_output(neap_runner *runner, const neap_graph *graph, const char *path)
{
    uint32_t count, output = neap_graph_outputs(graph, &count)[0];
    neap_array array;
    must(neap_runner_array(runner, output, &array, &diag));
    void *elements = must_allocate((size_t)array.elements * (size_t)neap_dtype_bytes(array.dtype));
    must(neap_runner_read(runner, output, elements, &diag));
    const neap_safetensor tensor = {"output", array.dtype, array.rank, array.shape, elements};
    must(neap_safetensors_write(NULL, path, &tensor, 1, NULL, 0, &diag));
    free(elements);
}

/* ---- The step ---- */

static void run(const settings *s, neap_graph *graph, const neap_onnx_binding *binding,
                const neap_safetensors *inputs)
{
    neap_backend *backend;
    neap_solution *solution;
    neap_runner *runner;
    neap_request request;
    must(neap_backend_open(NULL, s->backend, 0, &backend, &diag));
    must(neap_backend_fit(backend, graph, &diag));
    neap_request_init(&request, graph, "store-all");
    request.alignment = NEAP_RUN_ALIGNMENT;
    must(neap_solve(NULL, &request, &solution, &diag));
    must(neap_runner_create(NULL, graph, neap_solution_plan(solution), backend, NULL, &runner,
                            &diag));
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (neap_graph_value(graph, v)->producer == NEAP_NONE)
            fill_input(runner, graph, v, binding, inputs);
    must(neap_runner_step(runner, 1, NULL, &diag));
    if (s->onnx.training.forward_only)
        write_output(runner, graph, s->result);
    else
        write_gradients(runner, graph, binding, s->result);
    neap_runner_destroy(runner);
    neap_solution_destroy(solution);
    neap_backend_close(backend);
}

int main(int argc, char **argv)
{
    neap_onnx *file;
    neap_graph *graph;
    neap_onnx_binding *binding;
    neap_safetensors *inputs;
    settings s = parse(argc, argv);
    must(neap_onnx_open(NULL, s.model, &file, &diag));
    must(neap_onnx_build(file, &s.onnx, &graph, &binding, &diag));
    must(neap_safetensors_open(NULL, s.inputs, &inputs, &diag));
    run(&s, graph, binding, inputs);
    neap_safetensors_close(inputs);
    neap_onnx_binding_destroy(binding);
    neap_graph_destroy(graph);
    neap_onnx_close(file);
    return 0;
}
