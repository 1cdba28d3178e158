/* explain_text.c - an explanation in plain words. */

#include "explanation.h"

#include "output.h"
#include "parts.h"
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Paragraphs ---- */

/* Adds a paragraph and empties it. Names in it may come from a hostile file. */
static void add_paragraph(neap_text *out, neap_text *words)
{
    if (words->status == NEAP_OK && words->length > 0) {
        neap_string_clean(words->text);
        cli_wrap(out, words->text, 0, 0, (size_t)cli_width());
        neap_text_puts(out, "\n");
    } else if (words->status != NEAP_OK) {
        out->status = words->status;
    }
    neap_text_clear(words);
}

static void add_heading(neap_text *out, const char *words)
{
    neap_text_puts(out, "\n");
    cli_styled(out, CLI_BOLD, "%s", words);
    neap_text_puts(out, "\n");
}

/* In front of item `i` of `count`. */
static const char *separator(uint32_t i, uint32_t count)
{
    return i == 0 ? "" : i + 1 < count ? ", " : " and ";
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* 0.0712 is "7.1%"; small shares have more digits. */
static const char *show_share(cli_text *text, double share)
{
    double percent = 100 * (share < 0 ? -share : share);
    return cli_format(text,
                      percent < 0.995  ? "%.2f%%"
                      : percent < 9.95 ? "%.1f%%"
                                       : "%.0f%%",
                      percent);
}

/* "costs 7.1%", "costs nothing", "saves 1.2%" */
static void add_cost(neap_text *words, double overhead)
{
    cli_text share;
    if (overhead < EXPLAIN_NOTHING && overhead > -EXPLAIN_NOTHING)
        neap_text_puts(words, "costs nothing");
    else
        neap_text_printf(words, "%s %s", overhead > 0 ? "costs" : "saves",
                         show_share(&share, overhead));
}

static double share_of(int64_t bytes, int64_t all)
{
    return all > 0 ? (double)bytes / (double)all : 1;
}

/* "2.59 GiB (50%)" */
static void add_budget(neap_text *words, const explanation *e, int64_t bytes)
{
    cli_text size;
    neap_text_printf(words, "%s (%.0f%%)", cli_bytes(&size, bytes),
                     100 * share_of(bytes, e->model.natural_peak));
}

/* ---- Without a plan ---- */

static void add_tensors(neap_text *words, const explanation *e)
{
    cli_text size;
    uint32_t count = e->peak.n_tensors;
    if (count == 0)
        return;
    neap_text_printf(words, " The largest tensor%s then: ", plural(count));
    for (uint32_t i = 0; i < count; i++) {
        const neap_value *value = neap_graph_value(e->model.graph, e->peak.tensors[i]);
        neap_text_printf(words, "%s\"%s\" (%s, %s)", separator(i, count), value->name, value->kind,
                         cli_bytes(&size, value->bytes));
    }
    neap_text_puts(words, ".");
}

static void add_layer_name(neap_text *words, const neap_layers *layers, uint32_t layer)
{
    size_t length;
    const char *name = neap_layers_name(layers, layer, &length);
    neap_text_puts(words, "\"");
    neap_text_append(words, name, length);
    neap_text_puts(words, "\"");
}

static void add_peak_layers(neap_text *words, const explanation *e)
{
    const cli_top_layers *top = &e->peak.layers;
    cli_text size;
    int64_t all = 0;
    if (top->count == 0)
        return;
    neap_text_printf(words, "The layer%s that hold%s most of it: ", plural(top->count),
                     top->count == 1 ? "s" : "");
    for (uint32_t i = 0; i < top->count; i++) {
        neap_text_puts(words, separator(i, top->count));
        add_layer_name(words, e->layers, top->items[i].layer);
        neap_text_printf(words, " (%s)", cli_bytes(&size, top->items[i].amount));
        all += top->items[i].amount;
    }
    if (top->count > 1)
        neap_text_printf(words, ", together %.0f%% of the peak",
                         100 * share_of(all, e->model.natural_peak));
    neap_text_puts(words, ". A layer holds its parameters and what its ops write.");
}

static void add_natural(const explanation *e, neap_text *out)
{
    const neap_graph *graph = e->model.graph;
    cli_text size, time;
    neap_text words = {0};
    neap_text_printf(&words, "Without a plan a step takes %s and %s.",
                     cli_bytes(&size, e->model.natural_peak), cli_seconds(&time, e->base_time));
    if (e->peak.op != NEAP_NONE) {
        const neap_op *op = neap_graph_op(graph, e->peak.op);
        neap_text_printf(&words, " It takes the most memory while op \"%s\" of the %s pass runs: ",
                         op->name, op->pass == NEAP_FORWARD ? "forward" : "backward");
        cli_parts_list(&words, &e->peak.parts);
        neap_text_puts(&words, ".");
    }
    add_tensors(&words, e);
    add_paragraph(out, &words);
    add_peak_layers(&words, e);
    add_paragraph(out, &words);
}

/* ---- The budget ---- */

/* "It recomputes 53 of 405 ops, runs 40 in place and copies 1.20 GiB to the host." */
static void add_deeds(neap_text *words, const explanation *e)
{
    const neap_figures *f = e->result.figures;
    const explain_plan *plan = &e->plan;
    uint32_t ops = neap_graph_op_count(e->model.graph), count = 0, i = 0;
    cli_text size;
    count += f->recomputed_ops > 0;
    count += plan->in_place > 0;
    count += plan->other_kernels > 0;
    count += f->offloaded_bytes > 0;
    count += plan->host_state > 0;
    if (count == 0)
        return;
    neap_text_puts(words, " The plan ");
    if (f->recomputed_ops > 0)
        neap_text_printf(words, "%sadds %" PRIu64 " recomputation%s to %u op%s",
                         separator(i++, count), f->recomputed_ops, plural(f->recomputed_ops), ops,
                         plural(ops));
    if (plan->in_place > 0)
        neap_text_printf(words, "%sruns %" PRIu64 " op%s in place", separator(i++, count),
                         plan->in_place, plural(plan->in_place));
    if (plan->other_kernels > 0)
        neap_text_printf(words, "%suses another kernel for %u op%s", separator(i++, count),
                         plan->other_kernels, plural(plan->other_kernels));
    if (f->offloaded_bytes > 0)
        neap_text_printf(words, "%scopies %s to the host", separator(i++, count),
                         cli_bytes(&size, f->offloaded_bytes));
    if (plan->host_state > 0)
        neap_text_printf(words, "%skeeps %s of state there between steps", separator(i++, count),
                         cli_bytes(&size, plan->host_state));
    neap_text_puts(words, ".");
}

static void add_proof(neap_text *words, const neap_figures *f)
{
    cli_text share;
    bool any = f->bound_scope == NEAP_SCOPE_ANY;
    if (f->outcome == NEAP_OPTIMAL || (f->bound_time >= 0 && f->gap < EXPLAIN_NOTHING))
        neap_text_puts(words, " No plan in this budget is faster");
    else if (f->bound_time >= 0)
        neap_text_printf(words, " The best plan is at most %s faster than this one",
                         show_share(&share, 1 - 1 / (1 + f->gap)));
    else
        return;
    neap_text_printf(words, "%s%s%s.", any ? "" : " (", any ? "" : cli_scope_words(f->bound_scope),
                     any ? "" : ")");
}

static void add_recomputed_layers(neap_text *words, const explanation *e)
{
    const cli_top_layers *top = &e->plan.layers;
    cli_text time;
    int64_t all = 0;
    if (top->count == 0)
        return;
    neap_text_printf(words, "The layer%s whose recomputation takes longest: ", plural(top->count));
    for (uint32_t i = 0; i < top->count; i++) {
        neap_text_puts(words, separator(i, top->count));
        add_layer_name(words, e->layers, top->items[i].layer);
        neap_text_printf(
            words, " (%s)",
            cli_seconds(&time, neap_graph_seconds(e->model.graph, top->items[i].amount)));
        all += top->items[i].amount;
    }
    if (top->count > 1)
        neap_text_printf(words, ", together %.0f%% of all recomputation",
                         100 * share_of(all, e->plan.recompute_ticks));
    neap_text_puts(words, ".");
}

static void add_plan(const explanation *e, neap_text *out)
{
    const neap_figures *f = e->result.figures;
    cli_text time, share;
    neap_text words = {0};
    neap_text_puts(&words, "In ");
    add_budget(&words, e, e->budget);
    neap_text_printf(&words, " a step takes %s", cli_seconds(&time, f->time));
    if (f->overhead < EXPLAIN_NOTHING && f->overhead > -EXPLAIN_NOTHING)
        neap_text_puts(&words, ": the budget costs nothing.");
    else
        neap_text_printf(&words, ", %s %s.", show_share(&share, f->overhead),
                         f->overhead > 0 ? "more" : "less");
    add_proof(&words, f);
    add_deeds(&words, e);
    add_paragraph(out, &words);
    add_recomputed_layers(&words, e);
    add_paragraph(out, &words);
}

/* What the op that sets the floor needs: "116 MiB of inputs and parameters that stay throughout,
   and 196 MiB that it reads, writes and works in". */
static void add_floor_parts(neap_text *words, const explanation *e, int64_t floor, uint32_t op)
{
    const neap_graph *graph = e->model.graph;
    int64_t base = e->model.moves_state ? 0 : neap_graph_base_bytes(graph);
    cli_text size;
    if (op != NEAP_NONE && base > 0 && base < floor) {
        neap_text_printf(words, " Of that, %s are data, parameters and state that stay throughout",
                         cli_bytes(&size, base));
        neap_text_printf(words, ", and %s are what the op reads, writes and works in.",
                         cli_bytes(&size, floor - base));
    }
}

static void add_infeasible(const explanation *e, neap_text *out)
{
    const neap_figures *f = e->result.figures;
    cli_text least;
    neap_text words = {0};
    neap_text_puts(&words, "No plan fits ");
    add_budget(&words, e, e->budget);
    if (e->budget < f->floor_bytes) {
        if (f->floor_op == NEAP_NONE)
            neap_text_puts(&words, ": the outputs of the step, such as gradients, and what stays "
                                   "throughout need ");
        else
            neap_text_printf(&words, ": op \"%s\" needs ",
                             neap_graph_op(e->model.graph, f->floor_op)->name);
        neap_text_printf(&words, "%s whatever is recomputed.", cli_bytes(&least, f->floor_bytes));
        add_floor_parts(&words, e, f->floor_bytes, f->floor_op);
    } else {
        neap_text_printf(&words, " that %s finds.", e->method);
        if (f->least_budget > 0)
            neap_text_printf(&words, " It needs %s.", cli_bytes(&least, f->least_budget));
    }
    if (e->least.plan) {
        neap_text_puts(&words, " The least that works is ");
        add_budget(&words, e, e->least.figures->arena_bytes);
        neap_text_puts(&words, ", which ");
        add_cost(&words, e->least.figures->overhead);
        neap_text_puts(&words, ".");
    }
    add_paragraph(out, &words);
}

/* ---- The curve ---- */

/* A round number of bytes, at most a fifteenth of all. */
static int64_t round_unit(int64_t all)
{
    int64_t unit = 1;
    for (int64_t next = 10; next <= all / 15;
         next = unit % 100 == 0 ? unit / 100 * 1024 : unit * 10)
        unit = next;
    return unit;
}

/* "100 MiB", without a fraction. */
static void show_unit(cli_text *text, int64_t unit)
{
    cli_bytes(text, unit);
    char *point = strchr(text->chars, '.'), *blank = strchr(text->chars, ' ');
    if (point && blank && point < blank)
        memmove(point, blank, strlen(blank) + 1);
}

/* How much the overhead grows for each unit of memory less, between two points. */
static double slope(const explain_point *a, const explain_point *b, int64_t unit)
{
    double units = (double)(b->budget - a->budget) / (double)unit;
    return units > 0 ? (a->overhead - b->overhead) / units : 0;
}

static void add_knee(neap_text *words, const explanation *e)
{
    const explain_curve *c = &e->curve;
    const explain_point *first = &c->points[c->first], *knee = &c->points[c->knee],
                        *last = &c->points[c->count - 1];
    int64_t unit = round_unit(e->model.natural_peak);
    cli_text size, share;
    show_unit(&size, unit);
    neap_text_puts(words, "The knee is at ");
    add_budget(words, e, knee->budget);
    neap_text_puts(words, ", which ");
    add_cost(words, knee->overhead);
    neap_text_printf(words, ". Below it each %s less costs %s", size.chars,
                     show_share(&share, slope(first, knee, unit)));
    neap_text_puts(words, ", down to ");
    add_budget(words, e, first->budget);
    neap_text_printf(words, " at %s", show_share(&share, first->overhead));
    if (knee->overhead - last->overhead > EXPLAIN_NOTHING)
        neap_text_printf(words, "; above it each %s more saves %s", size.chars,
                         show_share(&share, slope(knee, last, unit)));
    neap_text_puts(words, ".");
}

static void add_no_knee(neap_text *words, const explanation *e)
{
    const explain_curve *c = &e->curve;
    if (c->first < 0) {
        neap_text_puts(words, "No budget below the peak was found to work.");
        return;
    }
    const explain_point *first = &c->points[c->first];
    neap_text_puts(words, "The smallest budget that was planned is ");
    add_budget(words, e, first->budget);
    neap_text_puts(words, ", which ");
    add_cost(words, first->overhead);
    neap_text_puts(words, first->overhead < EXPLAIN_NOTHING
                              ? "."
                              : ". There is no knee: the cost rises evenly as memory shrinks.");
}

static void add_points(const explain_curve *c, neap_text *out)
{
    static const cli_column COLUMNS[] = {{"budget", true, false}, {"overhead", true, false}};
    cli_table table;
    cli_text text;
    cli_table_init(&table, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0], 2);
    for (uint32_t i = 0; i < c->count; i++) {
        const explain_point *p = &c->points[i];
        bool knee = (int)i == c->knee;
        cli_cell(&table, knee ? CLI_BOLD : CLI_PLAIN, "%s", cli_bytes(&text, p->budget));
        if (p->feasible)
            cli_cell(&table, knee ? CLI_BOLD : CLI_PLAIN, "%s", cli_percent(&text, p->overhead));
        else
            cli_cell(&table, CLI_DIM, "-");
    }
    cli_table_finish(&table, out);
}

