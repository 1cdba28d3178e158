/* The internals of neap_trainer. */
#ifndef NEAP_TRAIN_TRAINER_INTERNAL_H
#define NEAP_TRAIN_TRAINER_INTERNAL_H

#include <neap/data.h>
#include <neap/train.h>

/* A parameter, its gradient and its optimizer state, all in the arena. */
typedef struct train_parameter {
    const char *name;
    uint32_t value;
    float *weights;
    const float *gradient;
    float *state[2]; /* momentum; or Adam's m and v; NULL if there is none */
    int64_t count;
    uint32_t rank;
    const int64_t *shape;
} train_parameter;

struct neap_trainer {
    neap_allocator *allocator;
    const neap_graph *graph; /* the whole one, if the plan's is split */
    neap_train_options options;
    neap_runner *runner;
    int threads; /* for updates */
    train_parameter *parameters;
    uint32_t n_parameters;
    const float *loss;
    int64_t steps;
    neap_dataset *dataset; /* NULL: no input holds images */
    float *sample;         /* one image */
    int64_t sample_count;
    int64_t *tokens; /* ids, then the id that follows each */
    int64_t token_count;
};

/* ---- train_inputs.c ---- */

/* Opens the data set and allocates samples, as the graph's inputs need. */
neap_status neap_train_inputs_open(neap_trainer *trainer, neap_diag *diag);
void neap_train_inputs_close(neap_trainer *trainer);
/* Fills every input except the parameters with the data of step `step` (from 0). */
neap_status neap_train_inputs_fill(neap_trainer *trainer, int64_t step, neap_diag *diag);

/* ---- train_init.c ---- */

/* Sets the initial weights. */
void neap_train_init_parameter(const neap_graph *graph, uint64_t seed,
                               const train_parameter *parameter);

#endif
