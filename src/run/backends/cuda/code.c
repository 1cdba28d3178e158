/* Compiling kernels with NVRTC. */
#include "run/backends/cuda/code.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"
#include "run/backends/cuda/code_cache.h"
#include "run/backends/cuda/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const cuda_kernel_def neap_cuda_kernels[CUDA_N_KERNELS] = {
#define X(file, name) {#file, #name},
#include "run/backends/cuda/kernels.def"
#undef X
};

/* ---- Options ---- */

#define MOST_OPTIONS 5

typedef struct compile_options {
    char architecture[32];
    const char *all[MOST_OPTIONS];
    int count;
} compile_options;

/* All but the architecture, which comes first. */
static void set_options(const cuda_code_request *request, compile_options *options)
{
    static const char *const ELEMENTS[] = {"-DNEAP_BF16_ELEMENTS=0", "-DNEAP_BF16_ELEMENTS=1"};
    options->count = 0;
    options->all[options->count++] = options->architecture;
    options->all[options->count++] = "-std=c++17";
    options->all[options->count++] = "-default-device";
    options->all[options->count++] = ELEMENTS[request->type == NEAP_BF16];
    /* Updates have the bits of the reference's: a product and a sum are rounded one by one. */
    if (strcmp(request->file, "update") == 0)
        options->all[options->count++] = "-fmad=false";
}

/* Code for the device itself or, for one that NVRTC does not know, PTX of the latest before it. */
static neap_status set_architecture(const cuda_api *api, neap_allocator *allocator, int wanted,
                                    compile_options *options, bool *ptx, neap_diag *diag)
{
    int count = 0, *known, best = 0, first = 0;
    api->nvrtcGetNumSupportedArchs(&count);
    NEAP_TRY(NEAP_NEW(allocator, (size_t)count, &known, diag));
    if (count > 0)
        api->nvrtcGetSupportedArchs(known);
    for (int i = 0; i < count; i++) {
        if (known[i] <= wanted && known[i] > best)
            best = known[i];
        if (first == 0 || known[i] < first)
            first = known[i];
    }
    NEAP_DELETE(allocator, (size_t)count, known);
    *ptx = best != wanted;
    snprintf(options->architecture, sizeof options->architecture, "-arch=%s_%d",
             *ptx ? "compute" : "sm", best);
    return best > 0 ? NEAP_OK
                    : neap_fail(diag, NEAP_UNSUPPORTED,
                                "a GPU of compute capability %d.%d is too old: this NVRTC compiles "
                                "for %d.%d and later",
                                wanted / 10, wanted % 10, first / 10, first % 10);
}

/* ---- Sources ---- */

static bool has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), end = strlen(suffix);
    return length >= end && strcmp(name + length - end, suffix) == 0;
}

static const cuda_source *find_source(const char *file)
{
    for (const cuda_source *s = neap_cuda_sources; s->name; s++)
        if (has_suffix(s->name, ".cu") && strlen(s->name) == strlen(file) + 3 &&
            strncmp(s->name, file, strlen(file)) == 0)
            return s;
    return NULL;
}

/* From the options, the source and all headers. */
static uint64_t hash_sources(uint64_t hash, const cuda_source *source,
                             const compile_options *options)
{
    for (int i = 1; i < options->count; i++)
        hash = neap_hash_bytes(hash, options->all[i], strlen(options->all[i]) + 1);
    for (const cuda_source *s = neap_cuda_sources; s->name; s++)
        if (s == source || !has_suffix(s->name, ".cu"))
            hash = neap_hash_bytes(hash, s->text, s->bytes + 1);
    return hash;
}

static void set_key(const cuda_api *api, const cuda_code_request *request,
                    const cuda_source *source, const compile_options *options, cuda_code_key *key)
{
    uint64_t hash = hash_sources(NEAP_HASH_BEGIN, source, options);
    key->check = hash_sources(NEAP_HASH_BEGIN + 1, source, options);
    snprintf(key->name, sizeof key->name, "%s-%s-sm%d-%016" PRIx64, request->file,
             request->type == NEAP_BF16 ? "bf16" : "f32", request->architecture, hash);
    neap_cuda_library_version(api, CUDA_LIBRARY_NVRTC, key->compiler, sizeof key->compiler);
}

/* ---- Compiling ---- */

typedef struct compilation {
    const cuda_api *api;
    neap_allocator *allocator;
    const cuda_source *source;
    nvrtc_program program;
    size_t n_headers;
    const char **headers, **header_names;
} compilation;

