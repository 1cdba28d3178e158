/* Random chains of layers as training graphs, from a seed: forward, a loss, and backward. */
#ifndef NEAP_TESTS_RANDOM_CHAIN_H
#define NEAP_TESTS_RANDOM_CHAIN_H

#include "random_plan.h"

/* Sizes and times are drawn from one of these, each by itself. */
typedef enum chain_numbers {
    NUMBERS_ONE = 0, /* all equal */
    NUMBERS_SMALL,   /* 1 to 9 */
    NUMBERS_TIES,    /* 1 or 2 */
    NUMBERS_ZEROS,   /* 0 half of the time, else up to 5 */
    NUMBERS_POWERS,  /* powers of two up to 64 */
    NUMBERS_SAW,     /* one in three is large */
    NUMBERS_WIDE,    /* powers of two up to 2^36, and one more or less */
    N_NUMBERS
} chain_numbers;

typedef struct chain_recipe {
    uint32_t layers;
    chain_numbers sizes, times;
    bool reads_input,
        reads_output; /* of their layer, the backward ops; neither: the gradient alone */
    bool mixed_reads; /* drawn for each layer instead */
    bool saves;       /* some layers have a second output for their backward op */
    bool two_ops;     /* some layers are two ops forward and two backward */
    bool wide;        /* some layers pass on two values; saved ones are ten times as large */
    bool skips;       /* and some a third, which a later layer reads */
    bool workspaces;
    bool variants;   /* some ops have a second, slower variant with less workspace, or a third */
    bool results;    /* parameters' gradients, kept to the end */
    bool loss_value; /* the loss is a value of its own, and its gradient an op */
    bool loss_kept;  /* and that value an output */
    int64_t scale;   /* sizes are multiplied by it; 1 */
} chain_recipe;

/* Any recipe of 1 to most_layers layers; with `two_ops` it may have stages of several ops. */
chain_recipe random_chain_recipe(random_source *random, uint32_t most_layers, bool two_ops);
neap_graph *random_chain(random_source *random, const chain_recipe *recipe);

/* One line that says what a recipe is, for messages. Overwritten by the next call. */
const char *chain_recipe_text(const chain_recipe *recipe);

#endif
