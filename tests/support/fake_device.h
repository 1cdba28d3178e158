/* Backend cuda without a GPU: on the stand-ins of tests/fakes and the emulation's kernels. */
#ifndef NEAP_TESTS_FAKE_DEVICE_H
#define NEAP_TESTS_FAKE_DEVICE_H

#include "../fakes/fake_cuda.h"

/* From now on the process finds the stand-ins in place of NVIDIA's libraries. The seed decides the
   order in which streams take turns. */
void use_fake_device(uint64_t seed);
void fake_device_usage(fake_cuda_usage *usage);
/* The next call of this function of CUDA's driver fails with this error. */
void fake_device_fail(const char *function, int error);
/* The call after the next `skips` ones. */
void fake_device_fail_later(const char *function, int error, int skips);

#endif
