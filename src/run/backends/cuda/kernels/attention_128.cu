/* Heads of up to 128 features on tensor cores. */
#include "attention_mma_bw.cuh"

ATTENTION_KERNELS(128)