static void add_curve(const explanation *e, neap_text *out)
{
    const explain_curve *c = &e->curve;
    neap_text words = {0};
    if (c->count == 0)
        return;
    add_heading(out, "What other budgets cost");
    if (c->knee >= 0)
        add_knee(&words, e);
    else
        add_no_knee(&words, e);
    if (c->cut_short)
        neap_text_puts(&words, " With a longer --time-limit some of these may cost less.");
    add_paragraph(out, &words);
    if (c->first >= 0 && c->points[c->first].overhead > EXPLAIN_NOTHING)
        add_points(c, out);
}

/* ---- What would help ---- */

static const char *what_it_is(explain_kind kind)
{
    static const char *const WORDS[EXPLAIN_CHANGES] = {
        [EXPLAIN_BATCH_FREE] = "a smaller batch", [EXPLAIN_BATCH_CHEAP] = "a smaller batch",
        [EXPLAIN_LINK] = "copies to the host",    [EXPLAIN_STATE] = "state on the host",
        [EXPLAIN_IN_PLACE] = "runs in place",     [EXPLAIN_OPTIMIZER] = "updates in the step",
        [EXPLAIN_DTYPE] = "another number type",
    };
    return WORDS[kind];
}

static void add_batch(neap_text *words, const explain_change *change)
{
    add_cost(words, change->overhead);
    neap_text_printf(words, "; batch %" PRId64, change->next_batch);
    neap_text_puts(words, " ");
    if (change->next_feasible)
        add_cost(words, change->next_overhead);
    else
        neap_text_puts(words, "does not fit");
}

