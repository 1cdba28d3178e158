/* Fits ops to the forms of their types. */
#include "graph/op_form.h"

#include "base/fail.h"
#include "graph/network_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define N_LETTERS 26

typedef struct op_run_of_dims {
    bool bound;
    uint32_t rank;
    int64_t shape[NEAP_MAX_RANK];
} op_run_of_dims;

struct op_fit {
    const op_def *def;
    const op_operands *operands;
    bool infer; /* outputs beyond op->n_outputs follow */
    const char *form;
    uint32_t form_number;
    neap_dtype any;             /* of operands marked `any`, once one is seen */
    int64_t extents[N_LETTERS]; /* 0: open */
    op_run_of_dims runs[N_LETTERS];
    op_shape made; /* output 0, where a rule sets it */
    bool failed;
    char why[NEAP_DIAG_CAPACITY];
};

/* ---- Reading a form ---- */

typedef enum op_kind { FLOATS, NET, F32, ANY, IDS, PLACES, MASK } op_kind;

static const struct {
    const char *word, *meaning;
} kinds[] = {
    [FLOATS] = {"", "floating-point numbers"},
    [NET] = {"net", "floating-point numbers"},
    [F32] = {"f32", "floating-point numbers"},
    [ANY] = {"any", "the type of the other operands"},
    [IDS] = {"ids", "i64 or i32"},
    [PLACES] = {"places", "u8, i32 or i64"},
    [MASK] = {"mask", "u8"},
};

typedef struct word {
    const char *at;
    size_t length;
} word;

typedef struct dim {
    bool run;
    char letter;    /* or 0 */
    int64_t factor; /* of the letter, or the extent itself */
    word attribute; /* its value is the extent, where the length is not 0 */
} dim;

typedef struct pattern {
    word name, condition;
    op_kind kind;
    dim limit; /* of integers; factor 0: none */
    bool output, repeats, open;
    bool updated;
    uint32_t n_dims;
    dim dims[NEAP_MAX_RANK];
} pattern;

static word read_word(const char **at)
{
    word w = {.at = *at};
    while ((**at >= 'a' && **at <= 'z') || (**at >= '0' && **at <= '9') || **at == '_')
        ++*at;
    w.length = (size_t)(*at - w.at);
    return w;
}

static bool is_word(word w, const char *text)
{
    return strlen(text) == w.length && strncmp(w.at, text, w.length) == 0;
}

static dim read_dim(const char **at)
{
    dim d = {.run = **at == '*'};
    *at += d.run;
    while (**at >= '0' && **at <= '9')
        d.factor = 10 * d.factor + (*(*at)++ - '0');
    if (**at >= 'A' && **at <= 'Z') {
        d.letter = *(*at)++;
        d.factor = d.factor ? d.factor : 1;
    } else if (!d.factor) {
        d.attribute = read_word(at);
    }
    return d;
}

static void read_kind(const char **at, pattern *p)
{
    word w = read_word(at);
    while (!is_word(w, kinds[p->kind].word))
        p->kind++;
    if (**at == '<') {
        ++*at;
        p->limit = read_dim(at);
    }
}

/* The next operand of a form; false at its end. */
static bool read_operand(const char **at, pattern *p)
{
    bool output = p->output;
    *at += strspn(*at, " ");
    if (strncmp(*at, "->", 2) == 0) {
        output = true;
        *at += 2 + strspn(*at + 2, " ");
    }
    *p = (pattern){.output = output, .open = true};
    if (!**at || **at == '|')
        return false;
    p->name = read_word(at);
    p->updated = **at == '!';
    *at += p->updated;
    if (**at == ':') {
        ++*at;
        read_kind(at, p);
    }
    if (**at == '?') {
        ++*at;
        p->condition = read_word(at);
    }
    p->repeats = **at == '.';
    *at += strspn(*at, ".");
    if (**at == '[') {
        p->open = false;
        while (**at != ']') {
            ++*at;
            p->dims[p->n_dims++] = read_dim(at);
        }
        ++*at;
    }
    return true;
}

