/* Views of src/onnx against arrays of places that every operation rearranges element by element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx/order.h"
#include "random_plan.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 4096 };

/* The places of all elements of a view, in its order. */
typedef struct places {
    uint32_t rank;
    int64_t dims[NEAP_MAX_RANK], elements;
    int64_t at[MOST_ELEMENTS];
} places;

static int64_t product(uint32_t rank, const int64_t *dims)
{
    int64_t all = 1;
    for (uint32_t d = 0; d < rank; d++)
        all *= dims[d];
    return all;
}

static void permute(places *p, const uint32_t *perm)
{
    places old = *p;
    int64_t strides[NEAP_MAX_RANK], stride = 1;
    for (uint32_t d = p->rank; d-- > 0;) {
        strides[d] = stride;
        stride *= old.dims[d];
    }
    for (uint32_t d = 0; d < p->rank; d++)
        p->dims[d] = old.dims[perm[d]];
    for (int64_t i = 0; i < p->elements; i++) {
        int64_t rest = i, from = 0;
        for (uint32_t d = p->rank; d-- > 0;) {
            from += rest % p->dims[d] * strides[perm[d]];
            rest /= p->dims[d];
        }
        p->at[i] = old.at[from];
    }
}

static void part(places *p, uint32_t dim, int64_t begin, int64_t end)
{
    places old = *p;
    int64_t inner = product(p->rank - dim - 1, p->dims + dim + 1), count = 0;
    for (int64_t i = 0; i < old.elements; i++) {
        int64_t place = i / inner % old.dims[dim];
        if (place >= begin && place < end)
            p->at[count++] = old.at[i];
    }
    p->dims[dim] = end - begin;
    p->elements = count;
}

/* Random extents with the same product, from factors of it. */
static uint32_t random_dims(random_source *random, int64_t elements, int64_t *dims)
{
    uint32_t rank = 1 + random_below(random, NEAP_MAX_RANK);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = 1;
    for (int64_t factor = 2; elements > 1; factor++)
        for (; elements % factor == 0; elements /= factor)
            dims[random_below(random, rank)] *= factor;
    return rank;
}

/* The places that the view says. Fixed atoms count, too. */
static void check(const onnx_view *view, const places *p)
{
    onnx_order order;
    int64_t dims[NEAP_MAX_RANK], offset = 0, stride = 1;
    assert_int_equal(view->rank, p->rank);
    neap_onnx_view_dims(view, dims);
    assert_memory_equal(dims, p->dims, p->rank * sizeof *dims);
    for (uint32_t a = view->n_atoms; a-- > 0; stride *= view->extents[a])
        offset += view->fixed[a] >= 0 ? view->fixed[a] * stride : 0;
    neap_onnx_order_begin(&order, view);
    for (int64_t i = 0; i < p->elements; i++)
        assert_int_equal(neap_onnx_order_next(&order) + offset, p->at[i]);
    bool whole = true;
    for (int64_t i = 0; i < p->elements; i++)
        whole = whole && p->at[i] == i;
    onnx_view flat = *view;
    neap_onnx_view_simplify(&flat);
    if (neap_onnx_view_is_whole(&flat))
        assert_true(whole);
}

static void change(random_source *random, onnx_view *view, places *p)
{
    uint32_t perm[NEAP_MAX_RANK], dim = random_below(random, p->rank);
    int64_t dims[NEAP_MAX_RANK], begin, length;
    switch (random_below(random, 5)) {
    case 0:
        for (uint32_t d = 0; d < p->rank; d++)
            perm[d] = d;
        for (uint32_t d = p->rank; d > 1; d--) {
            uint32_t other = random_below(random, d), held = perm[d - 1];
            perm[d - 1] = perm[other];
            perm[other] = held;
        }
        neap_onnx_view_transpose(view, perm);
        permute(p, perm);
        break;
    case 1: {
        uint32_t rank = random_dims(random, p->elements, dims);
        if (!neap_onnx_view_reshape(view, rank, dims))
            break;
        p->rank = rank;
        memcpy(p->dims, dims, rank * sizeof *dims);
        break;
    }
    case 2:
        length = 1 + random_below(random, (uint32_t)p->dims[dim]);
        begin = random_below(random, (uint32_t)(p->dims[dim] - length + 1));
        if (neap_onnx_view_part(view, dim, begin, begin + length))
            part(p, dim, begin, begin + length);
        break;
    case 3:
        if (p->rank == 1 || random_below(random, 3) != 0)
            break;
        begin = random_below(random, (uint32_t)p->dims[dim]);
        neap_onnx_view_select(view, dim, begin);
        part(p, dim, begin, begin + 1);
        p->rank--;
        memmove(p->dims + dim, p->dims + dim + 1, (p->rank - dim) * sizeof *p->dims);
        break;
    default:
        neap_onnx_view_simplify(view);
    }
}

static void random_views(void **state)
{
    (void)state;
    random_source random = {setting("NEAP_TEST_SEED", 20260101)};
    uint64_t count = setting("NEAP_TEST_COUNT", 20000) / ONE_IN(10);
    places *p = malloc(sizeof *p);
    print_message("seed %llu\n", (unsigned long long)random.state);
    for (uint64_t i = 0; i < count; i++) {
        static const int64_t sizes[] = {1, 12, 48, 60, 72, 96, 180, 210, 256};
        onnx_view view;
        p->elements = sizes[random_below(&random, 9)];
        p->rank = random_dims(&random, p->elements, p->dims);
        for (int64_t k = 0; k < p->elements; k++)
            p->at[k] = k;
        neap_onnx_view_init(&view, 7, false, p->rank, p->dims);
        for (int step = 0; step < 8; step++) {
            change(&random, &view, p);
            check(&view, p);
        }
    }
    free(p);
}

/* A linear layer keeps the rows of its input and changes their width. */
static void last_dimensions(void **state)
{
    (void)state;
    onnx_view view;
    neap_onnx_view_init(&view, 1, false, 3, (int64_t[]){2, 3, 4});
    neap_onnx_view_transpose(&view, (uint32_t[]){1, 0, 2});
    assert_true(neap_onnx_view_keeps_last(&view, 4));
    assert_false(neap_onnx_view_is_whole(&view));
    assert_true(neap_onnx_view_change_last(&view, 7, 2));
    int64_t dims[NEAP_MAX_RANK];
    neap_onnx_view_dims(&view, dims);
    assert_true(dims[0] == 3 && dims[1] == 2 && dims[2] == 7 && view.root == 2);
    neap_onnx_view_transpose(&view, (uint32_t[]){1, 0, 2});
    assert_true(neap_onnx_view_is_whole(&view));
    neap_onnx_view_transpose(&view, (uint32_t[]){0, 2, 1});
    assert_false(neap_onnx_view_keeps_last(&view, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_views),
        cmocka_unit_test(last_dimensions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
