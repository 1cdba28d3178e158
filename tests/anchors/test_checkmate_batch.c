/*
 * The largest batches of Jain et al., "Checkmate" (2020), Figure 6, on graphs such as theirs.
 *
 * Their graphs are not ours: a node is a Keras layer with its activation, its backward node has the
 * same size and twice the cost and reads the layer's output, its readers' outputs and their
 * gradients; costs are multiply-accumulates. Memory is 16 GB, of which parameters and gradients
 * take twice the parameters' bytes; the input is not counted. U-Net is that of the library
 * keras_segmentation with a VGG-16 encoder, at 416 x 608 and 19 classes.
 *
 * They report 289 for VGG-19, 61 for U-Net and 1105 for MobileNet, each the best found in a day.
 * The first two are the most there is: one op alone needs more than the budget at the next batch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/batch.h>

#include <stdio.h>
#include <string.h>

#define MOST_LAYERS 128
static const int64_t BUDGET = 16000000000;

/* ---- Keras layers ---- */

typedef struct layer {
    int64_t height, width, channels;
    int64_t macs;
    int inputs[2]; /* layers; -1: the data, or none */
} layer;

typedef struct network {
    int n;
    layer layers[MOST_LAYERS];
    int64_t height, width; /* of the data, in three channels */
    int64_t parameters;
} network;

static layer source(const network *net, int input)
{
    layer data = {.height = net->height, .width = net->width, .channels = 3};
    return input < 0 ? data : net->layers[input];
}

/* A layer as large as its input that costs `macs` an element. */
static int like(network *net, int input, int64_t macs, int64_t parameters)
{
    assert_true(net->n < MOST_LAYERS);
    layer *l = &net->layers[net->n];
    *l = source(net, input);
    l->macs = macs * l->height * l->width * l->channels;
    l->inputs[0] = input;
    l->inputs[1] = -1;
    net->parameters += parameters;
    return net->n++;
}

static int resized(network *net, int input, int64_t height, int64_t width, int64_t channels,
                   int64_t macs_each, int64_t parameters)
{
    int id = like(net, input, 0, parameters);
    layer *l = &net->layers[id];
    l->height = height;
    l->width = width;
    l->channels = channels;
    l->macs = macs_each * height * width * channels;
    return id;
}

/* Without `same`, the image has been padded. */
static int conv(network *net, int input, int64_t channels, int64_t kernel, int64_t stride,
                bool same, bool bias)
{
    layer x = source(net, input);
    int64_t cut = same ? 1 : kernel, each = kernel * kernel * x.channels;
    return resized(net, input, (x.height - cut) / stride + 1, (x.width - cut) / stride + 1,
                   channels, each, each * channels + (bias ? channels : 0));
}

static int depthwise(network *net, int input, int64_t stride)
{
    layer x = source(net, input);
    int64_t cut = stride == 1 ? 1 : 3;
    return resized(net, input, (x.height - cut) / stride + 1, (x.width - cut) / stride + 1,
                   x.channels, 9, 9 * x.channels);
}

static int norm(network *net, int input)
{
    return like(net, input, 4, 4 * source(net, input).channels);
}

static int relu(network *net, int input)
{
    return like(net, input, 1, 0);
}

/* Rows and columns added: a ZeroPadding2D. */
static int pad(network *net, int input, int64_t more)
{
    layer x = source(net, input);
    return resized(net, input, x.height + more, x.width + more, x.channels, 0, 0);
}

static int pool(network *net, int input)
{
    layer x = source(net, input);
    return resized(net, input, x.height / 2, x.width / 2, x.channels, 0, 0);
}

static int upsample(network *net, int input)
{
    layer x = source(net, input);
    return resized(net, input, 2 * x.height, 2 * x.width, x.channels, 1, 0);
}

static int concat(network *net, int a, int b)
{
    layer x = source(net, a), y = source(net, b);
    int id = resized(net, a, x.height, x.width, x.channels + y.channels, 0, 0);
    net->layers[id].inputs[1] = b;
    return id;
}

static int dense(network *net, int input, int64_t channels)
{
    layer x = source(net, input);
    return resized(net, input, 1, 1, channels, x.channels, (x.channels + 1) * channels);
}

static int vgg_block(network *net, int input, int64_t channels, int count)
{
    for (int i = 0; i < count; i++)
        input = conv(net, input, channels, 3, 1, true, true);
    return pool(net, input);
}

