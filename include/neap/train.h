/*
 * neap/train.h - train a network with a plan.
 *
 *     neap_train_options options;
 *     neap_train_options_init(&options);
 *     options.data = "cifar10:/data/cifar";
 *     neap_trainer_create(NULL, graph, plan, backend, &options, &trainer, &diag);
 *     while (...)
 *         neap_trainer_step(trainer, &report, &diag);          report.loss
 *     neap_trainer_save(trainer, "model.safetensors", &diag);
 *
 * The graph comes from neap/network.h or neap/models.h, with an optimizer: its updates are part of
 * the plan. The initial parameters depend on their names, shapes and the seed; batches depend on
 * seed and step. The result of training is therefore determined to the bit by graph, backend,
 * options and the variants in the plan. Nothing else in the plan affects it.
 */
#ifndef NEAP_TRAIN_H
#define NEAP_TRAIN_H

#include <neap/network.h>
#include <neap/optimizer.h>
#include <neap/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where initial weights and constant inputs come from: a file of a model. Embed it as the first
 * member of a struct.
 */
typedef struct neap_train_source neap_train_source;
struct neap_train_source {
    /* Fills a parameter or running statistics (as f32), or an input (as its own type): `count`
       elements in row-major order; if `data` is NULL, it only says whether it knows the value.
       *found is false, and nothing is written, for one that it does not know: parameters are then
       random, and inputs are data. */
    neap_status (*fill)(neap_train_source *self, const char *name, neap_dtype dtype, void *data,
                        int64_t count, bool *found, neap_diag *diag);
};

typedef struct neap_train_options {
    neap_lr rate;
    uint64_t seed;
    const char *data;          /* a spec for neap_dataset_open; default "synthetic" */
    neap_train_source *source; /* NULL: none */
    neap_run_options run;
} neap_train_options;

NEAP_API void neap_train_options_init(neap_train_options *options);

typedef struct neap_trainer neap_trainer;

/*
 * NEAP_UNSUPPORTED for a graph that is not a training step as described above, or for data that
 * does not fit its inputs; NEAP_INVALID for options out of range. The arguments must outlive the
 * trainer.
 */
NEAP_API neap_status neap_trainer_create(neap_allocator *allocator, const neap_graph *graph,
                                         const neap_plan *plan, neap_backend *backend,
                                         const neap_train_options *options, neap_trainer **trainer,
                                         neap_diag *diag);
NEAP_API void neap_trainer_destroy(neap_trainer *trainer); /* may be NULL */
NEAP_API neap_runner *neap_trainer_runner(neap_trainer *trainer);
/* Steps done so far, including those before a resume. */
NEAP_API int64_t neap_trainer_steps(const neap_trainer *trainer);
NEAP_API uint64_t neap_trainer_seed(const neap_trainer *trainer);

typedef struct neap_train_report {
    int64_t step; /* counted from 1 */
    double loss;  /* before the update; the mean of the micro-batches */
    double learning_rate;
    double data_seconds; /* to get the batch */
    neap_run_report run; /* of all micro-batches */
} neap_train_report;

/*
 * Copies the weights of a parameter, or running statistics: `count` elements in f32, row-major.
 * NEAP_INVALID for a name that the network does not have, or another size.
 */
NEAP_API neap_status neap_trainer_read(neap_trainer *trainer, const char *name, float *numbers,
                                       int64_t count, neap_diag *diag);

/* One step: for each micro-batch its data and the plan. report may be NULL. */
NEAP_API neap_status neap_trainer_step(neap_trainer *trainer, neap_train_report *report,
                                       neap_diag *diag);

/*
 * Saves or resumes a checkpoint: a safetensors file, replaced atomically, with the parameters, the
 * state of the optimizer and, as texts, everything else that determines how training continues:
 * "network", "optimizer", "data", "inputs" (the shapes of the batch), "step", "seed", "rate",
 * "warmup", "cosine" (the step at which it ends), "momentum", "weight_decay", "clip_norm",
 * "accumulate"; and checksums of all of these.
 *
 * Resuming takes parameters, state, step and seed from the file and continues exactly where the
 * checkpoint left off. Learning rates come from the options; for an identical continuation, pass
 * the same ones. NEAP_INVALID for a file of another network, optimizer, data set or batch (the
 * message has both values), and for wrong checksums (it names the tensor); the trainer is then
 * unchanged. Files with "format" "neap checkpoint 1" have no inputs, rates or checksums, and these
 * are not checked.
 */
NEAP_API neap_status neap_trainer_save(neap_trainer *trainer, const char *path, neap_diag *diag);
NEAP_API neap_status neap_trainer_resume(neap_trainer *trainer, const char *path, neap_diag *diag);

/* ---- Verification ---- */

typedef struct neap_verify_report {
    bool equal;
    int64_t steps;      /* compared */
    uint64_t compared;  /* arrays: losses, weights, state of the optimizer */
    double loss;        /* of the last step */
    int64_t plan_arena; /* sizes of the two arenas, in bytes */
    int64_t plain_arena;
    double plan_seconds; /* median time of a step */
    double plain_seconds;
    int64_t differs_step; /* the first step that differs; 0: none */
    char differs[256];    /* what differs: "the loss", "conv1.weight" */
    bool interrupted;     /* cancelled before the last step; the steps done are compared */
} neap_verify_report;

/*
 * Trains for some steps with the plan, then again with a plan that runs every op once in the
 * natural order with the same variants. Compares the loss, all weights and the state of the
 * optimizer after each step, by 128-bit hashes. Only one of the two runs needs memory at a time.
 */
NEAP_API neap_status neap_train_verify(neap_allocator *allocator, const neap_graph *graph,
                                       const neap_plan *plan, neap_backend *backend,
                                       const neap_train_options *options, int64_t steps,
                                       neap_progress *progress, neap_verify_report *report,
                                       neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
