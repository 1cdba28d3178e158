/*
 * The common shape of elementwise ops: each is one expression; the walk over arrays of any strides
 * is shared.
 *
 * The first result may lie where an operand does, with the same strides: each element is
 * read before it is written, and the simd pragma says that no other element is in the way.
 */
#ifndef NEAP_RUN_OMP_ELEMENTWISE_H
#define NEAP_RUN_OMP_ELEMENTWISE_H

#include "run/backends/onednn/omp_math.h"
#include "run/backends/onednn/omp_walk.h"

/* What an op's attributes come down to. */
typedef struct elementwise_numbers {
    float p, q;
    uint32_t least; /* of 2^24 draws, those below are dropped */
} elementwise_numbers;

typedef struct elementwise {
    omp_walk walk; /* operands: the first result, then the inputs, then what the op adds */
    omp_block *block;
    elementwise_numbers numbers;
} elementwise;

/* A second operand that is shorter repeats. */
void neap_omp_elementwise_plan(const run_spec *spec, int parts, elementwise *e);
void neap_omp_elementwise_work(const omp_task *task);

/*
 * Blocks of y = expression of x, and of y = expression of a and b; `e` holds the op's numbers. Rows
 * without gaps are a function of their own, compiled for several processors.
 */
#define UNARY_BLOCK(name, x, expression)                                                           \
    OMP_CLONES static void name##_row(float *ys, const float *xs, int64_t length,                  \
                                      elementwise_numbers e)                                       \
    {                                                                                              \
        (void)e;                                                                                   \
        _Pragma("omp simd") for (int64_t i = 0; i < length; i++)                                   \
        {                                                                                          \
            float x = xs[i];                                                                       \
            ys[i] = expression;                                                                    \
        }                                                                                          \
    }                                                                                              \
    static void name##_block(const omp_task *task, const omp_walk *walk, const int64_t *at,        \
                             int64_t rows, int64_t length)                                         \
    {                                                                                              \
        const elementwise_numbers e = ((const elementwise *)task->plan)->numbers;                  \
        (void)e;                                                                                   \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            float *ys = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);                      \
            const float *xs = omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1);                 \
            if (walk->contiguous)                                                                  \
                name##_row(ys, xs, length, e);                                                     \
            for (int64_t i = 0; !walk->contiguous && i < length; i++) {                            \
                float x = xs[i * omp_step(walk, 1)];                                               \
                ys[i * omp_step(walk, 0)] = expression;                                            \
            }                                                                                      \
        }                                                                                          \
    }

#define BINARY_BLOCK(name, type_b, a, b, expression)                                               \
    OMP_CLONES static void name##_row(float *ys, const float *as, const type_b *bs,                \
                                      int64_t length, elementwise_numbers e)                       \
    {                                                                                              \
        (void)e;                                                                                   \
        _Pragma("omp simd") for (int64_t i = 0; i < length; i++)                                   \
        {                                                                                          \
            float a = as[i], b = (float)bs[i];                                                     \
            ys[i] = expression;                                                                    \
        }                                                                                          \
    }                                                                                              \
    static void name##_block(const omp_task *task, const omp_walk *walk, const int64_t *at,        \
                             int64_t rows, int64_t length)                                         \
    {                                                                                              \
        const elementwise_numbers e = ((const elementwise *)task->plan)->numbers;                  \
        (void)e;                                                                                   \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            float *ys = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);                      \
            const float *as = omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1);                 \
            const type_b *bs =                                                                     \
                (const type_b *)task->args->in[1] + at[2] + r * omp_row_step(walk, 2);             \
            if (walk->contiguous)                                                                  \
                name##_row(ys, as, bs, length, e);                                                 \
            for (int64_t i = 0; !walk->contiguous && i < length; i++) {                            \
                float a = as[i * omp_step(walk, 1)], b = (float)bs[i * omp_step(walk, 2)];         \
                ys[i * omp_step(walk, 0)] = expression;                                            \
            }                                                                                      \
        }                                                                                          \
    }

#define TERNARY_BLOCK_OF(name, type_c, a, b, c, expression)                                        \
    OMP_CLONES static void name##_row(float *ys, const float *as, const float *bs,                 \
                                      const type_c *cs, int64_t length, elementwise_numbers e)     \
    {                                                                                              \
        (void)e;                                                                                   \
        _Pragma("omp simd") for (int64_t i = 0; i < length; i++)                                   \
        {                                                                                          \
            float a = as[i], b = bs[i];                                                            \
            type_c c = cs[i];                                                                      \
            ys[i] = expression;                                                                    \
        }                                                                                          \
    }                                                                                              \
    static void name##_block(const omp_task *task, const omp_walk *walk, const int64_t *at,        \
                             int64_t rows, int64_t length)                                         \
    {                                                                                              \
        const elementwise_numbers e = ((const elementwise *)task->plan)->numbers;                  \
        (void)e;                                                                                   \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            float *ys = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);                      \
            const float *as = omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1);                 \
            const float *bs = omp_in(task, 1) + at[2] + r * omp_row_step(walk, 2);                 \
            const type_c *cs =                                                                     \
                (const type_c *)task->args->in[2] + at[3] + r * omp_row_step(walk, 3);             \
            if (walk->contiguous)                                                                  \
                name##_row(ys, as, bs, cs, length, e);                                             \
            for (int64_t i = 0; !walk->contiguous && i < length; i++) {                            \
                float a = as[i * omp_step(walk, 1)], b = bs[i * omp_step(walk, 2)];                \
                type_c c = cs[i * omp_step(walk, 3)];                                              \
                ys[i * omp_step(walk, 0)] = expression;                                            \
            }                                                                                      \
        }                                                                                          \
    }

#define TERNARY_BLOCK(name, a, b, c, expression) TERNARY_BLOCK_OF(name, float, a, b, c, expression)

/* An op that has no attributes. */
#define SIMPLE_OP(type)                                                                            \
    static void plan_##type(const run_spec *spec, int parts, void *plan)                           \
    {                                                                                              \
        neap_omp_elementwise_plan(spec, parts, plan);                                              \
        ((elementwise *)plan)->block = type##_block;                                               \
    }                                                                                              \
    ELEMENTWISE_OP(type)

#define ELEMENTWISE_OP(type)                                                                       \
    OMP_OP(type, {.plan_bytes = sizeof(elementwise),                                               \
                  .plan = plan_##type,                                                             \
                  .work = neap_omp_elementwise_work})

#endif
