/* neap/onnx.h: reading, building, filling and writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_built.h"
#include "onnx_bytes.h"
#include "run_command.h"

#include <neap/onnx.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIMS(...) ((int64_t[]){__VA_ARGS__, 0})

/* ---- A folder for each test ---- */

static int make_folder(void **state)
{
    *state = make_temporary_folder();
    return 0;
}

static int remove_folder(void **state)
{
    remove_temporary_folder(*state);
    return 0;
}

static neap_onnx_options with_batch(int64_t batch)
{
    neap_onnx_options options;
    neap_onnx_options_init(&options);
    options.batch = batch;
    return options;
}

/* Types of the forward ops, with blanks between. */
static char *forward_types(const neap_graph *graph)
{
    neap_text text = {0};
    char *types;
    size_t length;
    for (uint32_t o = 0; o < neap_graph_op_count(graph); o++)
        if (neap_graph_op(graph, o)->pass == NEAP_FORWARD)
            neap_text_printf(&text, "%s%s", text.length ? " " : "", neap_graph_op(graph, o)->type);
    neap_text_putc(&text, ' ');
    assert_int_equal(neap_text_take(&text, &types, &length, NULL), NEAP_OK);
    return types;
}

static void assert_types(const onnx_built *b, const char *expected)
{
    onnx_assert_built(b);
    char *types = forward_types(b->graph);
    assert_string_equal(types, expected);
    free(types);
}

static const neap_value *find_value(const neap_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (strcmp(neap_graph_value(graph, v)->name, name) == 0)
            return neap_graph_value(graph, v);
    fail_msg("no value %s", name);
    return NULL;
}

/* ---- New weights ---- */

typedef struct shifted {
    neap_onnx_weights base;
    const neap_onnx_binding *binding;
} shifted;

/* The file's own weights and 1 more. */
static neap_status read_shifted(neap_onnx_weights *self, const char *name, float *numbers,
                                int64_t count, neap_diag *diag)
{
    bool found;
    neap_status status =
        neap_onnx_fill(((shifted *)self)->binding, name, NEAP_F32, numbers, count, &found, diag);
    assert_true(found);
    for (int64_t i = 0; i < count; i++)
        numbers[i] += 1;
    return status;
}

/* ---- Building ---- */

static void fuses_layers(void **state)
{
    neap_text graph = {0};
    neap_onnx_options options = with_batch(3);
    onnx_small_graph(&graph);
    onnx_built b = onnx_build_graph(*state, &graph, &options);
    assert_types(&b, "linear gelu linear xent ");
    assert_int_equal(neap_graph_parameter_count(b.graph), 20 + 5 + 15 + 3);
    assert_int_equal(find_value(b.graph, "x")->shape[0], 3);
    assert_int_equal(find_value(b.graph, "fc2.weight")->shape[0], 3); /* features x inputs */
    onnx_clear(&b);
}

static void fuses_attention_and_ties_weights(void **state)
{
    neap_text graph = {0};
    neap_onnx_options options = with_batch(2);
    onnx_large_graph(&graph);
    onnx_built b = onnx_build_graph(*state, &graph, &options);
    assert_types(&b, "embedding layer_norm linear attention add linear reshape xent ");
    assert_int_equal(neap_graph_parameter_count(b.graph), 80 + 16 + 8 * 24 + 24);
    onnx_clear(&b);
}

/* Parameters as the graph has them: a matrix for MatMul is turned. */
static void fills_parameters(void **state)
{
    neap_text graph = {0};
    neap_diag diag;
    bool found;
    float weight[20], turned[15];
    onnx_small_graph(&graph);
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_onnx_fill(b.binding, "fc1.weight", NEAP_F32, weight, 20, &found, &diag),
                     NEAP_OK);
    assert_true(found);
    for (int i = 0; i < 20; i++)
        assert_true(weight[i] == onnx_number("fc1.weight", i));
    assert_int_equal(neap_onnx_fill(b.binding, "fc2.weight", NEAP_F32, turned, 15, &found, &diag),
                     NEAP_OK);
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < 5; c++)
            assert_true(turned[k * 5 + c] == onnx_number("fc2.weight", c * 3 + k));
    assert_int_equal(neap_onnx_fill(b.binding, "x", NEAP_F32, weight, 4, &found, &diag), NEAP_OK);
    assert_false(found);
    assert_int_equal(neap_onnx_fill(b.binding, "fc1.bias", NEAP_F32, weight, 4, &found, &diag),
                     NEAP_INVALID);
    onnx_clear(&b);
}

