/*
 * checkmate-lp: Checkmate's relaxation, rounded.
 *
 * Jain et al. 2020, section 5 and Appendix D: the linear relaxation of problem (9) is solved with
 * an allowance eps on the budget, its S rounded deterministically or at random, R made to fit
 * (two_phase.h). The paper takes eps = 0.1 and suggests a search; the default here begins with no
 * allowance, raises it until a rounding fits, and then halves the last interval. The paper rounds
 * at 0.5; the authors' program can also take the best of nine thresholds (rounding=thresholds).
 * With phases=one R
 * and S are rounded independently, which section 5.1 tries in vain (naive_rounding.h).
 *
 * Beyond the paper, each of which an option turns off: the program is written with gaps, which
 * gives a tighter relaxation and other fractions (model, paper_model.h has the printed one); quick
 * methods give a first plan, and its time rules out running slow ops again, which tightens the
 * relaxation a lot (start; the printed program takes no such hint); a rounding that does not fit is
 * made to by further drops, and recomputations that the budget does not need are taken out (mend).
 * The plan is the best of all; `rounded_time` tells what roundings reached, mended or not.
 *
 * The value of the relaxation without an allowance, or the first plan's time if that is less, is a
 * proven bound.
 */
#include "base/fail.h"
#include "planners/checkmate/frontier_search.h"
#include "planners/checkmate/incumbent.h"
#include "planners/checkmate/naive_rounding.h"
#include "planners/checkmate/paper_search.h"
#include "planners/checkmate/relaxation.h"

enum { MODEL, PHASES, ROUNDING, ALLOWANCE, EPS, THRESHOLD, SAMPLES, START, MEND, MOST_COLUMNS };
enum { GAPS, PAPER };
enum { TWO_PHASES, ONE_PHASE };
enum { DETERMINISTIC, RANDOMIZED, THRESHOLDS };
enum { SEARCHED, FIXED };
enum { YES, NO };

static const neap_option options[] = {
    [MODEL] = NEAP_CHOICE_OPTION(
        "model", "gaps|paper", "whose relaxation: neap's way to write the program, or the paper's"),
    [PHASES] = NEAP_CHOICE_OPTION("phases", "two|one",
                                  "round S and let R follow, or both independently (section 5.1)"),
    [ROUNDING] =
        NEAP_CHOICE_OPTION("rounding", "deterministic|randomized|thresholds",
                           "above the threshold, with the relaxation's value as probability, or "
                           "above each of 0.1, 0.2, ..., 0.9"),
    [ALLOWANCE] = NEAP_CHOICE_OPTION("allowance", "search|fixed",
                                     "of memory for the rounding: searched for, or eps as it is"),
    [EPS] = NEAP_REAL_OPTION("eps", 0, 1, 0.1,
                             "the fixed allowance: the relaxation gets (1 - eps) of the budget"),
    [THRESHOLD] = NEAP_REAL_OPTION("threshold", 0, 1, 0.5, "of deterministic rounding"),
    [SAMPLES] =
        NEAP_INTEGER_OPTION("samples", 1, 1e6, 50, "of randomized rounding, for each relaxation"),
    [START] = NEAP_CHOICE_OPTION("start", "yes|no",
                                 "whether quick methods' best plan bounds what is looked for"),
    [MEND] = NEAP_CHOICE_OPTION("mend", "yes|no",
                                "whether roundings are repaired to the budget and trimmed"),
    [MOST_COLUMNS] = RELAXATION_MOST_COLUMNS,
};

/* Rounds of the local search for the first plan: its time need not be the best. */
#define START_ROUNDS 200

/* Of roundings in one phase. */
typedef struct naive_counts {
    uint64_t draws;
    uint64_t correct; /* are plans: nothing is missing */
    uint64_t fitting; /* and keep the budget */
    uint64_t missing; /* values, in the last of them; not counted to the end at random */
} naive_counts;

typedef struct rounder {
    const planner *p;
    relaxation relaxed;       /* of the one program ... */
    paper_relaxation printed; /* ... or the other */
    highs_outcome outcome;    /* of the last relaxation */
    bool too_large;           /* the last one to round was not begun, for lack of time */
    lp_schedule schedule;     /* that it proposes, if solved */
    incumbent first;          /* what quick methods found */
    incumbent rounded;        /* what rounding found */
    frontier_rows rows;
    uint64_t random;
    int64_t bound_ticks;
    bool is_bounded; /* by the relaxation without an allowance ... */
    bool lp_solved;  /* ... which was solved to its end */
    bool proven;     /* nothing is faster than the first plan */
    double best_eps;
    int64_t *sample_ticks, *sample_peaks; /* of randomized rounding: all draws, as they fell */
    neap_columns samples;
    size_t n_samples;
    naive_counts naive;
} rounder;

