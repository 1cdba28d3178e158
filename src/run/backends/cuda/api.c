/* Finding NVIDIA's libraries and their functions. */
#define _GNU_SOURCE /* dladdr */
#include "run/backends/cuda/api.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_NAMES 3

typedef struct library_file {
    const char *name;
    int cuda; /* the major version of CUDA that it belongs to; 0: the name does not say */
} library_file;

typedef struct library_def {
    const char *name;
    library_file files[MOST_NAMES];
    const char *remedy;
} library_def;

static const library_def LIBRARIES[CUDA_LIBRARY_COUNT] = {
    [CUDA_LIBRARY_DRIVER] = {"driver",
                             {{"libcuda.so.1", 0}},
                             "install NVIDIA's driver (apt-get install nvidia-driver); a container "
                             "must be started with access to the GPU"},
    [CUDA_LIBRARY_NVRTC] = {"NVRTC",
                            {{"libnvrtc.so.13", 13}, {"libnvrtc.so.12", 12}, {"libnvrtc.so", 0}},
                            "pip install nvidia-cuda-nvrtc (for a driver of CUDA 12: "
                            "nvidia-cuda-nvrtc-cu12), or apt-get install cuda-nvrtc-13-0 from "
                            "NVIDIA's repository"},
    [CUDA_LIBRARY_CUDNN] = {"cuDNN",
                            {{"libcudnn.so.9", 0}},
                            "pip install nvidia-cudnn-cu13 (for a driver of CUDA 12: "
                            "nvidia-cudnn-cu12), or apt-get install cudnn9-cuda-13 from NVIDIA's "
                            "repository"},
    [CUDA_LIBRARY_CUBLASLT] = {"cuBLASLt",
                               {{"libcublasLt.so.13", 13}, {"libcublasLt.so.12", 12}},
                               "pip install nvidia-cublas (for a driver of CUDA 12: "
                               "nvidia-cublas-cu12), or apt-get install libcublas-13-0 from "
                               "NVIDIA's repository"},
    [CUDA_LIBRARY_NVML] = {"NVML",
                           {{"libnvidia-ml.so.1", 0}},
                           "it comes with NVIDIA's driver (apt-get install libnvidia-ml1)"},
};

typedef struct symbol_def {
    cuda_library library;
    const char *name;
    size_t offset; /* of the pointer in cuda_api */
} symbol_def;

static const symbol_def SYMBOLS[] = {
#define X(library, result, name, parameters)                                                       \
    {CUDA_LIBRARY_##library, #name, offsetof(cuda_api, name)},
#include "run/backends/cuda/api.def"
#undef X
};

#define N_SYMBOLS (sizeof SYMBOLS / sizeof *SYMBOLS)

/* The search for one library. */
typedef struct search {
    cuda_api *api;
    cuda_library library;
    int most_cuda;     /* the driver's major version of CUDA; 0: unknown */
    char trouble[160]; /* why a file that was found will not do */
} search;

/* ---- One file ---- */

static void set_symbol(cuda_api *api, const symbol_def *symbol, void *address)
{
    memcpy((char *)api + symbol->offset, &address, sizeof address);
}

/* The name of a function that the library lacks, or NULL; *any is the address of one it has. */
static const char *set_symbols(cuda_api *api, cuda_library library, void *handle, void **any)
{
    for (size_t i = 0; i < N_SYMBOLS; i++) {
        if (SYMBOLS[i].library != library)
            continue;
        void *address = handle ? dlsym(handle, SYMBOLS[i].name) : NULL;
        set_symbol(api, &SYMBOLS[i], address);
        if (handle && !address)
            return SYMBOLS[i].name;
        *any = address;
    }
    return NULL;
}

/* NVRTC loads a second library by its name alone: one beside it is loaded before. */
static void load_builtins(const cuda_api *api, const char *nvrtc)
{
    char path[4096];
    int major, minor, folder = (int)(strrchr(nvrtc, '/') ? strrchr(nvrtc, '/') - nvrtc : 0);
    if (folder > 0 && api->nvrtcVersion(&major, &minor) == 0 &&
        (size_t)snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", folder, nvrtc, major,
                         minor) < sizeof path)
        dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
}

