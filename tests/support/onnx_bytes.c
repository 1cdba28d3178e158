#include "onnx_bytes.h"

#include "run_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Wire format ---- */

static void varint(neap_text *message, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        neap_text_putc(message, (char)(unsigned char)(number | 0x80));
    neap_text_putc(message, (char)(unsigned char)number);
}

void pb_number(neap_text *message, uint32_t field, uint64_t number)
{
    varint(message, (uint64_t)field << 3);
    varint(message, number);
}

void pb_float(neap_text *message, uint32_t field, float number)
{
    varint(message, (uint64_t)field << 3 | 5);
    neap_text_append(message, (const char *)&number, sizeof number);
}

void pb_bytes(neap_text *message, uint32_t field, const void *bytes, size_t length)
{
    varint(message, (uint64_t)field << 3 | 2);
    varint(message, length);
    neap_text_append(message, bytes, length);
}

void pb_string(neap_text *message, uint32_t field, const char *string)
{
    pb_bytes(message, field, string, strlen(string));
}

void pb_message(neap_text *message, uint32_t field, neap_text *inner)
{
    pb_bytes(message, field, neap_text_get(inner), inner->length);
    neap_text_clear(inner);
}

/* ---- Tensors ---- */

void onnx_add_tensor(neap_text *graph, const char *name, int type, const int64_t *dims,
                     const void *data, size_t bytes)
{
    neap_text tensor = {0};
    for (; *dims; dims++)
        pb_number(&tensor, 1, (uint64_t)*dims);
    pb_number(&tensor, 2, (uint64_t)type);
    pb_string(&tensor, 8, name);
    pb_bytes(&tensor, 9, data, bytes);
    pb_message(graph, 5, &tensor);
}

static int64_t product(const int64_t *dims)
{
    int64_t elements = 1;
    for (; *dims; dims++)
        elements *= *dims;
    return elements;
}

float onnx_number(const char *name, int64_t i)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    hash = (hash ^ (uint32_t)i) * 16777619u;
    hash ^= hash >> 15;
    return (float)(hash % 2001) / 1000.0f - 1;
}

void onnx_add_floats(neap_text *graph, const char *name, const int64_t *dims)
{
    size_t elements = (size_t)product(dims);
    float *numbers = malloc(elements * sizeof *numbers);
    for (size_t i = 0; i < elements; i++)
        numbers[i] = onnx_number(name, (int64_t)i);
    onnx_add_tensor(graph, name, 1, dims, numbers, elements * sizeof *numbers);
    free(numbers);
}

void onnx_add_integers(neap_text *graph, const char *name, const int64_t *dims,
                       const int64_t *integers)
{
    onnx_add_tensor(graph, name, 7, dims, integers, (size_t)product(dims) * sizeof *integers);
}

void onnx_add_constant(neap_text *graph, const char *name, const int64_t *dims,
                       const float *numbers)
{
    neap_text tensor = {0}, attribute = {0}, node = {0};
    size_t bytes = (size_t)product(dims) * sizeof *numbers;
    for (; *dims; dims++)
        pb_number(&tensor, 1, (uint64_t)*dims);
    pb_number(&tensor, 2, 1);
    pb_bytes(&tensor, 9, numbers, bytes);
    pb_string(&attribute, 1, "value");
    pb_message(&attribute, 5, &tensor);
    pb_number(&attribute, 20, 4);
    pb_string(&node, 2, name);
    pb_string(&node, 4, "Constant");
    pb_message(&node, 5, &attribute);
    pb_message(graph, 1, &node);
}

/* ---- Inputs and outputs ---- */

void onnx_add_input(neap_text *graph, const char *name, int type, const char *dims)
{
    neap_text shape = {0}, tensor = {0}, wrapper = {0}, info = {0};
    while (*dims) {
        neap_text dim = {0}, word = {0};
        size_t length = strcspn(dims, ",");
        neap_text_append(&word, dims, length);
        if (*dims >= '0' && *dims <= '9')
            pb_number(&dim, 1, strtoull(word.text, NULL, 10));
        else if (*dims != '?')
            pb_string(&dim, 2, word.text);
        pb_message(&shape, 1, &dim);
        neap_text_clear(&word);
        dims += length + (dims[length] == ',');
    }
    pb_number(&tensor, 1, (uint64_t)type);
    pb_message(&tensor, 2, &shape);
    pb_message(&wrapper, 1, &tensor);
    pb_string(&info, 1, name);
    pb_message(&info, 2, &wrapper);
    pb_message(graph, 11, &info);
}

