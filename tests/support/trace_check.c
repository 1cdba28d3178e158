#include "trace_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* Fields of an event, as bits of what was seen. */
enum {
    PH = 1,
    PID = 2,
    TID = 4,
    TS = 8,
    DUR = 16,
    NAME = 32,
    CAT = 64,
    ARGS = 128,
    ID = 256,
    BP = 512
};

typedef struct point {
    int64_t id, thread;
    double at;
    bool ends;
} point;

typedef struct checker {
    json_reader r;
    trace_facts *facts;
    point *points; /* of arrows */
    size_t n_points;
    double last;           /* "ts" so far; -1: still metadata */
    unsigned named_tracks; /* as bits */
} checker;

typedef struct event {
    char phase;
    unsigned seen;
    int64_t pid, tid, id;
    double ts, dur;
    char *name, *category;
    char *arg_name;     /* of metadata */
    double counter;     /* of a counter: its only argument */
    unsigned n_numbers; /* arguments that are numbers */
    unsigned n_args;
    bool recomputation;
} event;

static char *text_of(checker *c)
{
    json_string s = neap_json_text(&c->r);
    char *copy = malloc(s.length + 1), *cleaned = malloc(s.length + 1);
    assert_true(copy && cleaned);
    memcpy(copy, s.text, s.length);
    copy[s.length] = '\0';
    memcpy(cleaned, copy, s.length + 1);
    neap_string_clean(cleaned);
    assert_string_equal(copy, cleaned);
    free(cleaned);
    if (s.length > c->facts->longest_name)
        c->facts->longest_name = s.length;
    return copy;
}

static void read_args(checker *c, event *e)
{
    json_string key;
    neap_json_begin_object(&c->r);
    while (neap_json_next_key(&c->r, &key)) {
        bool first = e->n_args++ == 0;
        if (neap_json_key_is(key, "name") && first) {
            e->arg_name = text_of(c);
        } else if (neap_json_key_is(key, "recomputation")) {
            e->recomputation = neap_json_bool(&c->r);
        } else if (neap_json_key_is(key, "bytes")) {
            e->counter = (double)neap_json_i64(&c->r);
            e->n_numbers++;
        } else {
            neap_json_skip(&c->r, NULL);
        }
    }
}

static event read_event(checker *c)
{
    event e = {.id = -1};
    json_string key;
    neap_json_begin_object(&c->r);
    while (neap_json_next_key(&c->r, &key)) {
        unsigned field = 0;
        if (neap_json_key_is(key, "ph")) {
            json_string phase = neap_json_text(&c->r);
            assert_int_equal(phase.length, 1);
            e.phase = phase.text[0];
            field = PH;
        } else if (neap_json_key_is(key, "pid")) {
            assert_false(neap_json_peek_real(&c->r));
            e.pid = neap_json_i64(&c->r);
            field = PID;
        } else if (neap_json_key_is(key, "tid")) {
            assert_false(neap_json_peek_real(&c->r));
            e.tid = neap_json_i64(&c->r);
            field = TID;
        } else if (neap_json_key_is(key, "ts")) {
            e.ts = neap_json_double(&c->r);
            field = TS;
        } else if (neap_json_key_is(key, "dur")) {
            e.dur = neap_json_double(&c->r);
            field = DUR;
        } else if (neap_json_key_is(key, "name")) {
            e.name = text_of(c);
            field = NAME;
        } else if (neap_json_key_is(key, "cat")) {
            e.category = text_of(c);
            field = CAT;
        } else if (neap_json_key_is(key, "id")) {
            e.id = neap_json_i64(&c->r);
            field = ID;
        } else if (neap_json_key_is(key, "bp")) {
            assert_true(neap_json_key_is(neap_json_text(&c->r), "e"));
            field = BP;
        } else if (neap_json_key_is(key, "args")) {
            read_args(c, &e);
            field = ARGS;
        } else {
            fail_msg("an event has \"%.*s\"", (int)key.length, key.text);
        }
        assert_int_equal(e.seen & field, 0);
        e.seen |= field;
    }
    return e;
}

static void add_slice(checker *c, event *e)
{
    trace_facts *f = c->facts;
    assert_true(*e->name && *e->category && e->dur >= 0);
    assert_true(c->named_tracks & 1u << e->tid);
    f->slices = realloc(f->slices, (f->n_slices + 1) * sizeof *f->slices);
    assert_non_null(f->slices);
    f->slices[f->n_slices++] =
        (trace_slice){e->tid, e->ts, e->dur, e->name, e->category, e->recomputation};
    e->name = e->category = NULL;
}

static void add_point(checker *c, const event *e)
{
    c->points = realloc(c->points, (c->n_points + 1) * sizeof *c->points);
    assert_non_null(c->points);
    c->points[c->n_points++] = (point){e->id, e->tid, e->ts, e->phase == 'f'};
}

static void add_counter(checker *c, const event *e)
{
    assert_int_equal(e->n_args, 1);
    assert_int_equal(e->n_numbers, 1);
    assert_true(e->counter >= 0);
    c->facts->n_counters++;
    if (strcmp(e->name, "arena") == 0)
        c->facts->arena = e->counter;
    else if (e->counter > c->facts->most_live)
        c->facts->most_live = e->counter;
}

