/*
 * sqrt: a checkpoint every sqrt(n) stages.
 *
 * Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016), section 4:
 * n layers in segments of sqrt(n) keep O(sqrt(n)) values alive at the price of about one more
 * forward pass. Here a layer is a stage of the chain view, so that it runs on any graph.
 */
#include "base/memory.h"
#include "planners/chain/segments.h"

#include <math.h>

enum { LENGTH };

static const neap_option options[] = {
    [LENGTH] = {.name = "length",
                .meaning = "stages between two checkpoints; 0 is the square root of their number",
                .type = NEAP_OPTION_INTEGER,
                .least = 0,
                .most = 4294967294.0,
                .default_value = 0},
};

static neap_status plan_sqrt(const planner *p, draft *d, neap_diag *diag)
{
    neap_chain chain = {0};
    bool *checkpoint = NULL;
    int64_t *list = NULL;
    uint32_t n_stages = 0;
    size_t count = 0;
    neap_status status = neap_chain_build(p->allocator, p->graph, &chain, diag);
    if (status != NEAP_OK)
        goto done;
    n_stages = chain.n_stages;
    uint32_t n = n_stages ? n_stages - 1 : 0; /* layers: the last stage is the loss */
    uint32_t length = (uint32_t)p->options[LENGTH];
    if (length == 0)
        length = (uint32_t)lround(sqrt((double)n));
    if (length == 0)
        length = 1;
    status = NEAP_NEW(p->allocator, n_stages, &checkpoint, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(p->allocator, n_stages, &list, diag);
    if (status != NEAP_OK)
        goto done;
    for (uint32_t i = 0; i < n; i++) {
        checkpoint[i] = (i + 1) % length == 0 || i + 1 == n;
        if (checkpoint[i])
            list[count++] = i + 1;
    }
    status = neap_planner_use_segments(p, d, &chain, checkpoint, diag);
    if (status == NEAP_OK)
        status = neap_draft_add_list(p, d, "checkpoints", list, count, diag);
done:
    NEAP_DELETE(p->allocator, n_stages, checkpoint);
    NEAP_DELETE(p->allocator, n_stages, list);
    neap_chain_clear(&chain);
    return status;
}

const neap_method neap_method_sqrt = {
    .name = "sqrt",
    .summary = "a checkpoint every sqrt(n) stages, the rest computed again",
    .source = "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost",
    .n_options = sizeof options / sizeof *options,
    .options = options,
    .plan = plan_sqrt,
};