static void add_moved(neap_text *words, const explain_change *change)
{
    cli_text size;
    if (change->moved > 0)
        neap_text_printf(words, "; copies %s to the host", cli_bytes(&size, change->moved));
    if (change->host_state > 0)
        neap_text_printf(words, "%s %s of state there", change->moved > 0 ? ", keeps" : "; keeps",
                         cli_bytes(&size, change->host_state));
}

static void add_change(cli_table *table, const explanation *e, explain_kind kind)
{
    const explain_change *change = &e->changes[kind];
    bool batch = kind == EXPLAIN_BATCH_FREE || kind == EXPLAIN_BATCH_CHEAP;
    neap_text words = {0};
    neap_text_printf(&words, "%s: ", what_it_is(kind));
    if (batch) {
        add_batch(&words, change);
    } else {
        add_cost(&words, change->overhead);
        add_moved(&words, change);
        if (*change->note.chars)
            neap_text_printf(&words, " (%s)", change->note.chars);
    }
    cli_cell(table, CLI_BOLD, "%s", change->option.chars);
    cli_cell(table, CLI_PLAIN, "%s", neap_text_get(&words));
    if (words.status != NEAP_OK)
        table->cells.status = words.status;
    neap_text_clear(&words);
}

/* More memory: the knee if it is larger, or the smallest budget of the curve that fits, or that at
   least halves the overhead. */
