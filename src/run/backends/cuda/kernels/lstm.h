#ifndef NEAP_CUDA_LSTM_H
#define NEAP_CUDA_LSTM_H

#include "types.h"

/* An operand of N rows; NULL: the op does not have it. */
typedef struct lstm_rows {
    void *at;
    i64 row, step;
} lstm_rows;

typedef struct lstm_params {
    i64 batch, width;
    lstm_rows gates, c, h, cell, act;
} lstm_params;

typedef struct lstm_bw_params {
    i64 batch, width;
    lstm_rows dh, dcell, act, c, cell; /* c with dgates, cell with dh */
    lstm_rows dgates, dc;
} lstm_bw_params;

#endif