static void sizes_of_open_dimensions(void **state)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, "batch,3,height,8");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "w", DIMS(4, 3, 3, 3));
    onnx_add_node(&graph, "Conv x,w c conv pads=1,1,1,1");
    onnx_add_node(&graph, "GlobalAveragePool c p");
    onnx_add_node(&graph, "Flatten p y");
    neap_text again = {0};
    neap_text_append(&again, graph.text, graph.length);
    neap_onnx_options options = with_batch(2);
    onnx_built b = onnx_build_graph(*state, &graph, &options);
    assert_string_equal(neap_onnx_open_size(b.file, 0), "height");
    assert_null(neap_onnx_open_size(b.file, 1));
    onnx_assert_refused(&b, NEAP_INVALID, "need values: height");
    options.n_sizes = 1;
    options.sizes = &(neap_onnx_size){"hight", 16};
    neap_text_append(&graph, again.text, again.length);
    b = onnx_build_graph(*state, &graph, &options);
    onnx_assert_refused(&b, NEAP_INVALID, "did you mean height?");
    options.sizes = &(neap_onnx_size){"height", 16};
    b = onnx_build_graph(*state, &again, &options);
    assert_types(&b, "conv2d adaptive_avg_pool2d reshape xent ");
    assert_int_equal(find_value(b.graph, "x")->shape[2], 16);
    onnx_clear(&b);
}

static void losses(void **state)
{
    neap_text graph = {0};
    neap_onnx_options options = with_batch(2);
    options.loss = NEAP_ONNX_MSE;
    onnx_small_graph(&graph);
    onnx_built b = onnx_build_graph(*state, &graph, &options);
    assert_types(&b, "linear gelu linear mse ");
    onnx_clear(&b);
    options.loss = NEAP_ONNX_NO_LOSS;
    onnx_small_graph(&graph);
    b = onnx_build_graph(*state, &graph, &options);
    onnx_assert_refused(&b, NEAP_INVALID, "another loss");
    onnx_small_graph(&graph);
    onnx_add_node(&graph, "ReduceMean y total keepdims=0");
    onnx_add_output(&graph, "total");
    options.loss_output = "total";
    b = onnx_build_graph(*state, &graph, &options);
    assert_types(&b, "linear gelu linear mean_axes reshape ");
    onnx_clear(&b);
    options.loss_output = "totals";
    onnx_small_graph(&graph);
    b = onnx_build_graph(*state, &graph, &options);
    onnx_assert_refused(&b, NEAP_INVALID, "no output is named \"totals\"");
}

static void last_softmax_is_part_of_the_loss(void **state)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, "2,4");
    onnx_add_output(&graph, "p");
    onnx_add_floats(&graph, "w", DIMS(4, 3));
    onnx_add_node(&graph, "MatMul x,w y");
    onnx_add_node(&graph, "Softmax y p");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    assert_types(&b, "linear xent ");
    assert_int_equal(neap_onnx_note_count(b.binding), 1);
    onnx_clear(&b);
}

static void batch_normalization_and_dropout(void **state)
{
    static const struct {
        const char *node, *types, *note;
        neap_onnx_batch_norm how;
        bool drop;
    } cases[] = {
        {"", "batch_norm_frozen linear xent ", "keep the statistics",
         NEAP_ONNX_BATCH_NORM_AS_EXPORTED, false},
        {" training_mode=1", "batch_norm linear xent ", "of the batch",
         NEAP_ONNX_BATCH_NORM_AS_EXPORTED, false},
        {"", "batch_norm dropout linear xent ", "of the batch", NEAP_ONNX_BATCH_NORM_TRAIN, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0};
        char line[128];
        onnx_add_input(&graph, "x", 1, "2,4");
        onnx_add_output(&graph, "y");
        onnx_add_floats(&graph, "gamma", DIMS(4));
        onnx_add_floats(&graph, "beta", DIMS(4));
        onnx_add_floats(&graph, "mean", DIMS(4));
        onnx_add_floats(&graph, "variance", DIMS(4));
        onnx_add_floats(&graph, "w", DIMS(4, 3));
        snprintf(line, sizeof line, "BatchNormalization x,gamma,beta,mean,variance n bn%s",
                 cases[i].node);
        onnx_add_node(&graph, line);
        onnx_add_node(&graph, "Dropout n d");
        onnx_add_node(&graph, "MatMul d,w y");
        neap_onnx_options options = with_batch(0);
        options.batch_norm = cases[i].how;
        options.train_dropout = cases[i].drop;
        onnx_built b = onnx_build_graph(*state, &graph, &options);
        assert_types(&b, cases[i].types);
        assert_non_null(strstr(neap_onnx_note_at(b.binding, 0), cases[i].note));
        onnx_clear(&b);
    }
}

/* Constant folding writes a turned copy of a weight that is used twice. */
/* Two batch normalizations in a row; what the second one's statistics are is said by `second`. */
static void add_norms(neap_text *graph, const char *second)
{
    char line[128];
    onnx_add_input(graph, "x", 1, "2,4");
    onnx_add_output(graph, "y");
    static const char *const vectors[] = {"gamma",    "beta",  "mean",
                                          "variance", "mean2", "variance2"};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        onnx_add_floats(graph, vectors[i], DIMS(4));
    onnx_add_floats(graph, "w", DIMS(4, 3));
    onnx_add_node(graph, "BatchNormalization x,gamma,beta,mean,variance n,m,v a training_mode=1 "
                         "momentum=0.75");
    onnx_add_node(graph, "Identity mean2 same");
    size_t names = strcspn(second, " ");
    snprintf(line, sizeof line, "BatchNormalization n,gamma,beta,%.*s o,m2,v2 b training_mode=1%s",
             (int)names, second, second + names);
    onnx_add_node(graph, line);
    onnx_add_node(graph, "MatMul o,w y");
}

