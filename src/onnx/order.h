/* The elements of a complete view, one after another, as places in its root. */
#ifndef NEAP_ONNX_ORDER_H
#define NEAP_ONNX_ORDER_H

#include "onnx/view.h"

/* An odometer over the view's atoms. */
typedef struct onnx_order {
    uint32_t count;
    int64_t extents[VIEW_MOST_ATOMS], strides[VIEW_MOST_ATOMS], at[VIEW_MOST_ATOMS];
    int64_t place;
} onnx_order;

static inline void neap_onnx_order_begin(onnx_order *order, const onnx_view *view)
{
    int64_t strides[VIEW_MOST_ATOMS], stride = 1;
    *order = (onnx_order){.count = view->n_order};
    for (uint32_t a = view->n_atoms; a-- > 0;) {
        strides[a] = stride;
        stride *= view->extents[a];
    }
    for (uint32_t i = 0; i < view->n_order; i++) {
        order->extents[i] = view->extents[view->order[i]];
        order->strides[i] = strides[view->order[i]];
    }
}

/* Goes to element i of the view. */
static inline void neap_onnx_order_seek(onnx_order *order, int64_t i)
{
    order->place = 0;
    for (uint32_t a = order->count; a-- > 0;) {
        order->at[a] = i % order->extents[a];
        i /= order->extents[a];
        order->place += order->at[a] * order->strides[a];
    }
}

/* The place of the next element. */
static inline int64_t neap_onnx_order_next(onnx_order *order)
{
    int64_t place = order->place;
    for (uint32_t i = order->count; i-- > 0;) {
        order->place += order->strides[i];
        if (++order->at[i] < order->extents[i])
            break;
        order->place -= order->strides[i] * order->extents[i];
        order->at[i] = 0;
    }
    return place;
}

#endif
