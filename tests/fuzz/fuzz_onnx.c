/*
 * An ONNX file of arbitrary bytes: rejected with one line, or a training graph whose parameters can
 * be filled and written to a file that is read again.
 */
#include "fuzz.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct onnx_weights {
    neap_onnx_weights base;
    const neap_onnx_binding *binding;
} onnx_weights;

static neap_status onnx_read(neap_onnx_weights *self, const char *name, float *numbers,
                             int64_t count, neap_diag *diag)
{
    bool found;
    neap_status status = neap_onnx_fill(((onnx_weights *)self)->binding, name, NEAP_F32, numbers,
                                        count, &found, diag);
    FUZZ_CHECK(status == NEAP_OK && found);
    return status;
}

/* A damaged model may ask for more than there is. */
static void onnx_check_refusal(neap_status status, const neap_diag *diag)
{
    FUZZ_CHECK(status == NEAP_INVALID || status == NEAP_UNSUPPORTED || status == NEAP_IO ||
               status == NEAP_NO_MEMORY);
    FUZZ_CHECK(diag->status == status);
    fuzz_check_line(diag->message);
}

static void onnx_write_again(const neap_onnx_binding *binding)
{
    char path[] = "/tmp/neap-fuzz-XXXXXX", side[sizeof path + 8];
    int made = mkstemp(path);
    neap_diag diag = {0};
    neap_onnx *again;
    onnx_weights weights = {{onnx_read}, binding};
    FUZZ_CHECK(made >= 0);
    close(made);
    FUZZ_CHECK(neap_onnx_write(binding, path, &weights.base, &diag) == NEAP_OK);
    neap_status status = neap_onnx_open(NULL, path, &again, &diag);
    FUZZ_CHECK(status == NEAP_OK);
    neap_onnx_close(again);
    unlink(path);
    snprintf(side, sizeof side, "%s.data", path);
    unlink(side);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    FILE *stream = tmpfile();
    neap_onnx *file;
    neap_graph *graph = NULL;
    neap_onnx_binding *binding = NULL;
    neap_onnx_options options;
    neap_diag diag = {0};
    if (!neap_onnx_available())
        return 0;
    FUZZ_CHECK(stream != NULL);
    FUZZ_CHECK(fwrite(data, 1, size, stream) == size && fflush(stream) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(stream));
    neap_onnx_options_init(&options);
    options.batch = 2;
    neap_status status = neap_onnx_open(NULL, path, &file, &diag);
    fclose(stream);
    if (status == NEAP_OK)
        status = neap_onnx_build(file, &options, &graph, &binding, &diag);
    else
        FUZZ_CHECK(file == NULL);
    if (status == NEAP_OK)
        onnx_write_again(binding);
    else
        onnx_check_refusal(status, &diag);
    neap_graph_destroy(graph);
    neap_onnx_binding_destroy(binding);
    neap_onnx_close(file);
    return 0;
}
