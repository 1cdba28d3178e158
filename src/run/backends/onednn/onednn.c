/* The onednn backend: the table of its ops, and what they share. */
#include "run/backends/onednn/onednn.h"

#include "base/memory.h"
#include "run/backends/onednn/dnnl_api.h"

#include <stdio.h>
#include <string.h>

static const run_op *const ops[] = {
#define X(type) &neap_onednn_op_##type,
#include "graph/ops.def"
#undef X
};

const char *neap_onednn_op_name(const run_spec *spec)
{
    return spec->op->name && *spec->op->name ? spec->op->name : spec->op->type;
}

/* ---- Kernels ---- */

static void delete_kernel(run_kernel *self)
{
    onednn_kernel *kernel = (onednn_kernel *)self;
    neap_delete_array(kernel->allocator, 1, kernel->bytes, kernel);
}

neap_status neap_onednn_new_kernel(neap_backend *backend, size_t bytes,
                                   neap_status (*run)(const run_kernel *, const run_args *,
                                                      neap_diag *),
                                   void *kernel, neap_diag *diag)
{
    onednn_kernel *made;
    neap_status status = neap_new_array(backend->allocator, 1, bytes, &made, diag);
    if (status == NEAP_OK) {
        made->base = (run_kernel){run, delete_kernel};
        made->allocator = backend->allocator;
        made->bytes = bytes;
        made->threads = backend->threads;
        *(onednn_kernel **)kernel = made;
    }
    return status;
}

/* ---- The backend ---- */

/* "model name" of /proc/cpuinfo, or "" */
static void read_processor(char *name, size_t capacity)
{
    *name = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && !*name && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0)
            snprintf(name, capacity, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file)
        fclose(file);
}

static neap_status onednn_open(neap_allocator *allocator, const neap_backend_options *options,
                               neap_backend **backend, neap_diag *diag)
{
    int threads = options->threads;
    onednn_backend *opened;
    neap_status status = NEAP_NEW(allocator, 1, &opened, diag);
    if (status == NEAP_OK)
        status = neap_dnnl_api_open(allocator, threads, &opened->api, diag);
    if (status != NEAP_OK) {
        NEAP_DELETE(allocator, 1, opened);
        return status;
    }
    char processor[80];
    read_processor(processor, sizeof processor);
    snprintf(opened->base.machine, sizeof opened->base.machine, "onednn %s, %s, %s, %d thread%s",
             neap_dnnl_api_version(opened->api), *processor ? processor : "unnamed processor",
             neap_dnnl_api_isa(), threads, threads == 1 ? "" : "s");
    opened->base.channels_last = true;
    *backend = &opened->base;
    return NEAP_OK;
}

static void onednn_close(neap_backend *backend)
{
    onednn_backend *opened = (onednn_backend *)backend;
    neap_dnnl_api_close(opened->api);
    NEAP_DELETE(backend->allocator, 1, opened);
}

const run_backend_type neap_run_backend_onednn = {
    .name = "onednn",
    .summary = "oneDNN's kernels and vectorised loops on all cores of the processor, f32",
    .open = onednn_open,
    .close = onednn_close,
    .supports_op = neap_run_ops_support,
    .variants = neap_run_ops_variants,
    .prepare = neap_run_ops_prepare,
    .ops = ops,
    .floats = NEAP_F32,
};