static void running_statistics_are_state(void **state)
{
    static const struct {
        const char *second, *note; /* the second note; NULL: there is none */
        uint32_t running;
    } cases[] = {{"mean2,variance2", NULL, 2},
                 {"same,variance2", NULL, 2},
                 {"mean,variance", "1 of them leave the statistics of the file as they are", 1},
                 {"mean,variance momentum=0.75", NULL, 1},
                 {"mean2,variance", "1 of them leave", 1},
                 {"mean2,mean2", "1 of them leave", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0};
        add_norms(&graph, cases[i].second);
        neap_onnx_options options = with_batch(0);
        options.training.optimizer = NEAP_OPTIMIZER_ADAM;
        onnx_built b = onnx_build_graph(*state, &graph, &options);
        onnx_assert_built(&b);
        uint32_t running = 0;
        for (uint32_t o = 0; o < neap_graph_op_count(b.graph); o++) {
            const neap_op *op = neap_graph_op(b.graph, o);
            if (strcmp(op->type, "running_stats") != 0)
                continue;
            double momentum = op->attrs[0].real;
            assert_true(fabs(momentum - (running == 0 ? 0.75 : 0.9)) < 1e-6);
            running++;
        }
        assert_int_equal(running, cases[i].running);
        const neap_value *mean = find_value(b.graph, "mean");
        assert_true(mean && mean->state && mean->dtype == NEAP_F32);
        assert_string_equal(neap_onnx_note_at(b.binding, 0),
                            "2 batch normalizations use the statistics of the batch and advance "
                            "those of the file");
        const char *note = neap_onnx_note_at(b.binding, 1);
        assert_true(cases[i].note ? note && strstr(note, cases[i].note) : !note);
        onnx_clear(&b);
    }
}

/* What is trained elsewhere, too, cannot be state; without an optimizer there is none. */
static void running_statistics_elsewhere(void **state)
{
    neap_text graph = {0};
    neap_onnx_options options = with_batch(0);
    add_norms(&graph, "mean2,variance2");
    onnx_built b = onnx_build_graph(*state, &graph, &options);
    onnx_assert_built(&b);
    for (uint32_t v = 0; v < neap_graph_value_count(b.graph); v++)
        assert_false(neap_graph_value(b.graph, v)->state);
    assert_string_equal(neap_onnx_note_at(b.binding, 0),
                        "2 batch normalizations use the statistics of the batch");
    onnx_clear(&b);
    options.training.optimizer = NEAP_OPTIMIZER_SGD;
    onnx_add_input(&graph, "x", 1, "2,4");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "gamma", DIMS(4));
    onnx_add_floats(&graph, "mean", DIMS(4));
    onnx_add_floats(&graph, "variance", DIMS(4));
    onnx_add_node(&graph, "BatchNormalization x,gamma,gamma,mean,variance n,m,v a training_mode=1");
    onnx_add_node(&graph, "Add n,mean y");
    b = onnx_build_graph(*state, &graph, &options);
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "the running statistics \"mean\" are also trained");
}

static void running_statistics_are_written(void **state)
{
    neap_text graph = {0}, model = {0};
    neap_diag diag;
    add_norms(&graph, "same,variance2");
    onnx_make_model(&model, &graph, 0);
    char *path = onnx_write(&model, *state, "model.onnx");
    char *copy = join_path(*state, "trained.onnx");
    neap_onnx_options options = with_batch(0);
    options.training.optimizer = NEAP_OPTIMIZER_SGD;
    onnx_built b = onnx_build_file(path, &options);
    onnx_assert_built(&b);
    shifted weights = {{read_shifted}, b.binding};
    assert_int_equal(neap_onnx_write(b.binding, copy, &weights.base, &diag), NEAP_OK);
    onnx_clear(&b);
    b = onnx_build_file(copy, &options);
    onnx_assert_built(&b);
    static const char *const names[] = {"mean", "variance", "mean2", "variance2"};
    for (size_t i = 0; i < 4; i++) {
        float numbers[4];
        bool found;
        assert_int_equal(neap_onnx_fill(b.binding, names[i], NEAP_F32, numbers, 4, &found, &diag),
                         NEAP_OK);
        assert_true(found);
        for (int k = 0; k < 4; k++)
            assert_true(numbers[k] == onnx_number(names[i], k) + 1);
    }
    onnx_clear(&b);
    remove(path);
    remove(copy);
    free(path);
    free(copy);
}