static void make_vgg19(network *net)
{
    static const int64_t channels[] = {64, 128, 256, 512, 512};
    static const int counts[] = {2, 2, 4, 4, 4};
    int x = -1;
    *net = (network){.height = 224, .width = 224};
    for (int i = 0; i < 5; i++)
        x = vgg_block(net, x, channels[i], counts[i]);
    x = resized(net, x, 1, 1, 7 * 7 * 512, 0, 0);
    x = dense(net, dense(net, x, 4096), 4096);
    dense(net, x, 1000);
    assert_int_equal(net->parameters, 143667240);
}

static void make_mobilenet(network *net)
{
    static const int64_t channels[] = {64,  128, 128, 256, 256,  512, 512,
                                       512, 512, 512, 512, 1024, 1024};
    static const int64_t strides[] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
    *net = (network){.height = 224, .width = 224};
    int x = conv(net, pad(net, -1, 1), 32, 3, 2, false, false);
    x = relu(net, norm(net, x));
    for (int i = 0; i < 13; i++) {
        if (strides[i] == 2)
            x = pad(net, x, 1);
        x = relu(net, norm(net, depthwise(net, x, strides[i])));
        x = relu(net, norm(net, conv(net, x, channels[i], 1, 1, true, false)));
    }
    x = resized(net, x, 1, 1, 1024, 0, 0);
    x = like(net, like(net, x, 0, 0), 0, 0); /* reshape, dropout */
    x = conv(net, x, 1000, 1, 1, true, true);
    relu(net, like(net, x, 0, 0)); /* reshape, softmax */
    assert_int_equal(net->parameters, 4253864);
}

static void make_unet(network *net)
{
    static const int64_t channels[] = {64, 128, 256, 512};
    static const int counts[] = {2, 2, 3, 3};
    int levels[4], x = -1;
    *net = (network){.height = 416, .width = 608};
    for (int i = 0; i < 4; i++)
        levels[i] = x = vgg_block(net, x, channels[i], counts[i]);
    for (int i = 3; i >= 0; i--) {
        if (i < 3)
            x = concat(net, upsample(net, x), levels[i]);
        x = norm(net, conv(net, pad(net, x, 2), channels[i], 3, 1, false, true));
    }
    x = conv(net, x, 19, 3, 1, true, true);
    relu(net, like(net, x, 0, 0)); /* reshape, softmax */
}

/* ---- Their graph ---- */

static int64_t bytes_of(const network *net, int id, int64_t batch)
{
    const layer *l = &net->layers[id];
    return 4 * batch * l->height * l->width * l->channels;
}

static void add_value(neap_graph_builder *builder, int64_t bytes)
{
    neap_value_desc desc;
    neap_value_desc_init(&desc);
    desc.bytes = bytes;
    assert_int_equal(neap_graph_builder_add_value(builder, &desc, NULL, NULL), NEAP_OK);
}

static void add_op(neap_graph_builder *builder, neap_pass pass, uint32_t n_inputs,
                   const uint32_t *inputs, uint32_t output, int64_t macs)
{
    neap_op_desc desc;
    const neap_variant variant = {.seconds = 1e-12 * (double)macs};
    neap_op_desc_init(&desc);
    desc.pass = pass;
    desc.n_inputs = n_inputs;
    desc.inputs = inputs;
    desc.n_outputs = 1;
    desc.outputs = &output;
    desc.n_variants = 1;
    desc.variants = &variant;
    assert_int_equal(neap_graph_builder_add_op(builder, &desc, NULL, NULL), NEAP_OK);
}

static void add_backward(neap_graph_builder *builder, const network *net, int id, int64_t batch)
{
    uint32_t inputs[MOST_LAYERS] = {(uint32_t)id}, count = 1;
    for (int reader = 0; reader < net->n; reader++)
        if (net->layers[reader].inputs[0] == id || net->layers[reader].inputs[1] == id) {
            inputs[count++] = (uint32_t)reader;
            inputs[count++] = (uint32_t)(2 * net->n - reader);
        }
    if (id == net->n - 1)
        inputs[count++] = (uint32_t)net->n;
    add_op(builder, NEAP_BACKWARD, count, inputs, (uint32_t)(2 * net->n - id),
           2 * batch * net->layers[id].macs);
}

