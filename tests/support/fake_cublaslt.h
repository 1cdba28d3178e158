/*
 * cuBLASLt in software, as far as neap calls it: descriptors with the attributes that neap sets, a
 * search that finds four made-up algorithms, and a product by three loops. It fails the test where
 * the library would refuse or crash: wrong sizes of attributes, matrices that do not fit together,
 * addresses that are not aligned, a small workspace.
 */
#ifndef NEAP_TESTS_FAKE_CUBLASLT_H
#define NEAP_TESTS_FAKE_CUBLASLT_H

#include "run/backends/cuda/libraries.h"

/* Fills in the functions of cuBLASLt and a handle. */
void fake_cublaslt_init(cuda_api *api, cuda_libraries *libraries);
/* Descriptors that have not been destroyed. */
int fake_cublaslt_alive(void);
/* Products so far. */
int fake_cublaslt_products(void);
/* Searches so far. */
int fake_cublaslt_searches(void);
/* The n-th call from now on fails, where calls can; 0: none does. */
void fake_cublaslt_fail_at(int n);
/* Whether the epilogue for gradients of biases is refused: by the search's status (a status of the
   library), or not (0). */
void fake_cublaslt_refuse_gradients(int status);

#endif
