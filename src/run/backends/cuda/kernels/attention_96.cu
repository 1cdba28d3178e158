/* Heads of up to 96 features on tensor cores. */
#include "attention_mma_bw.cuh"

ATTENTION_KERNELS(96)