/* ---- Attributes ---- */

static const neap_attr *find_attr(const neap_op *op, word name)
{
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (is_word(name, op->attrs[i].name))
            return &op->attrs[i];
    return NULL;
}

/* Whether an operand that depends on an attribute is there. */
static bool is_there(const op_fit *fit, const pattern *p)
{
    const neap_attr *attr = p->condition.length ? find_attr(fit->operands->op, p->condition) : NULL;
    return !attr || neap_attr_int(attr) != 0;
}

static void check_attr(op_fit *fit, word name, const char *mark)
{
    const neap_op *op = fit->operands->op;
    const neap_attr *attr = find_attr(op, name);
    int length = (int)name.length;
    if (!attr) {
        neap_fit_fail(fit, "lacks the attribute \"%.*s\"", length, name.at);
    } else if (*mark == '~' || *mark == '%') {
        double real = neap_op_attr_real(op, attr->name, 0);
        if (!isfinite(real) || (*mark == '%' && !(real >= 0 && real < 1)))
            neap_fit_fail(fit, "\"%s\" is %g", attr->name, real);
        else if (*mark == '%' && real > 0 && !op->random && fit->def->random)
            neap_fit_fail(fit, "draws random numbers but is not marked as random");
    } else {
        int64_t integer = neap_attr_int(attr);
        if (integer < (*mark == '>') || integer > INT32_MAX)
            neap_fit_fail(fit, "\"%s\" is %lld", attr->name, (long long)integer);
    }
}

static void check_attrs(op_fit *fit)
{
    const char *at = fit->def->attrs ? fit->def->attrs : "";
    while (*at) {
        word name = read_word(&at);
        check_attr(fit, name, at);
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
}

/* ---- Shapes ---- */

static bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F16 || dtype == NEAP_BF16 || dtype == NEAP_F64;
}

static bool fits_kind(op_fit *fit, op_kind kind, neap_dtype dtype)
{
    switch (kind) {
    case ANY:
        fit->any = fit->any == NEAP_DTYPE_UNKNOWN ? dtype : fit->any;
        return fit->any == dtype || (is_float(fit->any) && is_float(dtype));
    case IDS:
        return dtype == NEAP_I64 || dtype == NEAP_I32;
    case PLACES:
        return dtype == NEAP_I64 || dtype == NEAP_I32 || dtype == NEAP_U8;
    case MASK:
        return dtype == NEAP_U8;
    default:
        return is_float(dtype);
    }
}

static bool fits_extent(op_fit *fit, const dim *d, int64_t extent)
{
    if (d->attribute.length) {
        const neap_attr *attr = find_attr(fit->operands->op, d->attribute);
        return attr && neap_attr_int(attr) == extent;
    }
    if (!d->letter)
        return extent == d->factor;
    int64_t *known = &fit->extents[d->letter - 'A'];
    if (*known == 0 && extent % d->factor == 0)
        *known = extent / d->factor;
    return *known != 0 && neap_count_mul(d->factor, *known) == extent;
}

/* How many dimensions are not those of open runs, and how many runs are open. */
static uint32_t known_rank(const op_fit *fit, const pattern *p, uint32_t *n_open)
{
    uint32_t rank = 0;
    *n_open = 0;
    for (uint32_t i = 0; i < p->n_dims; i++) {
        const op_run_of_dims *run = p->dims[i].run ? &fit->runs[p->dims[i].letter - 'A'] : NULL;
        rank += !run ? 1 : run->bound ? run->rank : 0;
        *n_open += run && !run->bound;
    }
    return rank;
}

static bool fits_run(op_run_of_dims *run, const int64_t *shape, uint32_t rank)
{
    if (!run->bound) {
        run->bound = true;
        run->rank = rank;
        memcpy(run->shape, shape, rank * sizeof *shape);
    }
    return memcmp(run->shape, shape, run->rank * sizeof *shape) == 0;
}