static bool try_file(search *s, const char *path)
{
    void *any = NULL;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *error = dlerror();
        bool absent =
            error && strncmp(error, path, strlen(path)) == 0 && strstr(error, "No such file");
        if (!absent && !*s->trouble)
            snprintf(s->trouble, sizeof s->trouble, "%s", error ? error : path);
        return false;
    }
    const char *lacks = set_symbols(s->api, s->library, handle, &any);
    if (lacks) {
        if (!*s->trouble)
            snprintf(s->trouble, sizeof s->trouble, "%s lacks %s: it is too old", path, lacks);
        set_symbols(s->api, s->library, NULL, &any);
        dlclose(handle);
        return false;
    }
    Dl_info info;
    bool known = dladdr(any, &info) != 0 && info.dli_fname;
    s->api->handles[s->library] = handle;
    snprintf(s->api->files[s->library], sizeof s->api->files[0], "%s",
             known ? info.dli_fname : path);
    if (s->library == CUDA_LIBRARY_NVRTC)
        load_builtins(s->api, known ? info.dli_fname : path);
    return true;
}

/* Every name of the library in a folder, or wherever the system looks if that is NULL. */
static bool try_folder(search *s, const char *folder)
{
    const library_def *def = &LIBRARIES[s->library];
    for (int i = 0; i < MOST_NAMES && def->files[i].name; i++) {
        char path[4096];
        const library_file *file = &def->files[i];
        if (folder &&
            ((size_t)snprintf(path, sizeof path, "%s/%s", folder, file->name) >= sizeof path ||
             access(path, F_OK) != 0))
            continue;
        if (s->most_cuda == 0 || file->cuda <= s->most_cuda) {
            if (try_file(s, folder ? path : file->name))
                return true;
        } else if (folder && !*s->trouble) {
            snprintf(s->trouble, sizeof s->trouble, "%s is for CUDA %d, and the driver for CUDA %d",
                     file->name, file->cuda, s->most_cuda);
        }
    }
    return false;
}

/* ---- Where to look ---- */

static bool try_pattern(search *s, const char *prefix, const char *pattern)
{
    char path[4096];
    glob_t found;
    bool done = false;
    if ((size_t)snprintf(path, sizeof path, "%s%s", prefix, pattern) >= sizeof path ||
        glob(path, 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc && !done; i++)
        done = try_folder(s, found.gl_pathv[i]);
    globfree(&found);
    return done;
}

#define PACKAGES "/lib/python3*/site-packages/nvidia/*/lib"

static bool try_variable(search *s, const char *variable, const char *pattern)
{
    const char *value = getenv(variable);
    return value && *value && try_pattern(s, value, pattern);
}

/* Calls `visit` with each folder of a list separated by colons until one has the library. */
static bool try_list(search *s, const char *list, bool (*visit)(search *s, const char *folder))
{
    bool done = false;
    while (list && *list && !done) {
        char folder[4096];
        size_t length = strcspn(list, ":");
        if (length > 0 && length < sizeof folder) {
            memcpy(folder, list, length);
            folder[length] = '\0';
            done = visit(s, folder);
        }
        list += length + (list[length] == ':');
    }
    return done;
}

/* The packages of a folder's python3. */
static bool try_python(search *s, const char *folder)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/python3", folder) >= sizeof path ||
        access(path, X_OK) != 0)
        return false;
    return try_pattern(s, folder, "/.." PACKAGES);
}