static neap_status note_sample(rounder *r, const draft *sample, neap_diag *diag)
{
    NEAP_TRY(NEAP_RESERVE_COLUMNS(&r->samples, r->p->allocator, r->n_samples + 1, diag,
                                  NEAP_COLUMN(&r->sample_ticks), NEAP_COLUMN(&r->sample_peaks)));
    r->sample_ticks[r->n_samples] = sample->predicted_ticks;
    r->sample_peaks[r->n_samples++] = sample->predicted_peak;
    return NEAP_OK;
}

/* How the nth rounding of a relaxation is done, and how many there are. */
static rounding how_to_round(rounder *r, int64_t nth)
{
    const double *chosen = r->p->options;
    return (rounding){.threshold = chosen[ROUNDING] == THRESHOLDS ? 0.1 * (double)(nth + 1)
                                                                  : chosen[THRESHOLD],
                      .random = chosen[ROUNDING] == RANDOMIZED ? &r->random : NULL};
}

static int64_t count_roundings(const rounder *r)
{
    const double *chosen = r->p->options;
    if (chosen[ROUNDING] == RANDOMIZED)
        return (int64_t)chosen[SAMPLES];
    return chosen[ROUNDING] == THRESHOLDS ? 9 : 1;
}

/* Rounds the relaxation as it stands; *fits tells whether that alone is within the budget. */
static neap_status round_once(rounder *r, double eps, int64_t nth, bool *fits, neap_diag *diag)
{
    const planner *p = r->p;
    bool randomized = p->options[ROUNDING] == RANDOMIZED, mend = p->options[MEND] == YES;
    rounding how = how_to_round(r, nth);
    int64_t before = r->rounded.ticks;
    draft raw = {0};
    neap_frontier_rows_restart(&r->rows);
    neap_status status = neap_two_phase_round(&r->schedule, &how, &r->rows, diag);
    if (status == NEAP_OK)
        status = neap_planner_use_sequence(p, &raw, r->rows.sequence, r->rows.length, diag);
    if (status == NEAP_OK && randomized)
        status = note_sample(r, &raw, diag);
    *fits = raw.predicted_peak <= p->budget;
    if (status == NEAP_OK && mend && !*fits)
        status =
            neap_frontier_search_repair(p, &r->rounded, r->rows.sequence, r->rows.length, diag);
    if (status == NEAP_OK && mend)
        status =
            neap_incumbent_offer_trimmed(&r->rounded, p, r->rows.sequence, r->rows.length, diag);
    else if (status == NEAP_OK)
        status = neap_incumbent_offer(&r->rounded, p, r->rows.sequence, r->rows.length, diag);
    if (r->rounded.ticks < before)
        r->best_eps = eps;
    neap_plan_destroy(raw.plan);
    return status;
}

/* Rounds R and S independently, `samples` times; *fits tells whether one of those is a plan within
   the budget. */
static neap_status round_naively(rounder *r, double eps, int64_t samples, bool *fits,
                                 neap_diag *diag)
{
    const planner *p = r->p;
    naive_rounder *naive;
    neap_status status = neap_naive_rounder_create(p->allocator, &r->schedule, &naive, diag);
    for (int64_t i = 0; i < samples && status == NEAP_OK && !neap_planner_stopped(p); i++) {
        const rounding how = how_to_round(r, i);
        int64_t before = r->rounded.ticks;
        draft raw = {0};
        size_t length;
        r->naive.draws++;
        r->naive.missing = neap_naive_rounder_round(naive, &how);
        if (r->naive.missing > 0)
            continue;
        const uint32_t *sequence = neap_naive_rounder_sequence(naive, &length);
        status = neap_planner_use_sequence(p, &raw, sequence, length, diag);
        if (status == NEAP_OK)
            status = note_sample(r, &raw, diag);
        bool one = status == NEAP_OK && raw.predicted_peak <= p->budget;
        r->naive.correct++;
        r->naive.fitting += one;
        *fits = *fits || one;
        if (one)
            status = neap_incumbent_offer(&r->rounded, p, sequence, length, diag);
        if (r->rounded.ticks < before)
            r->best_eps = eps;
        neap_plan_destroy(raw.plan);
    }
    neap_naive_rounder_destroy(naive);
    return status;
}

/* ---- The relaxation ---- */

static neap_status relax_printed(rounder *r, int64_t budget, int64_t *bound, neap_diag *diag)
{
    const planner *p = r->p;
    const paper_options program = {.partitioned = true, .budget = budget};
    neap_paper_relaxation_clear(&r->printed);
    NEAP_TRY(neap_paper_relaxation_solve(&r->printed, p, &program, diag));
    r->outcome = r->printed.outcome;
    *bound = r->printed.bound_ticks;
    return r->outcome == HIGHS_SOLVED
               ? neap_lp_schedule_of_paper(&r->schedule, p->allocator, &r->printed.model,
                                           r->printed.values, diag)
               : NEAP_OK;
}

