/*
 * Tensor cores, by warps: products of small matrices whose elements lie spread over the lanes, as
 * the PTX manual defines it for mma.m16n8k16 of bf16 and mma.m16n8k8 of tf32. Lane 4 g + t has, of
 * the sum c, columns 2 t and 2 t + 1 of rows g (c[0], c[1]) and g + 8 (c[2], c[3]).
 *
 * In rows of memory a cell is 16 bytes: 8 elements of bf16 or 4 of tf32. A step of the products
 * sums over two cells, whatever the type.
 */
#ifndef NEAP_CUDA_MMA_CUH
#define NEAP_CUDA_MMA_CUH

#include "prelude.cuh"

#ifdef __CUDACC__

/* Four matrices of 8 rows of a cell each, in shared memory. Lane i gives the address of row i % 8
   of matrix i / 8. Lane 4 g + t gets the t-th four bytes of row g of each. */
DEVICE void load_matrices(u32 x[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((u32)__cvta_generic_to_shared(row)));
}

/* The same of elements of 16 bits, transposed: rows 2 t and 2 t + 1 of column g. */
DEVICE void load_matrices_transposed(u32 x[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((u32)__cvta_generic_to_shared(row)));
}

DEVICE void multiply_bf16(float c[4], const u32 a[4], u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Operands are rounded to tf32. */
DEVICE void multiply_tf32(float c[4], const u32 a[4], u32 b0, u32 b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* To nearest, ties away from zero. */
DEVICE u32 round_tf32(float x)
{
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

/* Two elements of bf16, the first in the lower half. */
DEVICE u32 pack_bf16(float x, float y)
{
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(y), "f"(x));
    return bits;
}

/* A cell into shared memory, or zeros; done when wait_copies returns, for the thread that asked. */
DEVICE void copy_cell(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (u32)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

/* The same for a number. */
DEVICE void copy_number(float *to, const float *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     (u32)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 4 : 0)
                 : "memory");
}

DEVICE void wait_copies(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#else
#include "run/backends/cuda/emulation/mma.h"

DEVICE u32 pack_bf16(float x, float y)
{
    return to_bf16(x).bits | (u32)to_bf16(y).bits << 16;
}
#endif

#endif
