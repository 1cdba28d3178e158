/*
 * neap/train.h - train a network by a plan.
 *
 *     neap_train_options options;
 *     neap_train_options_init(&options);
 *     options.data = "cifar10:/data/cifar";
 *     neap_trainer_create(NULL, graph, plan, backend, &options, &trainer, &diag);
 *     while (...)
 *         neap_trainer_step(trainer, &report, &diag);          report.loss
 *     neap_trainer_save(trainer, "model.safetensors", &diag);
 *
 * The graph is one of neap/network.h or neap/models.h: its outputs are the loss and a gradient for
 * each parameter, in order, and its fixed bytes hold the state of options.optimizer. Parameters
 * begin as their names, shapes and the seed say; batches follow from seed and step alone. So a
 * training is a function of graph, backend, options and the variants that its plan chooses, to the
 * bit, and not of what else the plan does.
 */
#ifndef NEAP_TRAIN_H
#define NEAP_TRAIN_H

#include <neap/network.h>
#include <neap/optimizer.h>
#include <neap/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_train_options {
    neap_optimizer optimizer; /* default NEAP_OPTIMIZER_NONE: plain SGD */
    neap_sgd sgd;             /* for NONE (its momentum then counts as 0) and MOMENTUM; default
                                 momentum 0.9 */
    neap_adam adam;
    neap_lr rate; /* replaces the optimizers' learning rates */
    uint64_t seed;
    const char *data; /* what neap_dataset_open takes; default "synthetic" */
    neap_run_options run;
} neap_train_options;

NEAP_API void neap_train_options_init(neap_train_options *options);

typedef struct neap_trainer neap_trainer;

/*
 * NEAP_UNSUPPORTED for a graph that is not a training step as above, or for data that it cannot be
 * fed with; NEAP_INVALID for options out of range. What it is given must outlive it.
 */
NEAP_API neap_status neap_trainer_create(neap_allocator *allocator, const neap_graph *graph,
                                         const neap_plan *plan, neap_backend *backend,
                                         const neap_train_options *options, neap_trainer **trainer,
                                         neap_diag *diag);
NEAP_API void neap_trainer_destroy(neap_trainer *trainer); /* NULL is fine */
NEAP_API neap_runner *neap_trainer_runner(neap_trainer *trainer);
/* Steps done since the beginning of the training, also before it was resumed. */
NEAP_API int64_t neap_trainer_steps(const neap_trainer *trainer);
NEAP_API uint64_t neap_trainer_seed(const neap_trainer *trainer);

typedef struct neap_train_report {
    int64_t step; /* counted from 1 */
    double loss;  /* before the update */
    double learning_rate;
    double data_seconds;   /* to get the batch */
    double update_seconds; /* to apply the gradients */
    neap_run_report run;   /* forward and backward */
} neap_train_report;

/* One step: a batch, the plan, the update. report may be NULL. */
NEAP_API neap_status neap_trainer_step(neap_trainer *trainer, neap_train_report *report,
                                       neap_diag *diag);

/*
 * A checkpoint: a safetensors file, replaced atomically, of the parameters, the optimizer's state
 * and, as texts, everything else that decides how a training continues: "network", "optimizer",
 * "data", "inputs" (the batch's shapes), "step", "seed", "rate", "warmup", "cosine" (the step at
 * which it ends), "momentum", "weight_decay"; and checksums of all of it.
 *
 * Resuming takes parameters, state, step and seed from the file and continues exactly where the
 * checkpoint left off. Rates are those of the options: who wants the same gives the same.
 * NEAP_INVALID, with both values, for a file of another network, optimizer, data set or batch, and
 * for one that does not match its checksums, with the tensor's name; the trainer is then as it was.
 * Files of "format" "neap checkpoint 1" have neither inputs nor rates nor checksums: nothing of
 * these is checked.
 */
NEAP_API neap_status neap_trainer_save(neap_trainer *trainer, const char *path, neap_diag *diag);
NEAP_API neap_status neap_trainer_resume(neap_trainer *trainer, const char *path, neap_diag *diag);

/* ---- The same to the bit ---- */

typedef struct neap_verify_report {
    bool equal;
    int64_t steps;      /* compared */
    uint64_t compared;  /* arrays: losses, gradients, weights */
    double loss;        /* of the last step */
    int64_t plan_arena; /* bytes of the two arenas */
    int64_t plain_arena;
    double plan_seconds; /* medians of a step */
    double plain_seconds;
    int64_t differs_step; /* where they first differ; 0: nowhere */
    char differs[256];    /* what: "the gradient of conv1.weight" */
    bool interrupted;     /* before all steps were done; what was done is compared */
} neap_verify_report;

/*
 * Trains some steps by the plan and again with every op once, in the graph's order and by the same
 * variants, and compares losses, all gradients after each step, and all weights, by 128-bit
 * hashes. The two runs follow each other, so that memory is needed for one at a time.
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