static neap_status relax_gaps(rounder *r, int64_t budget, int64_t *bound, neap_diag *diag)
{
    const planner *p = r->p;
    frontier_options program = {FRONTIER_PARTITIONED, budget, r->first.ticks};
    neap_relaxation_clear(&r->relaxed);
    NEAP_TRY(neap_relaxation_solve(&r->relaxed, p, &program, r->first.ticks, diag));
    r->outcome = r->relaxed.outcome;
    *bound = r->relaxed.bound_ticks;
    return r->outcome == HIGHS_SOLVED
               ? neap_lp_schedule_of_gaps(&r->schedule, p->allocator, &r->relaxed.model,
                                          r->relaxed.values, diag)
               : NEAP_OK;
}

/* Solves it with an allowance, and notes the bound that it proves without one. */
static neap_status relax(rounder *r, double eps, neap_diag *diag)
{
    const planner *p = r->p;
    bool paper = p->options[MODEL] == PAPER;
    int64_t budget = (int64_t)((1 - eps) * (double)p->budget), bound;
    int64_t least = neap_graph_floor_bytes(p->graph, NULL);
    budget = budget > least ? budget : least;
    neap_lp_schedule_clear(&r->schedule);
    NEAP_TRY(paper ? relax_printed(r, budget, &bound, diag) : relax_gaps(r, budget, &bound, diag));
    if (eps == 0 && r->outcome != HIGHS_GAVE_UP) {
        r->bound_ticks = bound;
        r->is_bounded = true;
        r->lp_solved = r->outcome == HIGHS_SOLVED;
        r->proven = r->outcome == HIGHS_INFEASIBLE && !paper; /* it knows only faster plans */
    }
    return NEAP_OK;
}

/* Solves with an allowance and rounds; *fits tells whether there is a plan now. */
static neap_status try_eps(rounder *r, double eps, bool *fits, neap_diag *diag)
{
    const planner *p = r->p;
    int64_t samples = count_roundings(r);
    *fits = false;
    NEAP_TRY(relax(r, eps, diag));
    r->too_large = r->printed.too_large;
    if (r->outcome != HIGHS_SOLVED)
        return NEAP_OK;
    if (p->options[PHASES] == ONE_PHASE)
        return round_naively(r, eps, samples, fits, diag);
    for (int64_t i = 0; i < samples && !neap_planner_stopped(p); i++) {
        bool one;
        NEAP_TRY(round_once(r, eps, i, &one, diag));
        *fits = *fits || one;
    }
    return NEAP_OK;
}

static bool is_over(const rounder *r)
{
    return neap_planner_stopped(r->p) || r->outcome == HIGHS_INFEASIBLE ||
           r->outcome == HIGHS_STOPPED;
}

/* The least allowance that gives a plan, roughly: costs rise with it. */
static neap_status search_eps(rounder *r, neap_diag *diag)
{
    static const double ladder[] = {0, 0.05, 0.1, 0.2, 0.3, 0.4};
    double low = 0, high = -1;
    bool fits = false;
    for (size_t i = 0; i < sizeof ladder / sizeof *ladder && high < 0; i++) {
        NEAP_TRY(try_eps(r, ladder[i], &fits, diag));
        if (is_over(r))
            return NEAP_OK;
        if (fits)
            high = ladder[i];
        else
            low = ladder[i];
    }
    for (int step = 0; step < 2 && high > low && !is_over(r); step++) {
        double middle = 0.5 * (low + high);
        NEAP_TRY(try_eps(r, middle, &fits, diag));
        if (fits)
            high = middle;
        else
            low = middle;
    }
    return NEAP_OK;
}

/* The rounding comes first: the relaxation without an allowance is for the bound alone. */
static neap_status use_fixed_eps(rounder *r, neap_diag *diag)
{
    bool fits;
    double eps = r->p->options[EPS];
    NEAP_TRY(try_eps(r, eps, &fits, diag));
    bool over = neap_planner_stopped(r->p) || r->outcome == HIGHS_STOPPED;
    return eps > 0 && !over ? relax(r, 0, diag) : NEAP_OK;
}

/* The natural order, and with `start` what quick methods find. */
static neap_status begin(rounder *r, neap_diag *diag)
{
    const planner *p = r->p;
    if (p->options[START] != YES)
        return neap_incumbent_offer_natural(&r->first, p, diag);
    NEAP_TRY(neap_incumbent_begin(&r->first, p, diag));
    return r->first.ticks > neap_graph_least_ticks(p->graph)
               ? neap_frontier_search_improve(p, &r->first, START_ROUNDS, diag)
               : NEAP_OK;
}