static bool fits_shape(op_fit *fit, const pattern *p, const op_shape *x)
{
    uint32_t n_open, rank = known_rank(fit, p, &n_open), at = 0;
    if (n_open == 0 && rank == 0)
        return x->rank == 1 && x->shape[0] == 1;
    if (n_open > 1 || x->rank < rank || (n_open == 0 && x->rank != rank))
        return false;
    for (uint32_t i = 0; i < p->n_dims; i++) {
        op_run_of_dims *run = p->dims[i].run ? &fit->runs[p->dims[i].letter - 'A'] : NULL;
        uint32_t length = !run ? 1 : run->bound ? run->rank : x->rank - rank;
        if (run ? !fits_run(run, x->shape + at, length)
                : !fits_extent(fit, &p->dims[i], x->shape[at]))
            return false;
        at += length;
    }
    return true;
}

/* ---- One form ---- */

static void describe(const op_shape *x, char *text, size_t capacity)
{
    size_t length = (size_t)snprintf(text, capacity, "%s[", neap_dtype_name(x->dtype));
    for (uint32_t d = 0; d < x->rank && length < capacity; d++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%lld", d ? "," : "",
                                   (long long)x->shape[d]);
    if (length < capacity)
        snprintf(text + length, capacity - length, "]");
}

static int form_length(const char *form)
{
    size_t length = strcspn(form, "|");
    return (int)(form[length] ? length - 1 : length);
}

static void fit_operand(op_fit *fit, const pattern *p, uint32_t i)
{
    op_shape x = fit->operands->at(fit->operands->from, i);
    char text[160];
    describe(&x, text, sizeof text);
    if (!fits_kind(fit, p->kind, x.dtype))
        neap_fit_fail(fit, "\"%.*s\" is %s; it must be %s", (int)p->name.length, p->name.at, text,
                      kinds[p->kind].meaning);
    else if (!p->open && !fits_shape(fit, p, &x))
        neap_fit_fail(fit, "\"%.*s\" is %s, which does not fit \"%.*s\"", (int)p->name.length,
                      p->name.at, text, form_length(fit->form), fit->form);
}

/* Whether the number of operands is that of the form. */
static bool fits_counts(const op_fit *fit)
{
    uint32_t least[2] = {0}, most[2] = {0};
    const char *at = fit->form;
    pattern p = {0};
    while (read_operand(&at, &p)) {
        least[p.output] += is_there(fit, &p);
        most[p.output] = p.repeats ? UINT32_MAX : most[p.output] + is_there(fit, &p);
    }
    const neap_op *op = fit->operands->op;
    return op->n_inputs >= least[0] && op->n_inputs <= most[0] &&
           (fit->infer || (op->n_outputs >= least[1] && op->n_outputs <= most[1]));
}

/* Those with two runs that are still open wait for the second round. */
static void fit_operands(op_fit *fit)
{
    const neap_op *op = fit->operands->op;
    for (int round = 0; round < 2; round++) {
        const char *at = fit->form;
        uint32_t i = 0, n_open;
        pattern p = {0};
        while (read_operand(&at, &p) && !fit->failed) {
            uint32_t count = is_there(fit, &p);
            if (p.repeats)
                count = (p.output ? op->n_inputs + op->n_outputs : op->n_inputs) - i;
            if (p.output && i + count > op->n_inputs + op->n_outputs)
                break;
            known_rank(fit, &p, &n_open);
            for (uint32_t k = 0; k < count && (round > 0 || n_open < 2); k++)
                fit_operand(fit, &p, i + k);
            i += count;
        }
    }
}

static bool updates_input(const neap_op *op, uint32_t i)
{
    for (uint32_t k = 0; k < op->n_updates; k++)
        if (op->updates[k] == op->inputs[i])
            return true;
    return false;
}

