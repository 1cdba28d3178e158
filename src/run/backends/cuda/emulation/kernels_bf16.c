/* The kernels for elements of type bf16. */
#define NEAP_BF16_ELEMENTS 1
#define EMULATED_TABLE     neap_emulated_kernels_bf16
#include "run/backends/cuda/emulation/kernels.inc"
