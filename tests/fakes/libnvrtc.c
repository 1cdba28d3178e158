/* A stand-in for NVRTC beside fake_cuda.h's driver: its code is a text with the options. */
#include "run/backends/cuda/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(library, result, name, parameters) X_##library(result, name, parameters)
#define X_NVRTC(result, name, parameters)    result name parameters;
#define X_DRIVER(result, name, parameters)
#define X_CUDNN(result, name, parameters)
#define X_CUBLASLT(result, name, parameters)
#define X_NVML(result, name, parameters)
#include "run/backends/cuda/api.def"
#undef X

struct nvrtc_program {
    char code[512];
};

int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 99;
    return 0;
}

const char *nvrtcGetErrorString(int error)
{
    return error ? "an error of the fake NVRTC" : "none";
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = 2;
    return 0;
}

int nvrtcGetSupportedArchs(int *architectures)
{
    architectures[0] = 80;
    architectures[1] = 90;
    return 0;
}

int nvrtcCreateProgram(nvrtc_program *program, const char *source, const char *name, int n_headers,
                       const char *const *headers, const char *const *header_names)
{
    *program = calloc(1, sizeof **program);
    snprintf((*program)->code, sizeof(*program)->code, "fake %s", name);
    for (int i = 0; i < n_headers; i++)
        if (!headers[i] || !header_names[i])
            return 1;
    return source ? 0 : 1;
}

int nvrtcDestroyProgram(nvrtc_program *program)
{
    free(*program);
    *program = NULL;
    return 0;
}

int nvrtcCompileProgram(nvrtc_program program, int n_options, const char *const *options)
{
    for (int i = 0; i < n_options; i++) {
        size_t length = strlen(program->code);
        snprintf(program->code + length, sizeof program->code - length, " %s", options[i]);
    }
    return 0;
}

int nvrtcGetProgramLogSize(nvrtc_program program, size_t *bytes)
{
    *bytes = program ? 1 : 0;
    return 0;
}

int nvrtcGetProgramLog(nvrtc_program program, char *log)
{
    *log = '\0';
    return program ? 0 : 1;
}

int nvrtcGetCUBINSize(nvrtc_program program, size_t *bytes)
{
    *bytes = strlen(program->code) + 1;
    return 0;
}

int nvrtcGetCUBIN(nvrtc_program program, char *code)
{
    memcpy(code, program->code, strlen(program->code) + 1);
    return 0;
}

int nvrtcGetPTXSize(nvrtc_program program, size_t *bytes)
{
    return nvrtcGetCUBINSize(program, bytes);
}

int nvrtcGetPTX(nvrtc_program program, char *code)
{
    return nvrtcGetCUBIN(program, code);
}
