/* A convolution by loops. */
#include "fake_convolution.h"

#include "raw_numbers.h"
#include "run/backends/cuda/cudnn_constants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

static int64_t elements_of(const fake_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static int64_t offset(const fake_tensor *t, const int64_t at[4])
{
    int64_t sum = 0;
    for (int d = 0; d < 4; d++)
        sum += at[d] * t->strides[d];
    return sum;
}

/* Where element `i`, in row-major order, is. */
static void find(const fake_tensor *t, int64_t i, int64_t at[4])
{
    for (int d = 4; d-- > 0; i /= t->dims[d])
        at[d] = i % t->dims[d];
}

static int64_t row_major(const fake_tensor *t, const int64_t at[4])
{
    return ((at[0] * t->dims[1] + at[1]) * t->dims[2] + at[2]) * t->dims[3] + at[3];
}

static double number_in(const fake_tensor *t, const void *data, const int64_t at[4])
{
    return (double)raw_number(data, t->type == CUDNN_DATA_BFLOAT16, offset(t, at));
}

/* What one element of y has to do with one of w: places[FAKE_Y] and places[FAKE_W] are known.
   False if it falls into the padding. */
static bool find_x(const fake_convolution *c, int64_t places[3][4])
{
    const int64_t *y = places[FAKE_Y], *w = places[FAKE_W];
    const int64_t *x_dims = c->tensors[FAKE_X].dims, *w_dims = c->tensors[FAKE_W].dims;
    int64_t groups = x_dims[1] / w_dims[1], group = w[0] / (w_dims[0] / groups);
    places[FAKE_X][0] = y[0];
    places[FAKE_X][1] = group * w_dims[1] + w[1];
    for (int d = 0; d < 2; d++) {
        int64_t at = y[2 + d] * c->steps[d] - c->pads[d] + w[2 + d] * c->dilations[d];
        if (at < 0 || at >= x_dims[2 + d])
            return false;
        places[FAKE_X][2 + d] = at;
    }
    return true;
}

static void sum_up(const fake_convolution *c, void *const at[3], double *sums)
{
    const fake_tensor *y = &c->tensors[FAKE_Y], *w = &c->tensors[FAKE_W];
    int first = c->target == FAKE_Y ? FAKE_X : FAKE_Y,
        second = c->target == FAKE_W ? FAKE_X : FAKE_W;
    int64_t taps = elements_of(w) / w->dims[0], places[3][4];
    for (int64_t i = 0; i < elements_of(y); i++)
        for (int64_t tap = 0; tap < taps; tap++) {
            find(y, i, places[FAKE_Y]);
            find(w, places[FAKE_Y][1] * taps + tap, places[FAKE_W]);
            if (find_x(c, places))
                sums[row_major(&c->tensors[c->target], places[c->target])] +=
                    number_in(&c->tensors[first], at[first], places[first]) *
                    number_in(&c->tensors[second], at[second], places[second]);
        }
}

void fake_convolution_run(const fake_convolution *c, void *const at[3], const void *bias)
{
    const fake_tensor *t = &c->tensors[c->target];
    bool is_bf16 = t->type == CUDNN_DATA_BFLOAT16;
    double *sums = calloc((size_t)elements_of(t), sizeof *sums);
    assert_non_null(sums);
    sum_up(c, at, sums);
    for (int64_t i = 0; i < elements_of(t); i++) {
        int64_t place[4];
        find(t, i, place);
        double number = sums[i];
        if (c->adds)
            number += number_in(t, at[c->target], place);
        if (bias)
            number += (double)raw_number(bias, is_bf16, place[1]);
        set_raw_number(at[c->target], is_bf16, offset(t, place),
                       (float)(c->has_relu && number < 0 ? 0 : number));
    }
    free(sums);
}