/* A kernel overwrites exactly what the form marks. The number of operands fits. */
static void fit_updates(op_fit *fit)
{
    const neap_op *op = fit->operands->op;
    const char *at = fit->form;
    uint32_t i = 0, n_updated = 0;
    pattern p = {0};
    while (!fit->failed && read_operand(&at, &p) && !p.output) {
        bool there = is_there(fit, &p);
        if (there && p.updated && ++n_updated && !updates_input(op, i))
            neap_fit_fail(fit, "it must update \"%.*s\"", (int)p.name.length, p.name.at);
        i += there;
    }
    if (n_updated < op->n_updates)
        neap_fit_fail(fit, "it updates %u values; its kernel updates %u", op->n_updates, n_updated);
}

/* The alternative after a form; or NULL. */
static const char *next_form(const char *form)
{
    form = strchr(form, '|');
    return form ? form + 2 : NULL;
}

/* Tries the forms with this many operands in order until one fits. */
static void fit_op(op_fit *fit, const op_operands *operands, bool infer)
{
    const neap_op *op = operands->op;
    const op_def *def = neap_op_def_find(op->type);
    op_fit first = {.failed = false};
    *fit = (op_fit){.def = def, .operands = operands, .infer = infer};
    if (!def) {
        neap_fit_fail(fit, "neap does not know this type of op");
        return;
    }
    check_attrs(fit);
    if (fit->failed)
        return;
    const char *form = def->form;
    for (uint32_t number = 0; form; number++) {
        *fit = (op_fit){.def = def, .operands = operands, .infer = infer};
        fit->form = form;
        fit->form_number = number;
        if (fits_counts(fit)) {
            fit_operands(fit);
            fit_updates(fit);
            if (!fit->failed && def->rule)
                def->rule(fit);
            if (!fit->failed)
                return;
            first = first.failed ? first : *fit;
        }
        form = next_form(form);
    }
    *fit = first;
    if (!first.failed)
        neap_fit_fail(fit, "reads %u and writes %u values; it takes \"%s\"", op->n_inputs,
                      op->n_outputs, def->form);
}

neap_status neap_op_check(const op_operands *operands, neap_diag *diag)
{
    op_fit fit;
    fit_op(&fit, operands, false);
    return fit.failed ? neap_fail(diag, NEAP_UNSUPPORTED, "op \"%s\" (%s): %s", operands->op->name,
                                  operands->op->type, fit.why)
                      : NEAP_OK;
}

uint32_t neap_op_least_inputs(const char *forms)
{
    uint32_t least = UINT32_MAX;
    for (const char *form = forms; form; form = next_form(form)) {
        uint32_t count = 0;
        const char *at = form;
        pattern p = {0};
        while (read_operand(&at, &p))
            count += !p.output && !p.condition.length;
        least = count < least ? count : least;
    }
    return least;
}

int64_t neap_op_integer_limit(const op_operands *operands, uint32_t input)
{
    op_fit fit;
    pattern p = {0};
    uint32_t i = 0;
    fit_op(&fit, operands, false);
    const char *at = fit.form ? fit.form : "";
    while (!fit.failed && read_operand(&at, &p) && !p.output) {
        if (is_there(&fit, &p) && i++ == input && p.limit.factor)
            return p.limit.letter ? fit.extents[p.limit.letter - 'A'] : p.limit.factor;
    }
    return INT64_MAX;
}

/* ---- Rules ---- */

void neap_fit_fail(op_fit *fit, const char *format, ...)
{
    va_list args;
    if (fit->failed)
        return;
    va_start(args, format);
    vsnprintf(fit->why, sizeof fit->why, format, args);
    va_end(args);
    fit->failed = true;
}

int64_t neap_fit_int(const op_fit *fit, const char *attribute)
{
    return neap_op_attr_int(fit->operands->op, attribute, 0);
}

int64_t neap_fit_int_or(const op_fit *fit, const char *attribute, int64_t otherwise)
{
    return neap_op_attr_int(fit->operands->op, attribute, otherwise);
}

int64_t neap_fit_extent(const op_fit *fit, char letter)
{
    int64_t extent = fit->extents[letter - 'A'];
    return extent ? extent : 1;
}

