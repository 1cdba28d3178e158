#include "run/backends/cuda/emulation/fiber.h"

#include <stdint.h>
#include <string.h>

#if defined __x86_64__ || defined __aarch64__

/*
 * void neap_emulated_swap(void **from, void *to): pushes what a function must preserve, leaves the
 * stack's address in *from, and pops the same from `to`. Modes of floating-point arithmetic are not
 * among it: all stacks share them.
 */
void neap_emulated_swap(void **from, void *to);

#if defined __x86_64__
#define SAVED 6 /* registers, below the address to return to */
__asm__(".text\n"
        ".hidden neap_emulated_swap\n"
        ".globl neap_emulated_swap\n"
        ".type neap_emulated_swap, @function\n"
        "neap_emulated_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size neap_emulated_swap, . - neap_emulated_swap\n");
#else
#define SAVED 11 /* x19 to x29; x30, the address to return to, comes next, then d8 to d15 */
__asm__(".text\n"
        ".hidden neap_emulated_swap\n"
        ".globl neap_emulated_swap\n"
        ".type neap_emulated_swap, %function\n"
        "neap_emulated_swap:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size neap_emulated_swap, . - neap_emulated_swap\n");
#endif

#define FRAME_WORDS 20 /* enough for both; a multiple of 16 bytes */

void neap_emulated_stack_init(emulated_stack *stack, unsigned char *memory, size_t bytes,
                              void (*enter)(void))
{
    uintptr_t frame[FRAME_WORDS] = {0};
    frame[SAVED] = (uintptr_t)enter;
#if defined __x86_64__
    /* A function begins 8 bytes below a multiple of 16: `ret` has taken the address. */
    unsigned char *at = memory + bytes - (SAVED + 2) * sizeof *frame;
    memcpy(at, frame, (SAVED + 2) * sizeof *frame);
#else
    unsigned char *at = memory + bytes - sizeof frame;
    memcpy(at, frame, sizeof frame);
#endif
    stack->top = at;
}

void neap_emulated_stack_switch(emulated_stack *from, emulated_stack *to)
{
    neap_emulated_swap(&from->top, to->top);
}

#else

void neap_emulated_stack_init(emulated_stack *stack, unsigned char *memory, size_t bytes,
                              void (*enter)(void))
{
    getcontext(&stack->context);
    stack->context.uc_stack.ss_sp = memory;
    stack->context.uc_stack.ss_size = bytes;
    stack->context.uc_link = NULL;
    makecontext(&stack->context, enter, 0);
}

void neap_emulated_stack_switch(emulated_stack *from, emulated_stack *to)
{
    swapcontext(&from->context, &to->context);
}

#endif