static void add_metadata(checker *c, const event *e)
{
    assert_true(c->last < 0); /* before everything else */
    assert_int_equal(e->n_args, 1);
    if (strcmp(e->name, "thread_name") == 0)
        c->named_tracks |= 1u << e->tid;
    else
        assert_true(strcmp(e->name, "process_name") == 0 ||
                    strcmp(e->name, "thread_sort_index") == 0);
    assert_true(strcmp(e->name, "thread_sort_index") == 0 || (e->arg_name && *e->arg_name));
}

static void take_event(checker *c)
{
    const unsigned every = PH | PID | TID | TS | NAME;
    event e = read_event(c);
    if (!neap_json_ok(&c->r))
        return;
    assert_true(e.pid == 1 && e.tid >= 0 && e.tid < 32 && e.ts >= 0);
    if (e.phase != 'M') {
        assert_true(e.ts >= c->last);
        c->last = e.ts;
    }
    switch (e.phase) {
    case 'M':
        assert_int_equal(e.seen, every | ARGS);
        add_metadata(c, &e);
        break;
    case 'X':
        assert_int_equal(e.seen, every | DUR | CAT | ARGS);
        add_slice(c, &e);
        break;
    case 'C':
        assert_int_equal(e.seen, every | ARGS);
        add_counter(c, &e);
        break;
    case 's':
        assert_int_equal(e.seen, every | CAT | ID);
        add_point(c, &e);
        break;
    case 'f':
        assert_int_equal(e.seen, every | CAT | ID | BP);
        add_point(c, &e);
        break;
    default:
        fail_msg("an event of phase '%c'", e.phase);
    }
    free(e.name);
    free(e.category);
    free(e.arg_name);
}

/* Slices of a track are one after the other, or one inside the other. */
static void check_nesting(const trace_facts *f)
{
    const double slack = 1e-6; /* sums of decimals; a nanosecond is 1e-3 */
    for (size_t i = 0; i < f->n_slices; i++) {
        const trace_slice *a = &f->slices[i];
        for (size_t j = i + 1; j < f->n_slices; j++) {
            const trace_slice *b = &f->slices[j];
            if (b->thread != a->thread)
                continue;
            if (b->begin > a->begin + a->duration - slack)
                break; /* sorted: so do all after it */
            if (b->begin + b->duration > a->begin + a->duration + slack)
                fail_msg("\"%s\" and \"%s\" overlap", a->name, b->name);
        }
    }
}

static bool in_a_slice(const trace_facts *f, const point *p)
{
    for (size_t i = 0; i < f->n_slices; i++) {
        const trace_slice *s = &f->slices[i];
        if (s->thread == p->thread && s->begin <= p->at + 1e-6 &&
            p->at <= s->begin + s->duration + 1e-6)
            return true;
    }
    return false;
}

static void check_arrows(const checker *c)
{
    for (size_t i = 0; i < c->n_points; i++) {
        const point *p = &c->points[i];
        size_t partners = 0;
        assert_true(in_a_slice(c->facts, p));
        for (size_t j = 0; j < c->n_points; j++) {
            const point *q = &c->points[j];
            if (i == j || q->id != p->id)
                continue;
            partners++;
            assert_true(q->ends != p->ends);
            assert_true(p->ends ? q->at <= p->at : p->at <= q->at);
        }
        assert_int_equal(partners, 1);
    }
    c->facts->n_flows = c->n_points / 2;
}

static void read_other_data(checker *c)
{
    json_string key;
    neap_json_begin_object(&c->r);
    while (neap_json_next_key(&c->r, &key)) {
        bool times = neap_json_key_is(key, "times");
        char *text = text_of(c);
        if (times && strlen(text) < sizeof c->facts->times)
            strcpy(c->facts->times, text);
        free(text);
    }
}

void trace_check(const char *text, trace_facts *facts)
{
    neap_diag diag = {0};
    checker c = {.facts = facts, .last = -1};
    json_string key;
    bool has_events = false;
    *facts = (trace_facts){.arena = -1};
    neap_json_init(&c.r, NULL, "trace", text, strlen(text), &diag);
    neap_json_begin_object(&c.r);
    while (neap_json_next_key(&c.r, &key)) {
        if (neap_json_key_is(key, "traceEvents")) {
            has_events = true;
            neap_json_begin_array(&c.r);
            while (neap_json_next_item(&c.r))
                take_event(&c);
        } else if (neap_json_key_is(key, "otherData")) {
            read_other_data(&c);
        } else if (neap_json_key_is(key, "displayTimeUnit")) {
            assert_true(neap_json_key_is(neap_json_text(&c.r), "ms"));
        } else {
            fail_msg("the trace has \"%.*s\"", (int)key.length, key.text);
        }
    }
    neap_json_end(&c.r);
    if (!neap_json_ok(&c.r))
        fail_msg("%s", diag.message);
    neap_json_clear(&c.r);
    assert_true(has_events);
    assert_int_equal(c.named_tracks, 1u << 1 | 1u << 2 | 1u << 3);
    check_nesting(facts);
    check_arrows(&c);
    free(c.points);
}

void trace_facts_clear(trace_facts *facts)
{
    for (size_t i = 0; i < facts->n_slices; i++) {
        free(facts->slices[i].name);
        free(facts->slices[i].category);
    }
    free(facts->slices);
    *facts = (trace_facts){0};
}

size_t trace_count(const trace_facts *facts, int64_t thread)
{
    size_t count = 0;
    for (size_t i = 0; i < facts->n_slices; i++)
        count += facts->slices[i].thread == thread;
    return count;
}
