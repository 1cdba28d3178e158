/*
 * Convolutions by cuDNN without cuDNN: the search for algorithms, lists in files, parts of the
 * batch and what happens when the library fails, on a stand-in that checks how it is called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <neap/text.h>

#include "conv_check.h"
#include "failing_allocator.h"
#include "fake_cudnn.h"
#include "run_command.h"
#include "settings.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if NEAP_HAS_EMULATION

#include "run/backends/cuda/cudnn_conv.h"

/* ---- A backend with the stand-in ---- */

typedef struct faked {
    cuda_api api;
    cuda_libraries libraries;
    neap_backend *backend;
    cuda_backend *cuda;
    char *folder;  /* of lists, */
    bool no_files; /* which are not kept */
} faked;

static void open_with(faked *f, neap_allocator *allocator)
{
    neap_diag diag;
    f->api = (cuda_api){.cudnnCreate = NULL};
    f->libraries = (cuda_libraries){.allocator = allocator};
    fake_cudnn_init(&f->api, &f->libraries);
    assert_int_equal(neap_backend_open(NULL, "cuda-emulation", 1, &f->backend, &diag), NEAP_OK);
    f->cuda = (cuda_backend *)f->backend;
    f->cuda->libraries = &f->libraries;
    if (f->no_files)
        f->backend->machine[0] = '\0';
}

static void clear_faked(faked *f)
{
    fake_cudnn_fail_at(0, 0);
    neap_cudnn_conv_clear(&f->libraries);
    fake_cudnn_clear(&f->libraries);
    assert_int_equal(fake_cudnn_alive(), 0);
    f->cuda->libraries = NULL;
    neap_backend_close(f->backend);
}

/* As another process would: lists in files stay. */
static void reopen(faked *f)
{
    clear_faked(f);
    open_with(f, f->libraries.allocator);
}

static void open_faked(faked *f)
{
    f->no_files = false;
    f->folder = make_temporary_folder();
    assert_int_equal(setenv("NEAP_CACHE_DIR", f->folder, 1), 0);
    open_with(f, neap_allocator_system());
}

static void remove_lists(const faked *f)
{
    char command[4200];
    snprintf(command, sizeof command, "rm -rf '%s'/convolutions", f->folder);
    assert_int_equal(system(command), 0);
}

static void close_faked(faked *f)
{
    clear_faked(f);
    remove_lists(f);
    remove_temporary_folder(f->folder);
}

/* ---- Results ---- */

static const conv_case cases[] = {
    {4, 8, 6, 7, 8, 3, 1, 1, 1, 1, false, 0, true},
    {6, 8, 5, 6, 16, 3, 2, 1, 1, 2, false, 0, false},
    {2, 4, 9, 5, 8, 5, 1, 2, 1, 1, true, 0, true},
    {3, 16, 5, 5, 8, 1, 1, 0, 1, 1, false, 0, false},
    {4, 3, 7, 7, 8, 3, 1, 2, 2, 1, false, 0, true}, /* parts are not aligned */
    {16, 4, 3, 3, 4, 3, 1, 1, 1, 1, false, 0, true},
    {4, 8, 6, 7, 8, 3, 1, 1, 1, 1, false, 1, true}, /* nothing is aligned */
};
#define CASES ((int)(sizeof cases / sizeof *cases))

/* Every variant, each of which has its numbers from the library if it can. */
static void results_are_right(void **state)
{
    (void)state;
    faked f;
    open_faked(&f);
    for (int i = 0; i < 3 * CASES; i++) {
        const conv_case *c = &cases[i / 3];
        reopen(&f);
        f.cuda->tf32 = i % 3 == 1;
        conv_check(f.backend, c, i / 3, i % 3 == 2 ? NEAP_BF16 : NEAP_F32);
        assert_true((fake_cudnn_runs() > 0) == (c->shift == 0));
    }
    close_faked(&f);
}

/* ---- Lists ---- */

typedef struct conv_call {
    neap_attr attrs[3];
    neap_op op;
    run_array in[3], out[1];
    run_spec spec;
    conv_target target;
} conv_call;