static void copies_are_tied(void **state)
{
    neap_text graph = {0}, model = {0};
    neap_diag diag;
    float turned[80], after[80];
    for (int r = 0; r < 10; r++)
        for (int c = 0; c < 8; c++)
            turned[c * 10 + r] = onnx_number("table", r * 8 + c);
    onnx_add_input(&graph, "ids", 7, "2,3");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "table", DIMS(10, 8));
    onnx_add_tensor(&graph, "copy", 1, DIMS(8, 10), turned, sizeof turned);
    onnx_add_node(&graph, "Gather table,ids e");
    onnx_add_node(&graph, "MatMul e,copy y");
    onnx_make_model(&model, &graph, 0);
    char *path = onnx_write(&model, *state, "model.onnx");
    char *copy = join_path(*state, "trained.onnx");
    onnx_built b = onnx_build_file(path, NULL);
    assert_types(&b, "embedding linear reshape xent ");
    assert_int_equal(neap_graph_parameter_count(b.graph), 80);
    assert_non_null(strstr(neap_onnx_note_at(b.binding, 0), "one weight"));
    shifted weights = {{read_shifted}, b.binding};
    assert_int_equal(neap_onnx_write(b.binding, copy, &weights.base, &diag), NEAP_OK);
    onnx_clear(&b);
    b = onnx_build_file(copy, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_graph_parameter_count(b.graph), 80); /* the copy has changed, too */
    bool found;
    assert_int_equal(neap_onnx_fill(b.binding, "table", NEAP_F32, after, 80, &found, &diag),
                     NEAP_OK);
    for (int i = 0; i < 80; i++)
        assert_true(after[i] == onnx_number("table", i) + 1);
    onnx_clear(&b);
    remove(path);
    remove(copy);
    free(path);
    free(copy);
}

/* What an integer mask hides is computed, and nothing of it is left. */
static void masks_are_all_ones(void **state)
{
    neap_text graph = {0};
    const float one = 1, low = -1e9f;
    const int64_t none[] = {0};
    onnx_add_input(&graph, "x", 1, "2,4");
    onnx_add_input(&graph, "attention_mask", 7, "2,3");
    onnx_add_output(&graph, "p");
    onnx_add_floats(&graph, "w", DIMS(4, 3));
    onnx_add_tensor(&graph, "one", 1, none, &one, sizeof one);
    onnx_add_tensor(&graph, "low", 1, none, &low, sizeof low);
    onnx_add_node(&graph, "Cast attention_mask seen to=1");
    onnx_add_node(&graph, "Sub one,seen hidden");
    onnx_add_node(&graph, "Mul hidden,low bias");
    onnx_add_node(&graph, "MatMul x,w y");
    onnx_add_node(&graph, "Add y,bias p");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    assert_types(&b, "linear add xent ");
    assert_non_null(strstr(neap_onnx_note_at(b.binding, 0), "all ones"));
    float bias[6];
    bool found;
    assert_int_equal(neap_onnx_fill(b.binding, "bias", NEAP_F32, bias, 6, &found, NULL), NEAP_OK);
    assert_true(found && bias[0] == 0 && bias[5] == 0);
    onnx_clear(&b);
}

/* Each direction has its gates; the file has them in another order. */
static void lstm_gates_are_exchanged(void **state)
{
    neap_text graph = {0};
    neap_diag diag;
    bool found;
    float weight[2 * 8 * 3];
    onnx_add_input(&graph, "x", 1, "5,2,3");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "W", DIMS(2, 8, 3));
    onnx_add_floats(&graph, "R", DIMS(2, 8, 2));
    onnx_add_floats(&graph, "B", DIMS(2, 16));
    onnx_add_integers(&graph, "flat", DIMS(3), (int64_t[]){5, 2, 4});
    onnx_add_node(&graph, "LSTM x,W,R,B h lstm direction=bidirectional hidden_size=2");
    onnx_add_node(&graph, "Transpose h t perm=0,2,1,3");
    onnx_add_node(&graph, "Reshape t,flat y");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_onnx_fill(b.binding, "W", NEAP_F32, weight, 48, &found, &diag), NEAP_OK);
    static const int in_file[] = {0, 2, 3, 1};
    for (int d = 0; d < 2; d++)
        for (int g = 0; g < 4; g++)
            for (int i = 0; i < 6; i++)
                assert_true(weight[(d * 4 + g) * 6 + i] ==
                            onnx_number("W", (d * 4 + in_file[g]) * 6 + i));
    onnx_clear(&b);
}

/* An attribute of the file is not the importer's own of that name: this LSTM has a bias. */
static void lstm_has_no_order_of_its_own(void **state)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, "5,2,3");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "W", DIMS(2, 8, 3));
    onnx_add_floats(&graph, "R", DIMS(2, 8, 2));
    onnx_add_floats(&graph, "B", DIMS(2, 16));
    onnx_add_integers(&graph, "flat", DIMS(3), (int64_t[]){5, 2, 4});
    onnx_add_node(&graph, "LSTM x,W,R,B h lstm direction=bidirectional hidden_size=2 sorted=7");
    onnx_add_node(&graph, "Reshape h,flat y");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_graph_parameter_count(b.graph), 48 + 32 + 32);
    onnx_clear(&b);
}

