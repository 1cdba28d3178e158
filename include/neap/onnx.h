/*
 * neap/onnx.h - models in ONNX files: read, turned into training graphs, written with new weights.
 *
 *     neap_onnx *file;
 *     neap_onnx_open(NULL, "resnet50.onnx", &file, &diag);
 *     neap_onnx_options options;
 *     neap_onnx_options_init(&options);
 *     options.batch = 32;
 *     neap_onnx_build(file, &options, &graph, &binding, &diag);
 *     ... plan and train the graph (neap/solve.h, neap/train.h) ...
 *     neap_onnx_write(binding, "trained.onnx", weights, &diag);
 *
 * Opening maps the file and unpacks everything but the weights, which stay where they are until
 * they are asked for; tensors in external files are mapped as well. The files must not change while
 * they are open. Files of opset 13 and later are read, with any version of the format. Nodes that
 * call functions of the file become the nodes of these functions.
 *
 * Building makes a network (neap/network.h) out of the model's graph and differentiates it:
 *   - open dimensions get their sizes; shapes and what depends on them alone are computed;
 *   - compositions of nodes that neap has one op for become that op: linear layers, layer
 *     normalization, GELU, SiLU, attention;
 *   - floating-point initializers become parameters with the names they have in the file, others
 *     become inputs that neap_onnx_fill knows the contents of;
 *   - a loss is put on an output;
 *   - with an optimizer, batch normalizations that use the batch's statistics advance the running
 *     ones of the file, which are state with the names they have there.
 * What was changed on the way, so that the model trains, is said in notes of one line each.
 *
 * Errors are one line with the file, the node or tensor, and what would help. A model with nodes
 * that neap cannot train gets NEAP_UNSUPPORTED and a message that lists all of them.
 */
#ifndef NEAP_ONNX_H
#define NEAP_ONNX_H

#include <neap/network.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this build reads ONNX files. If not, neap_onnx_open fails and says what is missing. */
NEAP_API bool neap_onnx_available(void);

/* ---- Files ---- */

typedef struct neap_onnx neap_onnx;

/*
 * NEAP_INVALID for a file that is damaged or not ONNX, and for external data outside the model's
 * folder (an absolute path, "..", a symbolic link that leads out); NEAP_IO if it cannot be read;
 * NEAP_UNSUPPORTED for an opset before 13, and for functions whose calls come to too many nodes. On
 * failure *file is NULL.
 */
NEAP_API neap_status neap_onnx_open(neap_allocator *allocator, const char *path, neap_onnx **file,
                                    neap_diag *diag);
NEAP_API void neap_onnx_close(neap_onnx *file); /* may be NULL */

/* The names of the sizes that the file leaves open and that have no default, each once; NULL past
   the last. */
NEAP_API const char *neap_onnx_open_size(const neap_onnx *file, size_t index);

/* ---- Training graphs ---- */

typedef enum neap_onnx_loss {
    NEAP_ONNX_CROSS_ENTROPY = 0, /* of logits N x K, N x T x K or N x K x H x W, against "labels" */
    NEAP_ONNX_MSE,               /* mean squared error, against "targets" */
    NEAP_ONNX_NO_LOSS            /* the output is the loss: one number; with
                                    training.forward_only, any shape and type: the graph then
                                    computes the model's output alone */
} neap_onnx_loss;

/* Batch normalization with the batch's statistics or with those of the file. */
typedef enum neap_onnx_batch_norm {
    NEAP_ONNX_BATCH_NORM_AS_EXPORTED = 0, /* the batch's if the file was exported for training */
    NEAP_ONNX_BATCH_NORM_TRAIN,
    NEAP_ONNX_BATCH_NORM_FROZEN
} neap_onnx_batch_norm;

/* The extent of a dimension that the file leaves open, by its name there. */
typedef struct neap_onnx_size {
    const char *name;
    int64_t value;
} neap_onnx_size;

typedef struct neap_onnx_options {
    neap_dtype dtype;       /* default NEAP_F32 */
    neap_kernels kernels;   /* default lean */
    neap_training training; /* default: no optimizer */
    int64_t batch; /* the extent of every input's batch dimension; 0, the default: as in the file,
                      or 1 where it is open. The batch dimension of an input is the first, unless
                      another one alone is open or is named "batch". */
    uint32_t n_sizes;
    const neap_onnx_size *sizes;
    neap_onnx_loss loss;
    const char
        *loss_output;   /* the output that the loss is put on; NULL: the first of floats. One of
                                one number is the loss itself. */
    bool train_dropout; /* Dropout nodes drop, by their ratio; default: they do nothing */
    neap_onnx_batch_norm batch_norm;
    uint32_t n_frozen;
    const char *const *frozen; /* parameters whose names match one of these patterns (`*`, `?`) keep
                                  the values of the file; a pattern without any is NEAP_INVALID */
} neap_onnx_options;

NEAP_API void neap_onnx_options_init(neap_onnx_options *options);

/* What connects a graph with the file it was built from. */
typedef struct neap_onnx_binding neap_onnx_binding;

/*
 * *binding may be NULL if it is not needed; the file must outlive it. NEAP_INVALID, with the names,
 * for open dimensions without a size, for sizes that the model does not have, and for shapes that
 * do not fit. On failure *graph is NULL.
 */
NEAP_API neap_status neap_onnx_build(const neap_onnx *file, const neap_onnx_options *options,
                                     neap_graph **graph, neap_onnx_binding **binding,
                                     neap_diag *diag);
NEAP_API void neap_onnx_binding_destroy(neap_onnx_binding *binding); /* may be NULL */

/* What building changed or assumed, a line each. */
NEAP_API size_t neap_onnx_note_count(const neap_onnx_binding *binding);
NEAP_API const char *neap_onnx_note_at(const neap_onnx_binding *binding, size_t index);

/*
 * The contents of a parameter, of running statistics or of a constant input of the graph, as the
 * graph has them: `count` elements of `dtype` (any float for floats, i64, i32 or u8 for integers),
 * row-major. *found is false, and nothing is written, for a value that the file does not determine;
 * nothing is written either if `data` is NULL. NEAP_INVALID if `count` is wrong.
 */
NEAP_API neap_status neap_onnx_fill(const neap_onnx_binding *binding, const char *name,
                                    neap_dtype dtype, void *data, int64_t count, bool *found,
                                    neap_diag *diag);

/* ---- Writing ---- */

/* Where neap_onnx_write gets the weights from. Embed it as the first member of a struct. */
typedef struct neap_onnx_weights neap_onnx_weights;
struct neap_onnx_weights {
    /* Writes all elements of a parameter of the graph, or of running statistics, row-major. */
    neap_status (*read)(neap_onnx_weights *self, const char *name, float *numbers, int64_t count,
                        neap_diag *diag);
};

/*
 * Writes the model with other weights; everything else stays as it is, byte for byte. Weights keep
 * the type and the layout that they have in the file. A file that is replaced is replaced in one
 * step. External data go to one file next to `path`, with ".data" appended to its name; it is
 * written first.
 */
NEAP_API neap_status neap_onnx_write(const neap_onnx_binding *binding, const char *path,
                                     neap_onnx_weights *weights, neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