void neap_fit_bind(op_fit *fit, char letter, int64_t extent)
{
    int64_t *known = &fit->extents[letter - 'A'];
    if (extent < 1)
        neap_fit_fail(fit, "the extent %c in \"%.*s\" would be %lld", letter,
                      form_length(fit->form), fit->form, (long long)extent);
    else if (*known && *known != extent)
        neap_fit_fail(fit, "the extent %c in \"%.*s\" is %lld; it must be %lld", letter,
                      form_length(fit->form), fit->form, (long long)*known, (long long)extent);
    else
        *known = extent;
}

uint32_t neap_fit_inputs(const op_fit *fit)
{
    return fit->operands->op->n_inputs;
}

uint32_t neap_fit_outputs(const op_fit *fit)
{
    return fit->operands->op->n_outputs;
}

op_shape neap_fit_input(const op_fit *fit, uint32_t i)
{
    return fit->operands->at(fit->operands->from, i);
}

op_shape neap_fit_output(const op_fit *fit, uint32_t i)
{
    return fit->operands->at(fit->operands->from, fit->operands->op->n_inputs + i);
}

void neap_fit_set_output(op_fit *fit, const op_shape *shape)
{
    fit->made = *shape;
    if (neap_fit_outputs(fit) == 0 || fit->failed)
        return;
    op_shape found = neap_fit_output(fit, 0);
    char is[80], must[80];
    describe(&found, is, sizeof is);
    describe(shape, must, sizeof must);
    if (found.rank != shape->rank ||
        memcmp(found.shape, shape->shape, found.rank * sizeof *found.shape) != 0)
        neap_fit_fail(fit, "its result is %s; it must be %s", is, must);
}

uint32_t neap_fit_form(const op_fit *fit)
{
    return fit->form_number;
}

/* ---- Inference ---- */

static void add_dim(op_fit *fit, op_shape *x, int64_t extent)
{
    if (x->rank == NEAP_MAX_RANK)
        neap_fit_fail(fit, "a tensor has 1 to %d dimensions", NEAP_MAX_RANK);
    else
        x->shape[x->rank++] = extent;
}

static op_shape shape_of(op_fit *fit, const pattern *p)
{
    op_shape x = {.dtype = neap_fit_input(fit, 0).dtype};
    for (uint32_t i = 0; i < p->n_dims; i++) {
        const dim *d = &p->dims[i];
        const op_run_of_dims *run = d->run ? &fit->runs[d->letter - 'A'] : NULL;
        int64_t extent = d->letter ? fit->extents[d->letter - 'A'] : 1;
        for (uint32_t k = 0; run && k < run->rank; k++)
            add_dim(fit, &x, run->shape[k]);
        if (d->attribute.length)
            add_dim(fit, &x, neap_attr_int(find_attr(fit->operands->op, d->attribute)));
        else if (!run)
            add_dim(fit, &x, neap_count_mul(d->factor, extent));
    }
    if (p->open)
        x = neap_fit_outputs(fit) ? neap_fit_output(fit, 0) : fit->made;
    if (x.rank == 0)
        add_dim(fit, &x, 1);
    if (p->kind == F32 || p->kind == MASK)
        x.dtype = p->kind == F32 ? NEAP_F32 : NEAP_U8;
    return x;
}

bool neap_op_infer(const op_operands *operands, op_made *made, uint32_t capacity, uint32_t *count,
                   char *why, size_t why_capacity)
{
    op_fit fit;
    pattern p = {0};
    *count = 0;
    fit_op(&fit, operands, true);
    const char *at = fit.failed ? "" : fit.form;
    while (read_operand(&at, &p))
        if (p.output && *count < capacity)
            made[(*count)++] = (op_made){.name = p.name.at,
                                         .length = (int)p.name.length,
                                         .shape = shape_of(&fit, &p),
                                         .net = p.kind == NET,
                                         .places = p.kind == PLACES};
    snprintf(why, why_capacity, "%s", fit.why);
    return !fit.failed;
}
