/* The internals of neap_trainer. */
#ifndef NEAP_TRAIN_TRAINER_INTERNAL_H
#define NEAP_TRAIN_TRAINER_INTERNAL_H

#include <neap/data.h>
#include <neap/train.h>

/* A parameter and the state of its optimizer: values of the graph, all f32. */
typedef struct train_parameter {
    uint32_t value;
    uint32_t master;     /* its original in f32, if its own type is another; else NEAP_NONE */
    uint32_t moments[2]; /* momentum; or Adam's m and v; NEAP_NONE if there is none */
} train_parameter;

/* A vector of running statistics: state in f32. */
typedef struct train_statistic {
    uint32_t value;
    float initial; /* 0 for a mean, 1 for a variance; a source may have others */
} train_statistic;

struct neap_trainer {
    neap_allocator *allocator;
    const neap_graph *graph; /* the whole one, if the plan's is split */
    neap_train_options options;
    neap_optimizer optimizer;
    const neap_op *update; /* one of them, for its attributes */
    int64_t accumulate;    /* micro-batches of a step */
    double clip_norm;      /* 0: gradients are not clipped */
    neap_runner *runner;
    train_parameter *parameters; /* by rising value */
    uint32_t n_parameters;
    size_t parameter_capacity;
    train_statistic *statistics; /* by op, the mean first */
    uint32_t n_statistics;
    size_t statistic_capacity;
    uint32_t step_input; /* value */
    uint32_t loss;       /* value */
    float last_loss;     /* of the latest run of the plan */
    int64_t steps;
    bool torn;             /* a step failed after some of its updates */
    neap_dataset *dataset; /* NULL: no input holds images */
    float *sample;         /* one image */
    int64_t sample_count;
    int64_t *tokens; /* ids, then the id that follows each */
    int64_t token_count;
    bool *given; /* per value: the source has its contents; NULL: there is no source */
    size_t n_given;
};

/* ---- train_inputs.c ---- */

/* Opens the data set and allocates samples, as the graph's inputs need. */
neap_status neap_train_inputs_open(neap_trainer *trainer, neap_diag *diag);
void neap_train_inputs_close(neap_trainer *trainer);
/* Writes the inputs that the source of the options knows. */
neap_status neap_train_inputs_write_given(neap_trainer *trainer, neap_diag *diag);
/* Whether a value is data: an input that neither training nor its step sets. */
bool neap_train_is_data(const neap_graph *graph, uint32_t value);
/* Fills every data input for micro-batch `batch` (from 0, counted through all steps). */
neap_status neap_train_inputs_fill(neap_trainer *trainer, int64_t batch, neap_diag *diag);

/* ---- train_init.c ---- */

/* Sets the initial weights of a parameter, and of its master. */
neap_status neap_train_init_parameter(neap_trainer *trainer, const train_parameter *parameter,
                                      neap_diag *diag);
/* The same for running statistics. */
neap_status neap_train_init_statistic(neap_trainer *trainer, const train_statistic *statistic,
                                      neap_diag *diag);
/* Writes weights in f32, row-major, to a parameter and its master. */
neap_status neap_train_write_parameter(neap_trainer *trainer, const train_parameter *parameter,
                                       const float *numbers, neap_diag *diag);
/* The same for a parameter whose master has them already. */
neap_status neap_train_write_rounded(neap_trainer *trainer, const train_parameter *parameter,
                                     const float *numbers, neap_diag *diag);

#endif
