/* Heads of up to 32 features on tensor cores. */
#include "attention_mma_bw.cuh"

ATTENTION_KERNELS(32)