/* Weights that an exporter cut and put together again are one tensor, whatever the node says. */
static void lstm_weights_are_found(void **state)
{
    neap_text graph = {0};
    const int64_t bounds[] = {0, 2, 4, 6, 8};
    static const char *const parts[] = {"i", "f", "g", "o"};
    char line[64];
    onnx_add_input(&graph, "x", 1, "5,2,3");
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "w", DIMS(8, 3));
    onnx_add_floats(&graph, "R", DIMS(1, 8, 2));
    onnx_add_integers(&graph, "zero", DIMS(1), (int64_t[]){0});
    onnx_add_integers(&graph, "one", DIMS(1), (int64_t[]){1});
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, "from%d", i);
        onnx_add_integers(&graph, line, DIMS(1), &bounds[i]);
        snprintf(line, sizeof line, "to%d", i);
        onnx_add_integers(&graph, line, DIMS(1), &bounds[i + 1]);
        snprintf(line, sizeof line, "Slice w,from%d,to%d,zero %s", i, i, parts[i]);
        onnx_add_node(&graph, line);
    }
    onnx_add_node(&graph, "Concat i,o,f,g sorted axis=0");
    onnx_add_node(&graph, "Unsqueeze sorted,zero W");
    onnx_add_node(&graph,
                  "LSTM x,W,R h lstm hidden_size=2 direction=forward input_forget=0 layout=0");
    onnx_add_node(&graph, "Squeeze h,one y");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    char *types = forward_types(b.graph);
    assert_null(strstr(types, "slice"));
    assert_non_null(strstr(types, "lstm_cell"));
    free(types);
    onnx_clear(&b);
}

/* ---- Windows ---- */

/* A node between an input and the mean of its channels. */
static onnx_built build_window(const char *folder, const char *input, const char *node)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, input);
    onnx_add_output(&graph, "y");
    onnx_add_floats(&graph, "k", DIMS(6, 3, 3, 3));
    onnx_add_floats(&graph, "s", DIMS(6, 3, 3));
    onnx_add_floats(&graph, "u", DIMS(3, 6, 3, 3));
    onnx_add_floats(&graph, "first", DIMS(3));
    onnx_add_node(&graph, "PRelu x,first p");
    onnx_add_node(&graph, node);
    onnx_add_node(&graph, "GlobalAveragePool w g");
    onnx_add_node(&graph, "Flatten g y");
    neap_onnx_options options = with_batch(2);
    return onnx_build_graph(folder, &graph, &options);
}

static void windows(void **state)
{
    static const struct {
        const char *input, *node, *types;
    } cases[] = {
        {"2,8,8,3", "Conv p,s w pads=2,0", NULL},
        {"2,3,8", "Conv x,s w pads=1,1 dilations=2", "reshape conv2d reshape reshape adaptive"},
        {"2,3,8", "Conv x,s w pads=2,0", "reshape pad2d conv2d"},
        {"2,3,8,8", "Conv x,k w strides=2,2 auto_pad=SAME_UPPER", "pad2d conv2d"},
        {"2,3,8,8", "ConvTranspose x,u w strides=2,2 pads=0,1,1,0", "conv_transpose2d slice slice"},
        {"2,3,8,8", "ConvTranspose x,u w strides=2,2 output_shape=16,16",
         "conv_transpose2d slice slice"},
        {"2,8,9,3", "MaxPool p w kernel_shape=3,3 strides=2,2 auto_pad=SAME_UPPER",
         "expand prelu max_pool2d adaptive"},
        {"2,8,9,3", "MaxPool p w kernel_shape=2,2 auto_pad=SAME_UPPER",
         "expand prelu pad max_pool2d adaptive"},
        {"2,8,8,3", "AveragePool p w kernel_shape=3,3 strides=2,2 auto_pad=SAME_UPPER",
         "expand prelu avg_pool2d adaptive"},
        {"2,8,8,3", "AveragePool p w kernel_shape=2,2 auto_pad=SAME_UPPER",
         "expand prelu pad2d avg_pool2d mul adaptive"},
        {"2,8,8,3", "AveragePool p w kernel_shape=2,2 pads=0,0,1,1 count_include_pad=1",
         "expand prelu pad2d avg_pool2d adaptive"},
        {"2,8,3", "MaxPool p w kernel_shape=2 strides=2", "expand prelu reshape max_pool2d"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        onnx_built b = build_window(*state, cases[i].input, cases[i].node);
        if (!cases[i].types) {
            onnx_assert_refused(&b, NEAP_INVALID, "does not have the shape of a kernel");
            continue;
        }
        onnx_assert_built(&b);
        char *types = forward_types(b.graph);
        if (strncmp(types, cases[i].types, strlen(cases[i].types)) != 0)
            fail_msg("%s is %s, not %s", cases[i].node, types, cases[i].types);
        free(types);
        onnx_clear(&b);
    }
    onnx_built b = build_window(*state, "2,3,4,4,4", "MaxPool x w cube kernel_shape=2,2,2");
    onnx_assert_refused(&b, NEAP_UNSUPPORTED, "node \"cube\" (MaxPool): its input has rank 5");
}

/* A single number is part of a formula, unless it is the bias of a layer with one feature. */
static void single_biases_are_trained(void **state)
{
    static const struct {
        const char *nodes[2];
        const char *types;
        int64_t parameters;
    } cases[] = {
        {{"Gemm x,w,b y", NULL}, "linear mse ", 5},
        {{"MatMul x,w m", "Add m,b y"}, "linear mse ", 5},
        {{"MatMul x,v m", "Add m,b y"}, "linear scale mse ", 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0};
        neap_onnx_options options = with_batch(2);
        options.loss = NEAP_ONNX_MSE;
        onnx_add_input(&graph, "x", 1, "2,4");
        onnx_add_output(&graph, "y");
        onnx_add_floats(&graph, "w", DIMS(4, 1));
        onnx_add_floats(&graph, "v", DIMS(4, 3));
        onnx_add_floats(&graph, "b", DIMS(1));
        for (int n = 0; n < 2 && cases[i].nodes[n]; n++)
            onnx_add_node(&graph, cases[i].nodes[n]);
        onnx_built b = onnx_build_graph(*state, &graph, &options);
        assert_types(&b, cases[i].types);
        assert_int_equal(neap_graph_parameter_count(b.graph), cases[i].parameters);
        onnx_clear(&b);
    }
}

/* The label comes first, and names of classes last. */
static void classifiers_of_scikit_learn(void **state)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, "2,4");
    onnx_add_output(&graph, "p");
    onnx_add_floats(&graph, "w", DIMS(4, 3));
    onnx_add_node(&graph, "MatMul x,w y");
    onnx_add_node(&graph, "Softmax y s");
    onnx_add_node(&graph, "Identity s p");
    onnx_built b = onnx_build_graph(*state, &graph, NULL);
    assert_types(&b, "linear xent ");
    onnx_clear(&b);
}

