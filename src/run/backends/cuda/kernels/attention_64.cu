/* Heads of up to 64 features on tensor cores. */
#include "attention_mma_bw.cuh"

ATTENTION_KERNELS(64)