void onnx_add_output(neap_text *graph, const char *name)
{
    neap_text info = {0};
    pb_string(&info, 1, name);
    pb_message(graph, 12, &info);
}

/* ---- Nodes ---- */

static void add_names(neap_text *node, uint32_t field, char *names)
{
    if (strcmp(names, "-") == 0)
        return;
    for (char *end; names; names = end) {
        end = strchr(names, ',');
        if (end)
            *end++ = '\0';
        pb_string(node, field, names);
    }
}

static void add_attribute(neap_text *message, uint32_t field, char *text)
{
    neap_text attribute = {0};
    char *value = strchr(text, '=');
    *value++ = '\0';
    pb_string(&attribute, 1, text);
    char *rest;
    long long number = strtoll(value, &rest, 10);
    if (*value == '@')
        pb_string(&attribute, 21, value + 1);
    else if (strchr(value, ',') || strcmp(text, "axes") == 0 || strcmp(text, "perm") == 0) {
        for (char *at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            pb_number(&attribute, 8, (uint64_t)strtoll(at, NULL, 10));
    } else if (rest != value && *rest == '\0') {
        pb_number(&attribute, 3, (uint64_t)number);
    } else if (rest != value && (*rest == '.' || *rest == 'e')) {
        pb_float(&attribute, 2, strtof(value, NULL));
    } else {
        pb_string(&attribute, 4, value);
    }
    pb_message(message, field, &attribute);
}

/* "domain.type:overload" in the fields that nodes and functions have. */
static void add_type(neap_text *message, char *text, uint32_t type, uint32_t domain,
                     uint32_t overload)
{
    char *dot = strchr(text, '.'), *colon = strchr(text, ':');
    if (colon) {
        *colon = '\0';
        pb_string(message, overload, colon + 1);
    }
    if (dot) {
        *dot = '\0';
        pb_string(message, domain, text);
    }
    pb_string(message, type, dot ? dot + 1 : text);
}

static void add_node(neap_text *message, uint32_t field, const char *line)
{
    neap_text node = {0};
    char *copy = malloc(strlen(line) + 1), *word = copy;
    memcpy(copy, line, strlen(line) + 1);
    for (int i = 0; word; i++) {
        char *end = strchr(word, ' ');
        if (end)
            *end++ = '\0';
        if (i == 0)
            add_type(&node, word, 4, 7, 8);
        else if (i < 3)
            add_names(&node, i == 1 ? 1 : 2, word);
        else if (i == 3 && !strchr(word, '='))
            pb_string(&node, 3, word);
        else
            add_attribute(&node, 5, word);
        word = end;
    }
    free(copy);
    pb_message(message, field, &node);
}

void onnx_add_node(neap_text *graph, const char *line)
{
    add_node(graph, 1, line);
}

static void add_opset(neap_text *message, uint32_t field, int64_t opset)
{
    neap_text version = {0};
    pb_string(&version, 1, "");
    pb_number(&version, 2, (uint64_t)(opset ? opset : 17));
    pb_message(message, field, &version);
}

void onnx_add_function(neap_text *model, const char *head, const char *const *nodes, int64_t opset)
{
    neap_text function = {0};
    char *copy = malloc(strlen(head) + 1), *word = copy;
    memcpy(copy, head, strlen(head) + 1);
    for (int i = 0; word; i++) {
        char *end = strchr(word, ' ');
        if (end)
            *end++ = '\0';
        if (i == 0)
            add_type(&function, word, 1, 10, 13);
        else if (i < 3)
            add_names(&function, i == 1 ? 4 : 5, word);
        else
            add_attribute(&function, 11, word);
        word = end;
    }
    free(copy);
    for (; *nodes; nodes++)
        add_node(&function, 7, *nodes);
    if (opset >= 0)
        add_opset(&function, 9, opset);
    pb_message(model, 25, &function);
}

/* ---- Models ---- */

void onnx_make_model(neap_text *model, neap_text *graph, int64_t opset)
{
    pb_number(model, 1, 8);
    pb_string(model, 2, "tests");
    add_opset(model, 8, opset);
    pb_message(model, 7, graph);
}

char *onnx_write(neap_text *model, const char *folder, const char *name)
{
    char *path = join_path(folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(neap_text_get(model), 1, model->length, file) != model->length)
        abort();
    fclose(file);
    neap_text_clear(model);
    return path;
}

#define DIMS(...) ((int64_t[]){__VA_ARGS__, 0})

/* One number, of rank 0. */
static void add_number(neap_text *graph, const char *name, float number)
{
    const int64_t none[] = {0};
    onnx_add_tensor(graph, name, 1, none, &number, sizeof number);
}

void onnx_small_graph(neap_text *graph)
{
    onnx_add_input(graph, "x", 1, "N,4");
    onnx_add_output(graph, "y");
    onnx_add_floats(graph, "fc1.weight", DIMS(5, 4));
    onnx_add_floats(graph, "fc1.bias", DIMS(5));
    onnx_add_floats(graph, "fc2.weight", DIMS(5, 3));
    onnx_add_floats(graph, "fc2.bias", DIMS(3));
    add_number(graph, "half", 0.5f);
    add_number(graph, "one", 1);
    add_number(graph, "root", 1.41421356f);
    onnx_add_node(graph, "Gemm x,fc1.weight,fc1.bias h1 fc1 transB=1");
    onnx_add_node(graph, "Div h1,root h2");
    onnx_add_node(graph, "Erf h2 h3");
    onnx_add_node(graph, "Add h3,one h4");
    onnx_add_node(graph, "Mul h1,h4 h5");
    onnx_add_node(graph, "Mul h5,half h6 gelu");
    onnx_add_node(graph, "MatMul h6,fc2.weight h7");
    onnx_add_node(graph, "Add fc2.bias,h7 y fc2");
}

/* x: N x T x 8 -> y, by layer normalization in pieces. */
static void add_layer_norm(neap_text *graph)
{
    onnx_add_floats(graph, "ln.weight", DIMS(8));
    onnx_add_floats(graph, "ln.bias", DIMS(8));
    add_number(graph, "two", 2);
    add_number(graph, "epsilon", 1e-5f);
    onnx_add_node(graph, "ReduceMean emb mean axes=-1");
    onnx_add_node(graph, "Sub emb,mean centered");
    onnx_add_node(graph, "Pow centered,two squares");
    onnx_add_node(graph, "ReduceMean squares variance axes=-1");
    onnx_add_node(graph, "Add variance,epsilon sum");
    onnx_add_node(graph, "Sqrt sum deviation");
    onnx_add_node(graph, "Div centered,deviation normal");
    onnx_add_node(graph, "Mul normal,ln.weight scaled");
    onnx_add_node(graph, "Add scaled,ln.bias norm ln");
}

/* Two heads of four features, packed, causal. */
static void add_attention(neap_text *graph)
{
    float mask[36];
    for (int i = 0; i < 36; i++)
        mask[i] = i % 6 > i / 6 ? -1e9f : 0;
    onnx_add_floats(graph, "qkv.weight", DIMS(8, 24));
    onnx_add_floats(graph, "qkv.bias", DIMS(24));
    onnx_add_integers(graph, "heads", DIMS(2), (int64_t[]){2, 4});
    onnx_add_integers(graph, "wide", DIMS(1), (int64_t[]){8});
    onnx_add_integers(graph, "zero", DIMS(1), (int64_t[]){0});
    onnx_add_integers(graph, "two_dims", DIMS(1), (int64_t[]){2});
    neap_text attribute = {0}, tensor = {0}, node = {0};
    pb_number(&tensor, 1, 6);
    pb_number(&tensor, 1, 6);
    pb_number(&tensor, 2, 1);
    pb_bytes(&tensor, 9, mask, sizeof mask);
    pb_string(&attribute, 1, "value");
    pb_message(&attribute, 5, &tensor);
    pb_string(&node, 2, "mask");
    pb_string(&node, 4, "Constant");
    pb_message(&node, 5, &attribute);
    pb_message(graph, 1, &node);
    add_number(graph, "scale", 0.5f);
    onnx_add_node(graph, "MatMul norm,qkv.weight product");
    onnx_add_node(graph, "Add product,qkv.bias qkv qkv");
    onnx_add_node(graph, "Split qkv q,k,v split axis=2");
    onnx_add_node(graph, "Shape q shape");
    onnx_add_node(graph, "Slice shape,zero,two_dims lead");
    onnx_add_node(graph, "Concat lead,heads apart axis=0");
    onnx_add_node(graph, "Concat lead,wide together axis=0");
    onnx_add_node(graph, "Reshape q,apart q4");
    onnx_add_node(graph, "Reshape k,apart k4");
    onnx_add_node(graph, "Reshape v,apart v4");
    onnx_add_node(graph, "Transpose q4 qh perm=0,2,1,3");
    onnx_add_node(graph, "Transpose k4 kh perm=0,2,3,1");
    onnx_add_node(graph, "Transpose v4 vh perm=0,2,1,3");
    onnx_add_node(graph, "MatMul qh,kh scores");
    onnx_add_node(graph, "Mul scores,scale scaled_scores");
    onnx_add_node(graph, "Add scaled_scores,mask masked");
    onnx_add_node(graph, "Softmax masked weights axis=-1");
    onnx_add_node(graph, "MatMul weights,vh context attention");
    onnx_add_node(graph, "Transpose context context_t perm=0,2,1,3");
    onnx_add_node(graph, "Reshape context_t,together context_c");
}

void onnx_normed_graph(neap_text *graph)
{
    static const char *const vectors[] = {"gamma",    "beta",  "mean",
                                          "variance", "mean2", "variance2"};
    onnx_add_input(graph, "x", 1, "N,3,4,4");
    onnx_add_output(graph, "y");
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        onnx_add_floats(graph, vectors[i], DIMS(3));
    onnx_add_floats(graph, "w", DIMS(48, 3));
    onnx_add_node(graph, "BatchNormalization x,gamma,beta,mean,variance a,m,v bn1 training_mode=1");
    onnx_add_node(graph, "Identity mean2 same");
    onnx_add_node(graph,
                  "BatchNormalization a,gamma,beta,same,variance2 b,m2,v2 bn2 training_mode=1");
    onnx_add_node(graph,
                  "BatchNormalization b,gamma,beta,mean2,variance2 c,m3,v3 bn3 training_mode=1");
    onnx_add_node(graph, "Flatten c d");
    onnx_add_node(graph, "MatMul d,w y");
}

void onnx_called_graph(neap_text *graph)
{
    onnx_add_input(graph, "x", 1, "N,4");
    onnx_add_output(graph, "y");
    onnx_add_floats(graph, "w1", DIMS(5, 4));
    onnx_add_floats(graph, "b1", DIMS(5));
    onnx_add_floats(graph, "w2", DIMS(3, 5));
    onnx_add_floats(graph, "b2", DIMS(3));
    onnx_add_node(graph, "local.Block x,w1,b1 h first slope=0.1");
    onnx_add_node(graph, "local.Block h,w2,b2 y second");
}

void onnx_add_called(neap_text *model)
{
    static const char *const block[] = {"local.Linear x,w,b h inner",
                                        "LeakyRelu h y leaky alpha=@slope", NULL};
    static const char *const linear[] = {"Gemm x,w,b y gemm transB=@turned", NULL};
    onnx_add_function(model, "local.Block x,w,b y slope=0.5", block, 0);
    onnx_add_function(model, "local.Linear x,w,b y turned=1", linear, 0);
}

void onnx_large_graph(neap_text *graph)
{
    onnx_add_input(graph, "ids", 7, "batch,6");
    onnx_add_output(graph, "y");
    onnx_add_floats(graph, "table", DIMS(10, 8));
    onnx_add_node(graph, "Gather table,ids emb embedding");
    add_layer_norm(graph);
    add_attention(graph);
    onnx_add_node(graph, "Add context_c,emb residual");
    onnx_add_node(graph, "Transpose table table_t perm=1,0");
    onnx_add_node(graph, "MatMul residual,table_t y decoder");
}