/* ---- Constants ---- */

/* The values of a node of constants, seen as the target of a Reshape of 12 numbers. */
static void folds(void **state)
{
    static const struct {
        const char *nodes[4];
        int64_t rows, columns;
    } cases[] = {
        {{"Shape x s", "Gather s,i1 g axis=0", "Concat g,i3 shape axis=0"}, 4, 3},
        {{"Range r0,r2,r1 range", "Add range,i3 shape"}, 3, 4},
        {{"ConstantOfShape i2 z", "Cast z zi to=7", "Add zi,i34 shape"}, 3, 4},
        {{"Mul i6,i2 m", "Concat m,i1_ shape axis=0"}, 12, 1},
        {{"Slice i34,i1_,zero,none,minus s", "Identity s shape"}, 4, 3},
        {{"Equal i34,i3 e", "Where e,i6,i2 shape"}, 6, 2},
        {{"Tile i1_,i2 t", "Mul t,i34 shape"}, 3, 4},
        {{"ReduceProd i34 p axes=0", "Concat p,i1_ shape axis=0"}, 12, 1},
        {{"Max i34,i2 m", "Min m,i6 shape"}, 3, 4},
        {{"Expand i1_,i2 e", "CumSum e,r0 c", "Mul c,c2 m", "Add m,c3 shape"}, 3, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0};
        const int64_t none[] = {0};
        onnx_add_input(&graph, "x", 1, "3,4");
        onnx_add_output(&graph, "y");
        onnx_add_floats(&graph, "w", DIMS(3, 4));
        onnx_add_integers(&graph, "i1", DIMS(1), (int64_t[]){1});
        onnx_add_integers(&graph, "i1_", DIMS(1), (int64_t[]){1});
        onnx_add_integers(&graph, "i2", DIMS(1), (int64_t[]){2});
        onnx_add_integers(&graph, "i3", DIMS(1), (int64_t[]){3});
        onnx_add_integers(&graph, "i6", DIMS(1), (int64_t[]){6});
        onnx_add_integers(&graph, "i34", DIMS(2), (int64_t[]){3, 4});
        onnx_add_integers(&graph, "zero", DIMS(1), (int64_t[]){-3});
        onnx_add_integers(&graph, "none", DIMS(1), (int64_t[]){0});
        onnx_add_integers(&graph, "minus", DIMS(1), (int64_t[]){-1});
        onnx_add_integers(&graph, "r0", none, (int64_t[]){0});
        onnx_add_integers(&graph, "r1", none, (int64_t[]){1});
        onnx_add_integers(&graph, "r2", none, (int64_t[]){2});
        onnx_add_integers(&graph, "c2", DIMS(2), (int64_t[]){1, 1});
        onnx_add_integers(&graph, "c3", DIMS(2), (int64_t[]){2, 2});
        for (int n = 0; n < 4 && cases[i].nodes[n]; n++)
            onnx_add_node(&graph, cases[i].nodes[n]);
        onnx_add_node(&graph, "Mul x,w m_");
        onnx_add_node(&graph, "Reshape m_,shape y");
        onnx_built b = onnx_build_graph(*state, &graph, NULL);
        if (b.status != NEAP_OK)
            fail_msg("case %zu: %s", i, b.diag.message);
        const neap_value *labels = find_value(b.graph, "labels");
        if (labels->shape[0] != cases[i].rows)
            fail_msg("case %zu: %lld rows", i, (long long)labels->shape[0]);
        onnx_clear(&b);
    }
}

/* ---- Writing ---- */