static const explain_point *more_memory(const explanation *e)
{
    const explain_curve *c = &e->curve;
    double half = e->result.plan ? e->result.figures->overhead / 2 : HUGE_VAL;
    if (c->count == 0)
        return NULL;
    if (c->knee >= 0 && c->points[c->knee].budget > e->budget &&
        (!e->result.plan || c->points[c->knee].overhead < 2 * half - EXPLAIN_NOTHING))
        return &c->points[c->knee];
    for (uint32_t i = 0; i < c->count; i++)
        if (c->points[i].feasible && c->points[i].budget > e->budget &&
            c->points[i].overhead <= half)
            return &c->points[i];
    return NULL;
}

static void add_more_memory(cli_table *table, int64_t budget, double overhead, bool knee)
{
    cli_text size;
    neap_text words = {0};
    neap_text_puts(&words, "more memory: ");
    add_cost(&words, overhead);
    neap_text_puts(&words, knee ? "; the knee" : "");
    cli_cell(table, CLI_BOLD, "--budget %s", cli_bytes_above(&size, budget));
    cli_cell(table, CLI_PLAIN, "%s", neap_text_get(&words));
    if (words.status != NEAP_OK)
        table->cells.status = words.status;
    neap_text_clear(&words);
}

/* "Does not help: updates in the step. Not reached: smaller batches." */
static void add_rest(const explanation *e, neap_text *out)
{
    neap_text useless = {0}, missed = {0};
    for (int i = 0; i < EXPLAIN_CHANGES; i++) {
        const explain_change *change = &e->changes[i];
        neap_text *list = change->state == EXPLAIN_NOT_REACHED                          ? &missed
                          : change->state == EXPLAIN_TRIED && !explain_helps(e, change) ? &useless
                                                                                        : NULL;
        const char *words = what_it_is((explain_kind)i);
        if (list && !strstr(neap_text_get(list), words))
            neap_text_printf(list, "%s%s", list->length ? ", " : "", words);
    }
    neap_text words = {0};
    if (useless.length > 0)
        neap_text_printf(&words, "Tried without a gain: %s. ", useless.text);
    if (missed.length > 0)
        neap_text_printf(&words, "Not reached in time: %s. ", missed.text);
    if (useless.status != NEAP_OK || missed.status != NEAP_OK)
        out->status = NEAP_NO_MEMORY;
    if (words.length > 0)
        words.text[--words.length] = '\0';
    add_paragraph(out, &words);
    neap_text_clear(&useless);
    neap_text_clear(&missed);
}

