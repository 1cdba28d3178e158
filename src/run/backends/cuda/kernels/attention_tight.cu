/* Heads whose rows have 256 bytes, on tensor cores with little shared memory. */
#include "attention_mma_bw.cuh"

#define TIGHT_WIDTH (ATTENTION_TIGHT_ROW / (int)sizeof(T))

KERNEL_SYNC(attention_tight, attention_params)
{
    DYNAMIC_SHARED(T, shared);
    attention_forward(&p, shared, TIGHT_WIDTH, 1, ATTENTION_FORWARD_ROWS(ATTENTION_TIGHT_ROW));
}

KERNEL_SYNC(attention_tight_dq, attention_params)
{
    DYNAMIC_SHARED(T, shared);
    attention_backward(&p, shared, false, TIGHT_WIDTH, 1);
}

KERNEL_SYNC(attention_tight_dkv, attention_params)
{
    DYNAMIC_SHARED(T, shared);
    attention_backward(&p, shared, true, TIGHT_WIDTH, 1);
}