/* Values: layer i is i, the loss n, the gradient of layer i is 2n - i. */
static neap_status graph_of(void *context, int64_t batch, neap_graph **graph, neap_diag *diag)
{
    const network *net = context;
    neap_graph_builder *builder;
    assert_int_equal(neap_graph_builder_create(NULL, "keras", &builder, diag), NEAP_OK);
    neap_graph_builder_set_fixed_bytes(builder, 2 * 4 * net->parameters);
    for (int i = 0; i < net->n; i++)
        add_value(builder, bytes_of(net, i, batch));
    add_value(builder, 4 * batch);
    for (int i = net->n - 1; i >= 0; i--)
        add_value(builder, bytes_of(net, i, batch));
    for (int i = 0; i < net->n; i++) {
        const layer *l = &net->layers[i];
        const uint32_t inputs[] = {(uint32_t)l->inputs[0], (uint32_t)l->inputs[1]};
        add_op(builder, NEAP_FORWARD, (l->inputs[0] >= 0) + (l->inputs[1] >= 0), inputs,
               (uint32_t)i, batch * l->macs);
    }
    add_op(builder, NEAP_FORWARD, 1, &(uint32_t){(uint32_t)net->n - 1}, (uint32_t)net->n, 0);
    for (int i = net->n - 1; i >= 0; i--)
        add_backward(builder, net, i, batch);
    assert_int_equal(neap_graph_builder_add_output(builder, 2 * (uint32_t)net->n, diag), NEAP_OK);
    neap_status status = neap_graph_builder_finish(builder, graph, diag);
    neap_graph_builder_destroy(builder);
    return status;
}

/* ---- The figures ---- */

static void search(network *net, const char *method, neap_batch_result *result)
{
    neap_batch_request request;
    neap_diag diag = {0};
    neap_batch_request_init(&request, graph_of, net, method);
    request.solve.budget = BUDGET;
    if (neap_batch_search(NULL, &request, result, &diag) != NEAP_OK)
        fail_msg("%s: %s", method, diag.message);
}

static void expect(network *net, const char *method, int64_t batch, neap_batch_proof proof)
{
    neap_batch_result result;
    search(net, method, &result);
    if (result.batch != batch || result.proof != proof)
        fail_msg("%s: %lld, proven %s; not %lld, proven %s", method, (long long)result.batch,
                 neap_batch_proof_name(result.proof), (long long)batch,
                 neap_batch_proof_name(proof));
    if (result.n_solved > 4)
        fail_msg("%s: %u solves", method, result.n_solved);
    neap_batch_result_clear(&result);
}

/*
 * "TensorFlow 2.0 can train VGG19 on a V100 with a batch size of 167. By applying the heuristic
 * from Chen et al., a V100 can sustain training at a batch size of 197. Our proposed method
 * sustains training at a batch size of 289." Theirs frees no layer's output before the end of the
 * step; where it leaves after its last use, 222 fit, and simple methods do 289 too.
 */
static void test_vgg19(void **state)
{
    (void)state;
    network net;
    make_vgg19(&net);
    expect(&net, "store-all", 222, NEAP_BATCH_OF_METHOD);
    expect(&net, "greedy", 289, NEAP_BATCH_OF_ALL);
    expect(&net, "rotor", 289, NEAP_BATCH_OF_ALL);
    int64_t kept = bytes_of(&net, 0, 1) + bytes_of(&net, 1, 1); /* the largest gradients */
    for (int i = 0; i < net.n; i++)
        kept += bytes_of(&net, i, 1);
    /* 168, and 167 with the image; 162 with the parameters' gradients set aside */
    assert_int_equal((BUDGET - 4 * net.parameters) / (kept + 4 * 3 * 224 * 224), 167);
}

/* "For MobileNet, Checkmate allows a batch size of 1105 which is 1.73 times higher than the best
   baseline solution, and 5.1 times common practice": 216. */
static void test_mobilenet(void **state)
{
    (void)state;
    network net;
    make_mobilenet(&net);
    expect(&net, "rotor", 1231, NEAP_BATCH_OF_ALL);
    int64_t kept = 2 * bytes_of(&net, 9, 1); /* the largest gradients: 112 x 112 x 64 */
    for (int i = 0; i < net.n; i++)
        kept += bytes_of(&net, i, 1);
    assert_int_equal((BUDGET - 2 * 4 * net.parameters) / kept, 216);
}

/* "We can increase the batch size of U-Net to 61." No plan can do 62. */
static void test_unet(void **state)
{
    (void)state;
    network net;
    make_unet(&net);
    for (int64_t batch = 61; batch <= 62; batch++) {
        neap_graph *graph;
        assert_int_equal(graph_of(&net, batch, &graph, NULL), NEAP_OK);
        assert_int_equal(neap_graph_floor_bytes(graph, NULL) <= BUDGET, batch == 61);
        neap_graph_destroy(graph);
    }
    neap_batch_result result;
    search(&net, "sqrt", &result);
    assert_true(result.batch < 61 && result.store_all == 24);
    assert_int_equal(result.trials[0].batch, 62);
    assert_int_equal(result.trials[0].proof, NEAP_BATCH_OF_ALL);
    neap_batch_result_clear(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vgg19),
        cmocka_unit_test(test_mobilenet),
        cmocka_unit_test(test_unet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
