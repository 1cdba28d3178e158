/*
 * Values of cuBLASLt's interface that neap uses, since no header of NVIDIA's is needed to build it.
 * They have been the same since cuBLASLt 11; tests/unit/test_cublaslt.c compares them with the
 * headers where those are installed.
 */
#ifndef NEAP_CUBLASLT_CONSTANTS_H
#define NEAP_CUBLASLT_CONSTANTS_H

#include "run/backends/cuda/api.h"

/* X(our name, value, NVIDIA's name) */
#define CUBLASLT_CONSTANTS(X)                                                                      \
    X(LT_SUCCESS, 0, CUBLAS_STATUS_SUCCESS)                                                        \
    X(LT_INVALID_VALUE, 7, CUBLAS_STATUS_INVALID_VALUE)                                            \
    X(LT_ARCH_MISMATCH, 8, CUBLAS_STATUS_ARCH_MISMATCH)                                            \
    X(LT_NOT_SUPPORTED, 15, CUBLAS_STATUS_NOT_SUPPORTED)                                           \
    X(LT_OP_N, 0, CUBLAS_OP_N)                                                                     \
    X(LT_OP_T, 1, CUBLAS_OP_T)                                                                     \
    X(LT_R_32F, 0, CUDA_R_32F)                                                                     \
    X(LT_R_16BF, 14, CUDA_R_16BF)                                                                  \
    X(LT_COMPUTE_32F, 68, CUBLAS_COMPUTE_32F)                                                      \
    X(LT_COMPUTE_32F_FAST_TF32, 77, CUBLAS_COMPUTE_32F_FAST_TF32)                                  \
    X(LT_LAYOUT_BATCH_COUNT, 5, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)                                \
    X(LT_LAYOUT_BATCH_STRIDE, 6, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)                      \
    X(LT_DESC_TRANSA, 3, CUBLASLT_MATMUL_DESC_TRANSA)                                              \
    X(LT_DESC_TRANSB, 4, CUBLASLT_MATMUL_DESC_TRANSB)                                              \
    X(LT_DESC_EPILOGUE, 7, CUBLASLT_MATMUL_DESC_EPILOGUE)                                          \
    X(LT_DESC_BIAS_POINTER, 8, CUBLASLT_MATMUL_DESC_BIAS_POINTER)                                  \
    X(LT_EPILOGUE_DEFAULT, 1, CUBLASLT_EPILOGUE_DEFAULT)                                           \
    X(LT_EPILOGUE_BIAS, 4, CUBLASLT_EPILOGUE_BIAS)                                                 \
    X(LT_EPILOGUE_BGRADB, 512, CUBLASLT_EPILOGUE_BGRADB)                                           \
    X(LT_PREF_MAX_WORKSPACE, 1, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)                          \
    X(LT_PREF_REDUCTION_MASK, 3, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)                       \
    X(LT_PREF_MIN_ALIGNMENT_A, 5, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)                      \
    X(LT_PREF_MIN_ALIGNMENT_B, 6, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)                      \
    X(LT_PREF_MIN_ALIGNMENT_C, 7, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)                      \
    X(LT_PREF_MIN_ALIGNMENT_D, 8, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)                      \
    X(LT_REDUCTION_INPLACE, 1, CUBLASLT_REDUCTION_SCHEME_INPLACE)                                  \
    X(LT_REDUCTION_COMPUTE_TYPE, 2, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)                        \
    X(LT_REDUCTION_OUTPUT_TYPE, 4, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)                          \
    X(LT_CONFIG_ID, 0, CUBLASLT_ALGO_CONFIG_ID)                                                    \
    X(LT_CONFIG_TILE, 1, CUBLASLT_ALGO_CONFIG_TILE_ID)                                             \
    X(LT_CONFIG_SPLITS, 2, CUBLASLT_ALGO_CONFIG_SPLITK_NUM)                                        \
    X(LT_CONFIG_REDUCTION, 3, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)                               \
    X(LT_CONFIG_SWIZZLE, 4, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING)                                    \
    X(LT_CONFIG_CUSTOM, 5, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION)                                     \
    X(LT_CONFIG_STAGES, 6, CUBLASLT_ALGO_CONFIG_STAGES_ID)

enum {
#define X(name, value, theirs) name = value,
    CUBLASLT_CONSTANTS(X)
#undef X
};

/* cublasLtMatmulAlgo_t: bytes to be kept and given back. */
struct cublaslt_algo {
    uint64_t data[8];
};

/* cublasLtMatmulHeuristicResult_t */
struct cublaslt_result {
    cublaslt_algo algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

#endif