static run_array image(const int64_t *shape)
{
    run_array array = {.dtype = NEAP_F32, .rank = 4};
    memcpy(array.shape, shape, 4 * sizeof *shape);
    neap_run_array_set_channels_last(&array);
    return array;
}

/* With bias and ReLU where it is forward; filters of `side`, no gaps and no padding lost. */
static void set_call(conv_call *c, conv_target target, int64_t batch, int64_t side)
{
    static const char *const types[] = {"conv2d", "conv2d_bw_data", "conv2d_bw_weight"};
    run_array x = image((int64_t[]){batch, 8, 9, 9}), y = image((int64_t[]){batch, 16, 9, 9}),
              w = image((int64_t[]){16, 8, side, side});
    run_array bias = {.dtype = NEAP_F32, .rank = 1, .shape = {16}, .strides = {1}};
    *c = (conv_call){.target = target};
    c->attrs[0] = (neap_attr){.name = "pad_h", .integer = side / 2};
    c->attrs[1] = (neap_attr){.name = "pad_w", .integer = side / 2};
    c->attrs[2] = (neap_attr){.name = "relu", .integer = target == CONV_Y};
    c->in[0] = target == CONV_Y ? x : y;
    c->in[1] = target == CONV_W ? x : w;
    c->in[2] = bias;
    c->out[0] = target == CONV_Y ? y : target == CONV_X ? x : w;
    c->op = (neap_op){.name = "op",
                      .type = types[target],
                      .n_inputs = target == CONV_Y ? 3 : 2,
                      .n_outputs = 1,
                      .n_attrs = 3,
                      .attrs = c->attrs};
    c->spec = (run_spec){.op = &c->op, .in = c->in, .out = c->out};
}

static neap_status find_list(faked *f, const conv_call *c, cudnn_conv_list **list, neap_diag *diag)
{
    conv_problem problem = neap_conv_problem(&c->spec, c->target, false);
    return neap_cudnn_conv_list(f->cuda, &c->spec, &problem, list, diag);
}

/* "1A 10A+ /2 1A 12A(1)": engines and origins; + is fused; /parts; (engine of the first part). */
static char *describe(const cudnn_conv_list *list)
{
    neap_text text;
    int64_t parts = 1;
    neap_text_init(&text, neap_allocator_system());
    for (size_t i = 0; i < list->count; i++) {
        const cudnn_candidate *item = &list->items[i];
        if (item->parts != parts)
            neap_text_printf(&text, " /%d", (int)(parts = item->parts));
        neap_text_printf(&text, " %d%c%s", (int)item->engine.index, item->origin,
                         item->fused ? "+" : "");
        if (item->first.index != item->engine.index)
            neap_text_printf(&text, "(%d)", (int)item->first.index);
    }
    char *copy = strdup(neap_text_get(&text));
    assert_non_null(copy);
    neap_text_clear(&text);
    return copy;
}

static void expect_list(faked *f, const conv_call *c, const char *expected)
{
    cudnn_conv_list *list;
    neap_diag diag = {0};
    assert_int_equal(find_list(f, c, &list, &diag), NEAP_OK);
    char *is = describe(list);
    assert_string_equal(is, expected);
    free(is);
}

/* Recommended ones first, no engine that breaks a promise, parts only where they save workspace. */
static void lists_are_in_order(void **state)
{
    (void)state;
    static const struct {
        conv_target target;
        int64_t batch, side;
        bool tf32, nondeterministic;
        const char *list;
    } expected[] = {
        {CONV_Y, 4, 3, false, false, " 10A+ 1A 2A 2A 9B 0F 6E 7E /2 1A 2A 2A /4 1A 2A 2A"},
        {CONV_Y, 4, 5, false, false, " 10A+ 1A 2A 2A 9B 0F 7E /2 1A 2A 2A /4 1A 2A 2A"},
        {CONV_Y, 1, 3, true, false, " 10A+ 1A 2A 2A 11A 9B 0F 6E 7E"},
        {CONV_X, 6, 3, true, true, " 1A 2A 2A 3A 11A 9B 0F 6E 7E /2 1A 2A 2A"},
        {CONV_W, 6, 1, false, false, " 1A 2A 2A 9B 0F 6E 7E /2 1A 2A 2A 12A(1)"},
        {CONV_W, 6, 1, true, false, " 1A 2A 2A 11A 9B 0F 6E 7E /2 1A 2A 2A 12A(1)"},
    };
    faked f;
    conv_call c;
    open_faked(&f);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        remove_lists(&f);
        reopen(&f);
        f.cuda->tf32 = expected[i].tf32;
        f.cuda->nondeterministic = expected[i].nondeterministic;
        set_call(&c, expected[i].target, expected[i].batch, expected[i].side);
        expect_list(&f, &c, expected[i].list);
    }
    close_faked(&f);
}