/* Same bytes except for the payloads of parameters. */
static void writes_weights_back(void **state)
{
    neap_text graph = {0}, model = {0};
    neap_diag diag;
    onnx_small_graph(&graph);
    onnx_make_model(&model, &graph, 0);
    pb_string(&model, 6, "text at the end, of no use to neap");
    size_t length = model.length;
    char *path = onnx_write(&model, *state, "model.onnx");
    char *copy = join_path(*state, "trained.onnx");
    onnx_built b = onnx_build_file(path, NULL);
    onnx_assert_built(&b);
    shifted weights = {{read_shifted}, b.binding};
    assert_int_equal(neap_onnx_write(b.binding, copy, &weights.base, &diag), NEAP_OK);
    onnx_clear(&b);
    unsigned char before[4096], after[4096];
    FILE *old = fopen(path, "rb"), *new = fopen(copy, "rb");
    assert_int_equal(fread(before, 1, sizeof before, old), length);
    assert_int_equal(fread(after, 1, sizeof after, new), length);
    fclose(old);
    fclose(new);
    size_t changed = 0;
    for (size_t i = 0; i < length; i++)
        changed += before[i] != after[i];
    assert_in_range(changed, 43, 43 * 4);
    b = onnx_build_file(copy, NULL);
    onnx_assert_built(&b);
    float turned[15];
    bool found;
    assert_int_equal(neap_onnx_fill(b.binding, "fc2.weight", NEAP_F32, turned, 15, &found, &diag),
                     NEAP_OK);
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < 5; c++)
            assert_true(turned[k * 5 + c] == onnx_number("fc2.weight", c * 3 + k) + 1);
    onnx_clear(&b);
    remove(path);
    remove(copy);
    free(path);
    free(copy);
}

static bool has_value(const neap_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < neap_graph_value_count(graph); v++)
        if (strcmp(neap_graph_value(graph, v)->name, name) == 0)
            return true;
    return false;
}