static void add_kernels(const explanation *e, neap_text *out)
{
    const explain_kernels *k = &e->kernels;
    cli_text from, to;
    neap_text words = {0};
    if (k->choices == 0 || k->peak >= e->model.natural_peak)
        return;
    cli_bytes(&from, e->model.natural_peak);
    neap_text_printf(&words,
                     "%u op%s can choose among kernels. With the least workspace, a step without a "
                     "plan takes %s instead of %s and ",
                     k->choices, plural(k->choices), cli_bytes(&to, k->peak), from.chars);
    add_cost(&words, k->overhead);
    neap_text_puts(&words, "; plans choose kernels by themselves.");
    add_paragraph(out, &words);
}

static void add_changes(const explanation *e, neap_text *out)
{
    static const cli_column COLUMNS[] = {{NULL, false, false}, {NULL, false, false}};
    const explain_point *more = more_memory(e);
    cli_table table;
    bool least = !more && !e->result.plan && e->least.plan;
    uint32_t count = more || least;
    for (int i = 0; i < EXPLAIN_CHANGES; i++)
        count += explain_helps(e, &e->changes[i]);
    if (e->result.plan && e->result.figures->overhead < EXPLAIN_NOTHING)
        return;
    add_heading(out, e->result.plan ? "What would help" : "What would make it fit");
    if (count > 0) {
        cli_table_init(&table, COLUMNS, 2, 2);
        for (int i = 0; i < EXPLAIN_CHANGES; i++)
            if (explain_helps(e, &e->changes[i]))
                add_change(&table, e, (explain_kind)i);
        if (more)
            add_more_memory(&table, more->budget, more->overhead,
                            e->curve.knee >= 0 && more == &e->curve.points[e->curve.knee]);
        if (least)
            add_more_memory(&table, e->least.figures->arena_bytes, e->least.figures->overhead,
                            false);
        cli_table_finish(&table, out);
    }
    if (e->settings->backend && cli_has_batches(&e->model))
        neap_text_puts(out, "Not tried with --backend: another batch, number type or optimizer.\n");
    add_rest(e, out);
}

void explain_add_text(const explanation *e, neap_text *out)
{
    cli_report_title(out, &e->model);
    neap_text_puts(out, "\n\n");
    add_natural(e, out);
    add_kernels(e, out);
    if (e->result.method) {
        add_heading(out, "The budget");
        if (e->result.plan)
            add_plan(e, out);
        else if (e->result.figures->outcome == NEAP_INFEASIBLE)
            add_infeasible(e, out);
    }
    if (e->budget >= 0)
        add_changes(e, out);
    add_curve(e, out);
}
