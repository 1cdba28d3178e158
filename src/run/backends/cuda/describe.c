/* What of NVIDIA is on this machine, for people. */
#include "run/backends/cuda/driver.h"

#include <neap/run.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)NEAP_CUDA_LIBRARIES == (int)CUDA_LIBRARY_COUNT, "the same libraries");

static const char *const PURPOSES[CUDA_LIBRARY_COUNT] = {
    [CUDA_LIBRARY_DRIVER] = "uses the GPU",         [CUDA_LIBRARY_NVRTC] = "compiles kernels",
    [CUDA_LIBRARY_CUDNN] = "convolutions",          [CUDA_LIBRARY_CUBLASLT] = "matrix products",
    [CUDA_LIBRARY_NVML] = "what the context takes",
};

void neap_cuda_describe(neap_cuda_machine *machine)
{
    cuda_api api;
    neap_diag diag;
    neap_cuda_api_load(&api);
    *machine = (neap_cuda_machine){.gpus = 0};
    for (int i = 0; i < CUDA_LIBRARY_COUNT; i++) {
        neap_cuda_library *library = &machine->libraries[i];
        library->name = neap_cuda_library_name((cuda_library)i);
        library->purpose = PURPOSES[i];
        neap_cuda_library_version(&api, (cuda_library)i, library->version, sizeof library->version);
        snprintf(library->file, sizeof library->file, "%s", api.files[i]);
        snprintf(library->problem, sizeof library->problem, "%s", api.problems[i]);
    }
    if (neap_cuda_count_devices(&api, &machine->gpus, &diag) != NEAP_OK)
        memcpy(machine->problem, diag.message, sizeof machine->problem);
    neap_cuda_api_unload(&api);
}

neap_status neap_cuda_describe_gpu(int index, neap_gpu *gpu, neap_diag *diag)
{
    cuda_api api;
    cuda_device device;
    *gpu = (neap_gpu){.memory = 0};
    neap_cuda_api_load(&api);
    neap_status status = neap_cuda_describe_device(&api, index, &device, diag);
    if (status == NEAP_OK) {
        memcpy(gpu->name, device.name, sizeof gpu->name);
        gpu->memory = device.memory;
        gpu->major = device.architecture / 10;
        gpu->minor = device.architecture % 10;
        gpu->multiprocessors = device.multiprocessors;
    }
    neap_cuda_api_unload(&api);
    return status;
}