/* Another process reads what is in files, and makes a plan only of what it uses. */
static void lists_are_kept(void **state)
{
    (void)state;
    faked f;
    open_faked(&f);
    for (int target = CONV_Y; target <= CONV_W; target++) {
        conv_call c;
        cudnn_conv_list *list;
        cudnn_conv_run *run;
        neap_diag diag = {0};
        set_call(&c, (conv_target)target, 4, 3);
        assert_int_equal(find_list(&f, &c, &list, &diag), NEAP_OK);
        char *made = describe(list);
        size_t count = list->count;
        assert_true(fake_cudnn_plans() >= (int)count);
        reopen(&f);
        expect_list(&f, &c, made);
        assert_int_equal(fake_cudnn_plans(), 0);
        assert_int_equal(find_list(&f, &c, &list, &diag), NEAP_OK);
        assert_int_equal(neap_cudnn_conv_prepare(list, (uint32_t)count - 1, &run, &diag), NEAP_OK);
        assert_int_equal(fake_cudnn_plans(), target == CONV_W ? 2 : 1);
        neap_cudnn_conv_delete(run);
        free(made);
    }
    conv_check(f.backend, &cases[0], 0, NEAP_F32);
    reopen(&f);
    conv_check(f.backend, &cases[0], 0, NEAP_F32); /* by plans of lists from files */
    assert_true(fake_cudnn_runs() > 0);
    close_faked(&f);
}

/* A caller that counts reports, and cancels after some questions. */
typedef struct caller {
    neap_progress base;
    double fraction;
    int reports, patience; /* the question from which on it does; 0: none */
    atomic_int asked;      /* by any thread */
} caller;

static void note_report(neap_progress *self, const neap_progress_event *event)
{
    caller *c = (caller *)self;
    assert_string_equal(event->phase, "finding algorithms");
    assert_true(event->fraction > c->fraction && event->fraction <= 1);
    c->fraction = event->fraction;
    c->reports++;
}

static bool is_impatient(neap_progress *self)
{
    caller *c = (caller *)self;
    return atomic_fetch_add(&c->asked, 1) + 1 >= c->patience && c->patience > 0;
}

enum { AT_ONCE = 9 };

static void announce(faked *f, const conv_call *calls)
{
    neap_diag diag = {0};
    for (int i = 0; i < AT_ONCE; i++) {
        conv_problem problem = neap_conv_problem(&calls[i].spec, calls[i].target, false);
        assert_int_equal(neap_cudnn_conv_announce(f->cuda, &calls[i].spec, &problem, &diag),
                         NEAP_OK);
    }
}

/* Made by all processors at once, they are the same, also after it was cancelled. */
static void lists_are_made_at_once(void **state)
{
    (void)state;
    static const int patiences[] = {1, 2, 10, 100, 0};
    faked f;
    conv_call calls[AT_ONCE];
    char *alone[AT_ONCE];
    neap_diag diag = {0};
    open_faked(&f);
    for (int i = 0; i < AT_ONCE; i++) {
        cudnn_conv_list *list;
        set_call(&calls[i], (conv_target)(i % 3), 1 << i / 3, 3);
        assert_int_equal(find_list(&f, &calls[i], &list, &diag), NEAP_OK);
        alone[i] = describe(list);
    }
    for (size_t k = 0; k < sizeof patiences / sizeof *patiences; k++) {
        caller c = {.base = {note_report, is_impatient}, .patience = patiences[k]};
        remove_lists(&f);
        reopen(&f);
        announce(&f, calls);
        assert_int_equal(neap_cudnn_conv_make_lists(f.cuda, &c.base, &diag), NEAP_OK);
        int plans = fake_cudnn_plans();
        for (int i = 0; i < AT_ONCE; i++)
            expect_list(&f, &calls[i], alone[i]);
        assert_true((fake_cudnn_plans() == plans) == (patiences[k] == 0));
        assert_true(patiences[k] > 0 || c.reports > 0);
        reopen(&f); /* what was kept is whole, too */
        for (int i = 0; i < AT_ONCE; i++)
            expect_list(&f, &calls[i], alone[i]);
    }
    for (int i = 0; i < AT_ONCE; i++)
        free(alone[i]);
    close_faked(&f);
}

