/* Waiting on the device: while what is measured is queued, and to make a stream late in tests. */
#include "prelude.cuh"

#include "delay.h"

#ifdef __CUDACC__
DEVICE u64 delay_now(void)
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
#endif

/* One block of one warp. */
KERNEL(delay, delay_params)
{
#ifdef __CUDACC__
    u64 begin = delay_now();
    while (delay_now() - begin < p.nanoseconds)
        __nanosleep(100);
#else
    (void)p;
#endif
}
