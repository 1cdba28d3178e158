/* Kernels that do nothing, to measure the time of everything except the kernels. */
#include "base/memory.h"
#include "run/backend.h"

#include <stdio.h>

static neap_status do_nothing(const run_kernel *self, const run_args *args, neap_diag *diag)
{
    (void)self;
    (void)args;
    (void)diag;
    return NEAP_OK;
}

static void keep(run_kernel *self)
{
    (void)self;
}

static neap_status null_open(neap_allocator *allocator, const neap_backend_options *options,
                             neap_backend **backend, neap_diag *diag)
{
    (void)options;
    neap_status status = NEAP_NEW(allocator, 1, backend, diag);
    if (status == NEAP_OK)
        snprintf((*backend)->machine, sizeof(*backend)->machine, "null");
    return status;
}

static void null_close(neap_backend *backend)
{
    NEAP_DELETE(backend->allocator, 1, backend);
}

static bool null_supports_op(neap_backend *backend, const run_spec *spec, neap_diag *diag)
{
    (void)backend;
    (void)spec;
    (void)diag;
    return true;
}

static neap_status null_variants(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                                 uint32_t *count, neap_diag *diag)
{
    (void)backend;
    (void)spec;
    (void)diag;
    workspaces[0] = 0;
    *count = 1;
    return NEAP_OK;
}

static neap_status null_prepare(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                                neap_diag *diag)
{
    static run_kernel nothing = {do_nothing, keep};
    (void)backend;
    (void)spec;
    (void)diag;
    *kernel = &nothing;
    return NEAP_OK;
}

const run_backend_type neap_run_backend_null = {
    .name = "null",
    .summary = "runs no kernels: what the executor itself takes",
    .open = null_open,
    .close = null_close,
    .supports_op = null_supports_op,
    .variants = null_variants,
    .prepare = null_prepare,
};