/* The first error of the compiler's log, or what NVRTC says itself. */
static neap_status fail_compiling(const compilation *c, int result, neap_diag *diag)
{
    size_t bytes = 0;
    char *log = NULL;
    if (c->program && c->api->nvrtcGetProgramLogSize(c->program, &bytes) == 0 && bytes > 1 &&
        NEAP_NEW(c->allocator, bytes, &log, NULL) == NEAP_OK)
        c->api->nvrtcGetProgramLog(c->program, log);
    const char *error = log ? strstr(log, "error") : NULL;
    while (error && error > log && error[-1] != '\n')
        error--;
    for (char *end = log; end && *end; end++)
        if (*end == '\n')
            *end = ' ';
    neap_status status =
        neap_fail(diag, NEAP_INTERNAL, "NVRTC cannot compile the kernels of %s: %s%s%s",
                  c->source->name, c->api->nvrtcGetErrorString(result), log ? ": " : "",
                  error ? error
                  : log ? log
                        : "");
    NEAP_DELETE(c->allocator, bytes, log);
    return status;
}

static neap_status take_code(const compilation *c, bool ptx, cuda_code *code, neap_diag *diag)
{
    size_t bytes = 0;
    int result = ptx ? c->api->nvrtcGetPTXSize(c->program, &bytes)
                     : c->api->nvrtcGetCUBINSize(c->program, &bytes);
    if (result != 0)
        return fail_compiling(c, result, diag);
    NEAP_TRY(NEAP_NEW(c->allocator, bytes, &code->data, diag));
    code->bytes = bytes;
    result = ptx ? c->api->nvrtcGetPTX(c->program, code->data)
                 : c->api->nvrtcGetCUBIN(c->program, code->data);
    return result == 0 ? NEAP_OK : fail_compiling(c, result, diag);
}

static neap_status run_compiler(compilation *c, const compile_options *options, bool ptx,
                                cuda_code *code, neap_diag *diag)
{
    size_t n = 0;
    for (const cuda_source *s = neap_cuda_sources; s->name; s++)
        if (!has_suffix(s->name, ".cu")) {
            c->header_names[n] = s->name;
            c->headers[n++] = s->text;
        }
    int result = c->api->nvrtcCreateProgram(&c->program, c->source->text, c->source->name, (int)n,
                                            c->headers, c->header_names);
    if (result == 0)
        result = c->api->nvrtcCompileProgram(c->program, options->count, options->all);
    return result == 0 ? take_code(c, ptx, code, diag) : fail_compiling(c, result, diag);
}

static neap_status compile(const cuda_api *api, neap_allocator *allocator,
                           const cuda_code_request *request, const cuda_source *source,
                           compile_options *options, cuda_code *code, neap_diag *diag)
{
    compilation c = {.api = api, .allocator = allocator, .source = source};
    bool ptx;
    for (const cuda_source *s = neap_cuda_sources; s->name; s++)
        c.n_headers += !has_suffix(s->name, ".cu");
    neap_status status =
        set_architecture(api, allocator, request->architecture, options, &ptx, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, c.n_headers, &c.headers, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(allocator, c.n_headers, &c.header_names, diag);
    if (status == NEAP_OK)
        status = run_compiler(&c, options, ptx, code, diag);
    if (c.program)
        api->nvrtcDestroyProgram(&c.program);
    NEAP_DELETE(allocator, c.n_headers, c.headers);
    NEAP_DELETE(allocator, c.n_headers, c.header_names);
    return status;
}

/* ---- The interface ---- */

neap_status neap_cuda_code_get(const cuda_api *api, neap_allocator *allocator,
                               const cuda_code_request *request, cuda_code *code, neap_diag *diag)
{
    compile_options options;
    cuda_code_key key;
    const cuda_source *source = find_source(request->file);
    *code = (cuda_code){.data = NULL};
    if (!source)
        return neap_fail(diag, NEAP_INTERNAL, "there is no source of kernels %s.cu", request->file);
    set_options(request, &options);
    set_key(api, request, source, &options, &key);
    if (!request->fresh)
        NEAP_TRY(neap_cuda_code_read(allocator, &key, code, &code->kept, diag));
    if (code->kept)
        return NEAP_OK;
    neap_status status = neap_cuda_api_need(api, CUDA_LIBRARY_NVRTC, diag);
    if (status == NEAP_OK)
        status = compile(api, allocator, request, source, &options, code, diag);
    if (status == NEAP_OK)
        neap_cuda_code_write(allocator, &key, code);
    else
        neap_cuda_code_clear(allocator, code);
    return status;
}

uint64_t neap_cuda_code_version(void)
{
    uint64_t hash = NEAP_HASH_BEGIN;
    for (const cuda_source *s = neap_cuda_sources; s->name; s++)
        hash = neap_hash_bytes(hash, s->text, s->bytes + 1);
    return hash;
}

void neap_cuda_code_clear(neap_allocator *allocator, cuda_code *code)
{
    NEAP_DELETE(allocator, code->bytes, code->data);
    *code = (cuda_code){.data = NULL};
}
