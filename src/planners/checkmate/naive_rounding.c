#include "planners/checkmate/naive_rounding.h"

#include "base/fail.h"
#include "base/memory.h"
#include "base/random.h"

#include <string.h>

/* Fractions nearer to 0 or 1 are whole: a solver's arithmetic is no finer. */
#define WHOLE 1e-9

/* An entry of a matrix that is neither 0 nor 1. */
typedef struct fraction {
    uint32_t column;
    double value;
} fraction;

/* A matrix of bits, with the entries that rounding decides. */
typedef struct bit_matrix {
    size_t words;      /* of a row */
    uint64_t *certain; /* rows x words: entries that are 1 */
    size_t *first;     /* per row, and one past the last: into `fractions` */
    fraction *fractions;
} bit_matrix;

struct naive_rounder {
    neap_allocator *allocator;
    neap_arena arena;
    const lp_schedule *s;
    bit_matrix R, S;
    uint64_t *reads, *makes; /* per op, S.words each: the values */
    uint64_t *outputs;       /* of the graph, S.words */
    uint64_t *runs;          /* a row of R */
    uint64_t *kept, *next;   /* rows of S */
    uint64_t *there, *needed;
    uint32_t *sequence;
    size_t length;
};

static void set_bit(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool has_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static void unite(uint64_t *bits, const uint64_t *other, size_t words)
{
    for (size_t w = 0; w < words; w++)
        bits[w] |= other[w];
}

static uint64_t count_bits(uint64_t word)
{
    uint64_t count = 0;
    for (; word; word &= word - 1)
        count++;
    return count;
}

/* ---- Setting up ---- */

static bool is_fraction(double value)
{
    return value > WHOLE && value < 1 - WHOLE;
}

static bool matrix_init(bit_matrix *m, neap_arena *arena, const double *cells, uint32_t rows,
                        uint32_t columns)
{
    size_t count = 0;
    m->words = columns / 64 + 1;
    for (size_t i = 0; i < (size_t)rows * columns; i++)
        count += is_fraction(cells[i]);
    if (!NEAP_TAKE(arena, rows * m->words, m->certain) ||
        !NEAP_TAKE(arena, rows + (size_t)1, m->first) || !NEAP_TAKE(arena, count, m->fractions))
        return false;
    count = 0;
    for (uint32_t t = 0; t < rows; t++) {
        m->first[t] = count;
        for (uint32_t j = 0; j < columns; j++) {
            double value = cells[(size_t)t * columns + j];
            if (is_fraction(value))
                m->fractions[count++] = (fraction){j, value};
            else if (value >= 1 - WHOLE)
                set_bit(m->certain + t * m->words, j);
        }
    }
    m->first[rows] = count;
    return true;
}

static neap_status set_up(naive_rounder *r, neap_diag *diag)
{
    const lp_schedule *s = r->s;
    size_t n = s->n;
    if (!matrix_init(&r->R, &r->arena, s->R, s->n, s->n) ||
        !matrix_init(&r->S, &r->arena, s->S, s->n, s->n_values))
        return neap_fail_no_memory(diag);
    size_t words = r->S.words;
    if (!NEAP_TAKE(&r->arena, n * words, r->reads) || !NEAP_TAKE(&r->arena, n * words, r->makes) ||
        !NEAP_TAKE(&r->arena, words, r->outputs) || !NEAP_TAKE(&r->arena, r->R.words, r->runs) ||
        !NEAP_TAKE(&r->arena, words, r->kept) || !NEAP_TAKE(&r->arena, words, r->next) ||
        !NEAP_TAKE(&r->arena, words, r->there) || !NEAP_TAKE(&r->arena, words, r->needed) ||
        !NEAP_TAKE(&r->arena, n * n, r->sequence))
        return neap_fail_no_memory(diag);
    for (uint32_t k = 0; k < s->n; k++) {
        const neap_op *op = neap_graph_op(s->graph, k);
        for (uint32_t i = 0; i < op->n_inputs; i++)
            if (neap_graph_value(s->graph, op->inputs[i])->producer != NEAP_NONE)
                set_bit(r->reads + k * words, op->inputs[i]);
        for (uint32_t i = 0; i < op->n_outputs; i++) {
            set_bit(r->makes + k * words, op->outputs[i]);
            if (neap_graph_is_output(s->graph, op->outputs[i]))
                set_bit(r->outputs, op->outputs[i]);
        }
    }
    return NEAP_OK;
}

neap_status neap_naive_rounder_create(neap_allocator *allocator, const lp_schedule *s,
                                      naive_rounder **rounder, neap_diag *diag)
{
    naive_rounder *r;
    *rounder = NULL;
    NEAP_TRY(NEAP_NEW(allocator, 1, &r, diag));
    r->allocator = allocator;
    r->s = s;
    neap_arena_init(&r->arena, allocator);
    neap_status status = set_up(r, diag);
    if (status == NEAP_OK)
        *rounder = r;
    else
        neap_naive_rounder_destroy(r);
    return status;
}

void neap_naive_rounder_destroy(naive_rounder *r)
{
    if (!r)
        return;
    neap_arena_clear(&r->arena);
    NEAP_DELETE(r->allocator, 1, r);
}

/* ---- Rounding ---- */

static void round_row(const bit_matrix *m, uint32_t t, const rounding *how, uint64_t *row)
{
    memcpy(row, m->certain + t * m->words, m->words * sizeof *row);
    for (size_t i = m->first[t]; i < m->first[t + 1]; i++) {
        double threshold = how->random ? neap_random_real(how->random) : how->threshold;
        if (m->fractions[i].value > threshold)
            set_bit(row, m->fractions[i].column);
    }
}

/* Frontier t begins with `kept`, and the next one, or the end, takes `next` over. Returns what is
   missing. */
static uint64_t run_frontier(naive_rounder *r)
{
    size_t words = r->S.words;
    uint64_t missing = 0;
    memcpy(r->there, r->kept, words * sizeof *r->there);
    memcpy(r->needed, r->next, words * sizeof *r->needed);
    for (uint32_t k = 0; k < r->s->n; k++)
        if (has_bit(r->runs, k)) {
            unite(r->there, r->makes + k * words, words);
            unite(r->needed, r->reads + k * words, words);
            r->sequence[r->length++] = k;
        }
    for (size_t w = 0; w < words; w++)
        missing += count_bits(r->needed[w] & ~r->there[w]);
    return missing;
}

uint64_t neap_naive_rounder_round(naive_rounder *r, const rounding *how)
{
    const lp_schedule *s = r->s;
    size_t row_bytes = r->S.words * sizeof *r->kept;
    uint64_t missing = 0;
    r->length = 0;
    memset(r->kept, 0, row_bytes); /* (8b): nothing is there at first */
    for (uint32_t t = 0; t < s->n && (missing == 0 || !how->random); t++) {
        round_row(&r->R, t, how, r->runs);
        if (t + 1 < s->n)
            round_row(&r->S, t + 1, how, r->next);
        else
            memcpy(r->next, r->outputs, row_bytes);
        missing += run_frontier(r);
        memcpy(r->kept, r->next, row_bytes);
    }
    return missing;
}

const uint32_t *neap_naive_rounder_sequence(const naive_rounder *r, size_t *length)
{
    *length = r->length;
    return r->sequence;
}
