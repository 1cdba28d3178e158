/*
 * What an op type reads and writes, as a line of text: the form of the type.
 *
 *     x[N,C,H,W] w[K,G,I,J] b?bias[K] -> y:net[N,K,Y,X]
 *
 * The operands before the arrow are inputs, those after it outputs. The same line infers the
 * outputs of a layer and checks the operands of an op that was read from a file: a graph may hold
 * anything, and a kernel that trusted it would read outside its operands.
 *
 * In brackets is the shape. A capital letter stands for an extent, the same wherever it occurs; 4H
 * is four times the extent H; *R is any number of dimensions; a number is itself; a lower-case word
 * is the value of that attribute. A shape without dimensions is [1]. Without brackets any shape
 * fits.
 *
 * After a colon is the type of the elements; floating-point numbers if there is no colon.
 *
 *     net      floats; as an output of a layer, of the network's type (others take that of input 0)
 *     f32      floats; as an output of a layer, f32 whatever the network's type
 *     any      floats, or integers of one type for all operands marked so
 *     ids      i64 or i32      places   i64, i32 or u8      mask   u8
 *
 * Integers may be limited: ids<V are from 0 to V - 1, where V is an extent or a number.
 *
 * `b?bias` is left out where the attribute `bias` is 0. `parts...` is one operand or more, the
 * last inputs or outputs. `w!` is
 * an input that the op updates, and no other is. Forms separated by " | " are alternatives.
 *
 * Attributes that a type needs are a line as well: "stride_h>0 pad_h epsilon~ p%". A plain name is
 * an integer from 0 to 2^31 - 1, with ">0" from 1 on, with "~" a finite number, with "%" a
 * probability below 1 (and if it is not 0, the op must be marked random).
 */
#ifndef NEAP_GRAPH_OP_FORM_H
#define NEAP_GRAPH_OP_FORM_H

#include <neap/network.h>

typedef struct op_shape {
    neap_dtype dtype;
    uint32_t rank;
    int64_t shape[NEAP_MAX_RANK];
} op_shape;

/* An op and where the types and shapes of its operands come from. */
typedef struct op_operands {
    const neap_op *op;
    op_shape (*at)(const void *from, uint32_t i); /* the inputs, then the outputs */
    const void *from;
} op_operands;

/* NEAP_OK, or NEAP_UNSUPPORTED with what does not fit. Floats may be of any floating type, each
   operand of its own. */
neap_status neap_op_check(const op_operands *operands, neap_diag *diag);

/* The integers of an input must be below this; INT64_MAX where the form sets no limit. The operands
   fit. */
int64_t neap_op_integer_limit(const op_operands *operands, uint32_t input);

/* The least number of inputs of any of the alternatives. */
uint32_t neap_op_least_inputs(const char *forms);

/* ---- For the rules of op types ---- */

/* An op being fitted to its form. After a failure, what is asked of it is 1 or does nothing. */
typedef struct op_fit op_fit;

/* The first complaint counts. */
void neap_fit_fail(op_fit *fit, const char *format, ...) NEAP_PRINTF(2, 3);
/* An integer attribute that the type's line of attributes names. */
int64_t neap_fit_int(const op_fit *fit, const char *attribute);
/* The same for one that the line does not name, or `otherwise` if the op does not have it. */
int64_t neap_fit_int_or(const op_fit *fit, const char *attribute, int64_t otherwise);
/* The extent that a letter stands for. */
int64_t neap_fit_extent(const op_fit *fit, char letter);
/* Says what an extent must be; it may be open until then. */
void neap_fit_bind(op_fit *fit, char letter, int64_t extent);
/* Operands by their numbers. A layer's outputs are not there yet. */
uint32_t neap_fit_inputs(const op_fit *fit);
uint32_t neap_fit_outputs(const op_fit *fit);
op_shape neap_fit_input(const op_fit *fit, uint32_t i);
op_shape neap_fit_output(const op_fit *fit, uint32_t i);
/* Says what the shape of output 0 must be; for forms without brackets. */
void neap_fit_set_output(op_fit *fit, const op_shape *shape);
/* Which of the alternatives it is, from 0. */
uint32_t neap_fit_form(const op_fit *fit);

/* ---- For layers ---- */

/* An output as its form says. */
typedef struct op_made {
    const char *name; /* in the form: `length` characters */
    int length;
    op_shape shape;
    bool net, places; /* of the network's type; indices, of the type that the layer chooses */
} op_made;

/* The outputs that follow from inputs and attributes, and from the first output where n_outputs is
   1: at most `capacity`. False with the reason, without the name of the layer. */
bool neap_op_infer(const op_operands *operands, op_made *made, uint32_t capacity, uint32_t *count,
                   char *why, size_t why_capacity);

#endif
