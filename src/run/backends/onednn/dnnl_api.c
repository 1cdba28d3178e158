/* oneDNN 2 and 3. */
#include "run/backends/onednn/dnnl_api.h"

#include "base/fail.h"
#include "base/memory.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

struct dnnl_api {
    neap_allocator *allocator;
    int threads;
    char version[24];
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

static neap_status status_of(dnnl_status_t status, const char *what, neap_diag *diag)
{
    switch (status) {
    case dnnl_success:
        return NEAP_OK;
    case dnnl_out_of_memory:
        return neap_fail_no_memory(diag);
    case dnnl_unimplemented:
        return neap_fail(diag, NEAP_UNSUPPORTED, "oneDNN has nothing for %s", what);
    default:
        return neap_fail(diag, NEAP_INTERNAL, "oneDNN failed at %s (status %d)", what, (int)status);
    }
}

neap_status dnnl_api_open(neap_allocator *allocator, int threads, dnnl_api **api, neap_diag *diag)
{
    dnnl_api *opened;
    neap_status status = NEAP_NEW(allocator, 1, &opened, diag);
    if (status != NEAP_OK)
        return status;
    opened->allocator = allocator;
    opened->threads = threads;
    const dnnl_version_t *version = dnnl_version();
    snprintf(opened->version, sizeof opened->version, "%d.%d.%d", version->major, version->minor,
             version->patch);
    status = status_of(dnnl_engine_create(&opened->engine, dnnl_cpu, 0), "its engine", diag);
    if (status == NEAP_OK)
        status = status_of(
            dnnl_stream_create(&opened->stream, opened->engine, dnnl_stream_default_flags),
            "its stream", diag);
    if (status == NEAP_OK)
        *api = opened;
    else
        dnnl_api_close(opened);
    return status;
}

void dnnl_api_close(dnnl_api *api)
{
    if (!api)
        return;
    if (api->stream)
        dnnl_stream_destroy(api->stream);
    if (api->engine)
        dnnl_engine_destroy(api->engine);
    NEAP_DELETE(api->allocator, 1, api);
}

const char *dnnl_api_version(const dnnl_api *api)
{
    return api->version;
}

const char *dnnl_api_isa(void)
{
    int isa = (int)dnnl_get_effective_cpu_isa();
    if ((isa & (int)dnnl_cpu_isa_avx512_core) == (int)dnnl_cpu_isa_avx512_core)
        return "avx512";
    return (isa & (int)dnnl_cpu_isa_avx2) == (int)dnnl_cpu_isa_avx2 ? "avx2" : "sse4.1";
}
