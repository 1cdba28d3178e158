/*
 * Which input's storage the result of an op may take over, for every node of a network.
 *
 * The type of an op says over which inputs its kernels can write (op_def.in_place); a graph marks
 * one of them. A mark is of use only where the input dies at the op, so the choice is, in this
 * order: an input that no other op reads; one that no later op reads, in the natural order; a
 * gradient, because a gradient is never computed for two ops that are far apart.
 *
 * Views count with what they lie on: an op that reads a view reads the storage.
 */
#include "base/fail.h"
#include "base/memory.h"
#include "graph/network_internal.h"

#include <string.h>

/* What reads a storage, by its owner. */
typedef struct reading {
    size_t count; /* ops that read it, views excepted; one more if it is a result of the step */
    size_t last;  /* node */
    bool made;    /* by an op */
} reading;

static neap_tensor storage_of(const neap_network *net, neap_tensor t)
{
    while (net->tensors[t].view_of != NEAP_NONE)
        t = net->tensors[t].view_of;
    return t;
}

static bool same_shape(const net_tensor *a, const net_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

static int64_t elements(const net_tensor *t)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        count *= t->shape[d]; /* checked when the tensor was made */
    return count;
}

static void note_reading(const neap_network *net, size_t n, reading *readings)
{
    const net_node *node = &net->nodes[n];
    for (uint32_t i = 0; i < node->n_outputs; i++)
        readings[node->outputs[i]].made = true;
    for (uint32_t i = 0; !node->def->view && i < node->n_inputs; i++) {
        reading *r = &readings[storage_of(net, node->inputs[i])];
        if (r->count > 0 && r->last == n)
            continue; /* as another operand of the same node */
        r->count++;
        r->last = n;
    }
}

static void note_results(const neap_network *net, neap_tensor loss, reading *readings)
{
    for (size_t t = 0; t < net->n_tensors; t++) {
        bool is_result = t == loss;
        neap_tensor result = (neap_tensor)t;
        if (strcmp(net->tensors[t].kind, NEAP_KIND_PARAMETER) == 0) {
            result = net->tensors[t].gradient;
            is_result = result != NEAP_NONE;
        }
        if (is_result) {
            reading *r = &readings[storage_of(net, result)];
            r->count++;
            r->last = net->n_nodes;
        }
    }
}

/* Whether the kernel may write output `to` over its input `from`. */
static bool can_take(const neap_network *net, const net_node *node, neap_tensor from,
                     neap_tensor to, const reading *readings)
{
    neap_tensor storage = storage_of(net, from);
    const net_tensor *owner = &net->tensors[storage], *result = &net->tensors[to];
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (storage_of(net, node->outputs[i]) == storage)
            return false;
    return readings[storage].made && result->view_of == NEAP_NONE &&
           same_shape(&net->tensors[from], result) && owner->dtype == result->dtype &&
           elements(owner) == elements(result);
}

static int value_of(const neap_network *net, size_t n, neap_tensor from, const reading *readings)
{
    const reading *r = &readings[storage_of(net, from)];
    bool gradient = strcmp(net->tensors[from].kind, NEAP_KIND_GRADIENT) == 0;
    return 4 * (r->count == 1) + 2 * (r->last == n) + gradient;
}

static void mark(neap_network *net, size_t n, const reading *readings)
{
    net_node *node = &net->nodes[n];
    uint32_t output = node->def->in_place_output;
    int best = -1;
    node->in_place_input = node->in_place_output = NEAP_NONE;
    if (output >= node->n_outputs)
        return;
    for (uint32_t i = 0; i < node->n_inputs && i < 32; i++) {
        if (!(node->def->in_place >> i & 1) ||
            !can_take(net, node, node->inputs[i], node->outputs[output], readings))
            continue;
        int value = value_of(net, n, node->inputs[i], readings);
        if (value > best) {
            best = value;
            node->in_place_input = node->inputs[i];
            node->in_place_output = node->outputs[output];
        }
    }
}

neap_status neap_net_mark_in_place(neap_network *net, neap_tensor loss, neap_diag *diag)
{
    reading *readings;
    NEAP_TRY(NEAP_NEW(net->allocator, net->n_tensors, &readings, diag));
    for (size_t n = 0; n < net->n_nodes; n++)
        note_reading(net, n, readings);
    note_results(net, loss, readings);
    for (size_t n = 0; n < net->n_nodes; n++)
        mark(net, n, readings);
    NEAP_DELETE(net->allocator, net->n_tensors, readings);
    return NEAP_OK;
}
