/* The kernels for elements of type f32. */
#define NEAP_BF16_ELEMENTS 0
#define EMULATED_TABLE     neap_emulated_kernels_f32
#include "run/backends/cuda/emulation/kernels.inc"