/* ---- Failures ---- */

/* A list, then its last algorithm, whatever fails; how many algorithms there were. */
static size_t try_list(faked *f, conv_target target, neap_status *status)
{
    conv_call c;
    cudnn_conv_list *list;
    cudnn_conv_run *run = NULL;
    neap_diag diag = {0};
    set_call(&c, target, 2, 3);
    *status = find_list(f, &c, &list, &diag);
    size_t count = *status == NEAP_OK ? list->count : 0;
    if (count > 0)
        *status = neap_cudnn_conv_prepare(list, (uint32_t)count - 1, &run, &diag);
    neap_cudnn_conv_delete(run);
    assert_true(*status == NEAP_OK || diag.message[0]);
    return count;
}

/* Whichever call fails, what works is listed, and nothing is lost. */
static void calls_may_fail(void **state)
{
    (void)state;
    faked f;
    open_faked(&f);
    f.no_files = true;
    for (int target = CONV_Y; target <= CONV_W; target++) {
        neap_status status;
        bool failed = true;
        reopen(&f);
        size_t all = try_list(&f, (conv_target)target, &status);
        assert_int_equal(status, NEAP_OK);
        for (int n = 1; failed; n += ONE_IN(7)) {
            reopen(&f);
            fake_cudnn_fail_at(n, CUDNN_STATUS_INTERNAL_ERROR);
            size_t count = try_list(&f, (conv_target)target, &status);
            failed = fake_cudnn_has_failed();
            assert_true(failed || count == all);
            assert_int_equal(status, NEAP_OK);
        }
    }
    close_faked(&f);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    faked f;
    failing_allocator allocator;
    failing_allocator_init(&allocator);
    open_faked(&f);
    f.no_files = true;
    bool failed = true;
    for (size_t n = 0; failed; n++) {
        neap_status status;
        allocator.calls = 0;
        allocator.fail_from = n;
        allocator.failed = false;
        f.libraries.allocator = &allocator.base;
        reopen(&f);
        try_list(&f, CONV_W, &status);
        failed = allocator.failed;
        assert_int_equal(status, failed ? NEAP_NO_MEMORY : NEAP_OK);
        allocator.fail_from = SIZE_MAX;
        f.libraries.allocator = &allocator.base;
        reopen(&f);
        assert_int_equal(allocator.live_blocks, 0);
        assert_null(allocator.fault);
    }
    close_faked(&f);
}

/* What failed only because memory was short works next time: such a list is not kept, and neither
   is one without any algorithm. */
static void lists_without_memory_are_not_kept(void **state)
{
    (void)state;
    static const int statuses[] = {CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                                   CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                                   CUDNN_STATUS_INTERNAL_ERROR};
    faked f;
    open_faked(&f);
    neap_status status;
    size_t all = try_list(&f, CONV_X, &status);
    for (int i = 0; i < 3; i++)
        for (int n = 1; n < 1200; n += 31) {
            remove_lists(&f);
            reopen(&f);
            fake_cudnn_fail_at(n, statuses[i]);
            size_t count = try_list(&f, CONV_X, &status);
            bool failed = fake_cudnn_has_failed();
            reopen(&f);
            size_t again = try_list(&f, CONV_X, &status);
            assert_int_equal(again, i < 2 || !failed || count == 0 ? all : count);
        }
    close_faked(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_right),
        cmocka_unit_test(lists_are_in_order),
        cmocka_unit_test(lists_are_kept),
        cmocka_unit_test(lists_are_made_at_once),
        cmocka_unit_test(calls_may_fail),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(lists_without_memory_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void test_nothing(void **state)
{
    (void)state;
    skip_because("this build has no emulation of kernels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