static bool try_usual_places(search *s)
{
    return try_folder(s, NULL) || try_variable(s, "CUDA_PATH", "/lib64") ||
           try_folder(s, "/usr/local/cuda/lib64") || try_variable(s, "VIRTUAL_ENV", PACKAGES) ||
           try_list(s, getenv("PATH"), try_python) || try_variable(s, "HOME", "/.local" PACKAGES) ||
           try_pattern(s, "/opt/*/.venv", PACKAGES) || try_pattern(s, "/opt/*", PACKAGES);
}

static void find_library(cuda_api *api, cuda_library library, int most_cuda)
{
    const library_def *def = &LIBRARIES[library];
    const char *folders = getenv("NEAP_CUDA_PATH"), *nvrtc = getenv("NEAP_NVRTC");
    search s = {.api = api, .library = library, .most_cuda = most_cuda};
    bool hidden = folders && strcmp(folders, "none") == 0;
    if (library == CUDA_LIBRARY_NVRTC && nvrtc && *nvrtc && try_file(&s, nvrtc))
        return;
    if (!hidden && (folders && *folders ? try_list(&s, folders, try_folder) : try_usual_places(&s)))
        return;
    if (*s.trouble)
        snprintf(api->problems[library], sizeof api->problems[0], "%s; %s", s.trouble, def->remedy);
    else
        snprintf(api->problems[library], sizeof api->problems[0], "there is no %s%s%.60s; %s",
                 def->files[0].name, folders && *folders ? " in NEAP_CUDA_PATH=" : "",
                 folders ? folders : "", def->remedy);
}

/* ---- The interface ---- */

void neap_cuda_api_load(cuda_api *api)
{
    int version = 0;
    *api = (cuda_api){.handles = {NULL}};
    find_library(api, CUDA_LIBRARY_DRIVER, 0);
    if (api->handles[CUDA_LIBRARY_DRIVER] && api->cuDriverGetVersion(&version) != 0)
        version = 0;
    for (int i = CUDA_LIBRARY_DRIVER + 1; i < CUDA_LIBRARY_COUNT; i++)
        find_library(api, (cuda_library)i, version / 1000);
}

void neap_cuda_api_unload(cuda_api *api)
{
    for (int i = 0; i < CUDA_LIBRARY_COUNT; i++)
        if (api->handles[i])
            dlclose(api->handles[i]);
    *api = (cuda_api){.handles = {NULL}};
}

const char *neap_cuda_library_name(cuda_library library)
{
    return LIBRARIES[library].name;
}

char *neap_cuda_library_version(const cuda_api *api, cuda_library library, char *buffer,
                                size_t capacity)
{
    int major = 0, minor = 0;
    size_t number = 0;
    *buffer = '\0';
    if (!api->handles[library])
        return buffer;
    if (library == CUDA_LIBRARY_DRIVER && api->cuDriverGetVersion(&major) == 0)
        snprintf(buffer, capacity, "%d.%d", major / 1000, major % 1000 / 10);
    if (library == CUDA_LIBRARY_NVRTC && api->nvrtcVersion(&major, &minor) == 0)
        snprintf(buffer, capacity, "%d.%d", major, minor);
    if (library == CUDA_LIBRARY_NVML && api->nvmlInit_v2() == 0) {
        if (api->nvmlSystemGetDriverVersion(buffer, (unsigned)capacity) != 0)
            *buffer = '\0';
        api->nvmlShutdown();
    }
    if (library == CUDA_LIBRARY_CUDNN)
        number = api->cudnnGetVersion();
    if (library == CUDA_LIBRARY_CUBLASLT)
        number = api->cublasLtGetVersion();
    if (number > 0)
        snprintf(buffer, capacity, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
    return buffer;
}

neap_status neap_cuda_api_need(const cuda_api *api, cuda_library library, neap_diag *diag)
{
    if (api->handles[library])
        return NEAP_OK;
    return neap_fail(diag, NEAP_UNSUPPORTED, "%s of CUDA: %s", LIBRARIES[library].name,
                     api->problems[library]);
}