/* Frozen parameters are inputs, and have no gradient. */
static void parameters_are_frozen(void **state)
{
    static const struct {
        const char *patterns[2];
        const char *note; /* NULL: refused */
        bool weight, bias;
    } cases[] = {
        {{"fc1.weight"}, "1 parameter is kept as in the file", true, false},
        {{"fc1.*"}, "2 parameters are kept as in the file", true, true},
        {{"fc1.bias", "fc1.?ias"}, "1 parameter is kept as in the file", false, true},
        {{"fc3.*"}, NULL, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neap_text graph = {0};
        neap_onnx_options options;
        neap_onnx_options_init(&options);
        options.frozen = cases[i].patterns;
        options.n_frozen = cases[i].patterns[1] ? 2 : 1;
        onnx_small_graph(&graph);
        onnx_built b = onnx_build_graph(*state, &graph, &options);
        if (!cases[i].note) {
            onnx_assert_refused(&b, NEAP_INVALID, "no parameter has a name like \"fc3.*\"");
            continue;
        }
        onnx_assert_built(&b);
        assert_string_equal(neap_onnx_note_at(b.binding, 0), cases[i].note);
        const char *kinds[] = {NEAP_KIND_PARAMETER, NEAP_KIND_INPUT};
        assert_string_equal(find_value(b.graph, "fc1.weight")->kind, kinds[cases[i].weight]);
        assert_string_equal(find_value(b.graph, "fc1.bias")->kind, kinds[cases[i].bias]);
        assert_string_equal(find_value(b.graph, "fc2.weight")->kind, NEAP_KIND_PARAMETER);
        assert_true(has_value(b.graph, "fc1.weight.grad") != cases[i].weight);
        assert_true(has_value(b.graph, "fc1.bias.grad") != cases[i].bias);
        onnx_clear(&b);
    }
}

/* x: N x 2, times a constant 2 x 3, plus one of 3; perhaps an initializer. */
static void add_constants(neap_text *graph, bool initializer)
{
    onnx_add_input(graph, "x", 1, "N,2");
    onnx_add_output(graph, "y");
    onnx_add_constant(graph, "w", DIMS(2, 3), (float[]){1, 2, 3, 4, 5, 6});
    onnx_add_constant(graph, "b", DIMS(3), (float[]){7, 8, 9});
    if (initializer)
        onnx_add_floats(graph, "c", DIMS(3));
    onnx_add_node(graph, "MatMul x,w m");
    onnx_add_node(graph, "Add m,b a");
    onnx_add_node(graph, initializer ? "Add a,c y" : "Relu a y");
}

static void weights_may_be_constants(void **state)
{
    neap_text graph = {0}, model = {0};
    neap_diag diag;
    add_constants(&graph, false);
    onnx_make_model(&model, &graph, 0);
    char *path = onnx_write(&model, *state, "model.onnx");
    char *copy = join_path(*state, "trained.onnx");
    onnx_built b = onnx_build_file(path, NULL);
    onnx_assert_built(&b);
    assert_string_equal(find_value(b.graph, "w")->kind, NEAP_KIND_PARAMETER);
    assert_string_equal(find_value(b.graph, "b")->kind, NEAP_KIND_PARAMETER);
    assert_string_equal(neap_onnx_note_at(b.binding, 0),
                        "the weights of the file are in 2 Constant nodes");
    shifted weights = {{read_shifted}, b.binding};
    assert_int_equal(neap_onnx_write(b.binding, copy, &weights.base, &diag), NEAP_OK);
    onnx_clear(&b);
    b = onnx_build_file(copy, NULL);
    onnx_assert_built(&b);
    float numbers[3];
    bool found;
    assert_int_equal(neap_onnx_fill(b.binding, "b", NEAP_F32, numbers, 3, &found, &diag), NEAP_OK);
    for (int i = 0; i < 3; i++)
        assert_true(numbers[i] == (float)(8 + i));
    onnx_clear(&b);
    remove(path);
    remove(copy);
    free(path);
    free(copy);
    add_constants(&graph, true);
    b = onnx_build_graph(*state, &graph, NULL);
    onnx_assert_built(&b);
    assert_string_equal(find_value(b.graph, "w")->kind, NEAP_KIND_INPUT);
    assert_string_equal(find_value(b.graph, "c")->kind, NEAP_KIND_PARAMETER);
    assert_null(neap_onnx_note_at(b.binding, 0));
    onnx_clear(&b);
}

/* ---- External data ---- */

static void add_external(neap_text *graph, const char *name, const int64_t *dims,
                         const char *location, const char *offset)
{
    neap_text tensor = {0}, entry = {0};
    for (; *dims; dims++)
        pb_number(&tensor, 1, (uint64_t)*dims);
    pb_number(&tensor, 2, 1);
    pb_string(&tensor, 8, name);
    pb_string(&entry, 1, "location");
    pb_string(&entry, 2, location);
    pb_message(&tensor, 13, &entry);
    pb_string(&entry, 1, "offset");
    pb_string(&entry, 2, offset);
    pb_message(&tensor, 13, &entry);
    pb_number(&tensor, 14, 1);
    pb_message(graph, 5, &tensor);
}

static onnx_built build_external(const char *folder, const char *location, const char *offset)
{
    neap_text graph = {0};
    onnx_add_input(&graph, "x", 1, "2,4");
    onnx_add_output(&graph, "y");
    add_external(&graph, "w", DIMS(4, 3), location, offset);
    onnx_add_node(&graph, "MatMul x,w y");
    return onnx_build_graph(folder, &graph, NULL);
}

static void external_data_stay_in_the_folder(void **state)
{
    const char *folder = *state;
    float numbers[16];
    neap_diag diag;
    bool found;
    for (int i = 0; i < 16; i++)
        numbers[i] = (float)i;
    char *data = join_path(folder, "weights.bin"), *link = join_path(folder, "link.bin");
    FILE *file = fopen(data, "wb");
    fwrite(numbers, sizeof *numbers, 16, file);
    fclose(file);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    onnx_built b = build_external(folder, "weights.bin", "16");
    onnx_assert_built(&b);
    float weight[12];
    assert_int_equal(neap_onnx_fill(b.binding, "w", NEAP_F32, weight, 12, &found, &diag), NEAP_OK);
    assert_true(weight[0] == 4 && weight[1] == 7 && weight[11] == 15);
    char *copy = join_path(folder, "trained.onnx"), *side = join_path(folder, "trained.onnx.data");
    shifted weights = {{read_shifted}, b.binding};
    assert_int_equal(neap_onnx_write(b.binding, copy, &weights.base, &diag), NEAP_OK);
    onnx_clear(&b);
    b = onnx_build_file(copy, NULL);
    onnx_assert_built(&b);
    assert_int_equal(neap_onnx_fill(b.binding, "w", NEAP_F32, weight, 12, &found, &diag), NEAP_OK);
    assert_true(weight[0] == 5 && weight[11] == 16);
    onnx_clear(&b);
    static const char *const outside[] = {
        "../weights.bin", "/etc/passwd", "a/../../b", "link.bin", "", "c:x"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        b = build_external(folder, outside[i], "0");
        onnx_assert_refused(&b, NEAP_INVALID, "outside the model's folder");
    }
    b = build_external(folder, "weights.bin", "20");
    onnx_assert_refused(&b, NEAP_INVALID, "ends before its data");
    b = build_external(folder, "weights.bin", "-4");
    onnx_assert_refused(&b, NEAP_INVALID, "ends before its data");
    b = build_external(folder, "nothing.bin", "0");
    onnx_assert_refused(&b, NEAP_IO, "nothing.bin");
    remove(data);
    remove(link);
    remove(copy);
    remove(side);
    free(data);
    free(link);
    free(copy);
    free(side);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fuses_layers),
        TEST(fuses_attention_and_ties_weights),
        TEST(fills_parameters),
        TEST(sizes_of_open_dimensions),
        TEST(losses),
        TEST(last_softmax_is_part_of_the_loss),
        TEST(batch_normalization_and_dropout),
        TEST(running_statistics_are_state),
        TEST(running_statistics_elsewhere),
        TEST(running_statistics_are_written),
        TEST(copies_are_tied),
        TEST(masks_are_all_ones),
        TEST(lstm_gates_are_exchanged),
        TEST(lstm_has_no_order_of_its_own),
        TEST(lstm_weights_are_found),
        TEST(windows),
        TEST(classifiers_of_scikit_learn),
        TEST(single_biases_are_trained),
        TEST(folds),
        TEST(writes_weights_back),
        TEST(weights_may_be_constants),
        TEST(parameters_are_frozen),
        TEST(external_data_stay_in_the_folder),
    };
    if (!neap_onnx_available())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
