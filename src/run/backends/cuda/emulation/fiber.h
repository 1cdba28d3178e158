/*
 * Stacks that take turns. Kernels meet at barriers so often that the system's way (swapcontext,
 * two system calls each time) takes most of a test's time; where the processor is known, a switch
 * is a dozen instructions.
 */
#ifndef NEAP_CUDA_EMULATION_FIBER_H
#define NEAP_CUDA_EMULATION_FIBER_H

#include <stddef.h>

#if defined __x86_64__ || defined __aarch64__
typedef struct emulated_stack {
    void *top; /* where the registers of a stack that waits are */
} emulated_stack;
#else
#include <ucontext.h>
typedef struct emulated_stack {
    ucontext_t context;
} emulated_stack;
#endif

/* A stack on which the first switch to it calls `enter`, which must not return. `memory` is aligned
   to 16 bytes, and so is its size. */
void neap_emulated_stack_init(emulated_stack *stack, unsigned char *memory, size_t bytes,
                              void (*enter)(void));
/* Goes on with `to`; returns when something switches to `from`. */
void neap_emulated_stack_switch(emulated_stack *from, emulated_stack *to);

#endif