static neap_status run(rounder *r, neap_diag *diag)
{
    const planner *p = r->p;
    double most = p->options[MOST_COLUMNS];
    if (p->options[MODEL] == PAPER)
        NEAP_TRY(neap_paper_refuse_big(p, true, most, diag));
    else
        NEAP_TRY(neap_relaxation_refuse_big(p, FRONTIER_PARTITIONED, most, diag));
    NEAP_TRY(begin(r, diag));
    if (r->first.ticks <= neap_graph_least_ticks(p->graph))
        return NEAP_OK;
    NEAP_TRY(neap_frontier_rows_init(&r->rows, p->allocator, p->graph, diag));
    return p->options[ALLOWANCE] == FIXED ? use_fixed_eps(r, diag) : search_eps(r, diag);
}

static neap_status tell(const rounder *r, draft *d, neap_diag *diag)
{
    const planner *p = r->p;
    const neap_graph *graph = p->graph;
    if (r->lp_solved)
        NEAP_TRY(
            neap_draft_add_bound(p, d, "lp_time", neap_graph_seconds(graph, r->bound_ticks), diag));
    if (r->rounded.ticks != INT64_MAX) {
        NEAP_TRY(neap_draft_add_number(p, d, "rounded_time",
                                       neap_graph_seconds(graph, r->rounded.ticks), diag));
        NEAP_TRY(neap_draft_add_number(p, d, "eps", r->best_eps, diag));
    }
    if (r->n_samples > 0) {
        NEAP_TRY(neap_draft_add_list(p, d, "sample_ticks", r->sample_ticks, r->n_samples, diag));
        NEAP_TRY(neap_draft_add_list(p, d, "sample_peaks", r->sample_peaks, r->n_samples, diag));
    }
    if (r->naive.draws > 0) {
        NEAP_TRY(neap_draft_add_number(p, d, "draws", (double)r->naive.draws, diag));
        NEAP_TRY(neap_draft_add_number(p, d, "correct_draws", (double)r->naive.correct, diag));
        NEAP_TRY(neap_draft_add_number(p, d, "fitting_draws", (double)r->naive.fitting, diag));
        if (p->options[ROUNDING] == DETERMINISTIC)
            NEAP_TRY(neap_draft_add_number(p, d, "missing", (double)r->naive.missing, diag));
    }
    if (r->too_large)
        NEAP_TRY(neap_paper_explain_size(p, true, d, diag));
    return NEAP_OK;
}

static void finish(rounder *r, draft *d)
{
    incumbent *best = r->rounded.ticks < r->first.ticks ? &r->rounded : &r->first;
    bool found = best->ticks != INT64_MAX;
    if (r->is_bounded)
        d->bound_ticks = r->bound_ticks < r->first.ticks ? r->bound_ticks : r->first.ticks;
    d->scope = NEAP_SCOPE_FRONTIER;
    d->proven_optimal = found && r->proven;
    d->stopped = neap_planner_stopped(r->p) || r->too_large;
    neap_incumbent_take(best, d);
}

static neap_status plan_checkmate_lp(const planner *p, draft *d, neap_diag *diag)
{
    rounder r = {.p = p,
                 .random = p->request->seed,
                 .best_eps = -1,
                 .bound_ticks = neap_graph_least_ticks(p->graph)};
    neap_incumbent_init(&r.first, p);
    neap_incumbent_init(&r.rounded, p);
    neap_status status = run(&r, diag);
    if (status == NEAP_OK && r.first.ticks == INT64_MAX && r.rounded.ticks == INT64_MAX)
        status = neap_frontier_search_tighten(p, &r.first, diag);
    if (status == NEAP_OK)
        status = tell(&r, d, diag);
    if (status == NEAP_OK)
        finish(&r, d);
    neap_frontier_rows_clear(&r.rows);
    neap_relaxation_clear(&r.relaxed);
    neap_paper_relaxation_clear(&r.printed);
    neap_lp_schedule_clear(&r.schedule);
    neap_incumbent_clear(&r.first, p);
    neap_incumbent_clear(&r.rounded, p);
    neap_columns_clear(&r.samples, p->allocator);
    return status;
}

const neap_method neap_method_checkmate_lp = {
    .name = "checkmate-lp",
    .summary =
        "any graph: the relaxation of Checkmate's problem in two-phase rounding, with its bound",
    .source = "Jain et al. 2020, Checkmate, section 5",
    NEAP_METHOD_OPTIONS(options),
    .part_of = "checkmate",
    .plan = plan_checkmate_lp,
};
