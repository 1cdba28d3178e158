#include "device_run.h"

#include "run/backends/cuda/cuda.h"
#include "run/backends/cuda/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256

/* NULL if the backend's kernels take host memory. */
static cuda_driver *driver_of(neap_backend *backend)
{
    if (strcmp(neap_backend_name(backend), "cuda") != 0)
        return NULL;
    return neap_cuda_driver_of(((cuda_backend *)backend)->platform);
}

typedef struct mirror {
    cuda_driver *driver;
    const device_piece *pieces;
    size_t n_pieces;
    unsigned char **copies; /* of the pieces, in the device's memory */
    void *memory;
} mirror;

static void make_mirror(mirror *m)
{
    neap_diag diag;
    int64_t bytes = 0;
    m->copies = calloc(m->n_pieces, sizeof *m->copies);
    assert_non_null(m->copies);
    for (size_t i = 0; i < m->n_pieces; i++)
        bytes += (int64_t)(m->pieces[i].bytes + 3 * ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    if (neap_cuda_alloc(m->driver, bytes, &m->memory, &diag) != NEAP_OK)
        fail_msg("%s", diag.message);
    unsigned char *next = m->memory;
    for (size_t i = 0; i < m->n_pieces; i++) {
        const device_piece *piece = &m->pieces[i];
        m->copies[i] = next + (uintptr_t)piece->host % ALIGNMENT;
        next += (piece->bytes + 3 * ALIGNMENT) / ALIGNMENT * ALIGNMENT;
        if (neap_cuda_write(m->driver, m->copies[i], piece->host, (int64_t)piece->bytes, &diag) !=
            NEAP_OK)
            fail_msg("%s", diag.message);
    }
}

static void *mirrored(const mirror *m, const void *host)
{
    for (size_t i = 0; host && i < m->n_pieces; i++) {
        const unsigned char *begin = m->pieces[i].host;
        if ((const unsigned char *)host >= begin &&
            (const unsigned char *)host <= begin + m->pieces[i].bytes)
            return m->copies[i] + ((const unsigned char *)host - begin);
    }
    assert_null(host);
    return NULL;
}

static neap_status run_on_copies(const mirror *m, const run_kernel *kernel, const run_args *args,
                                 uint32_t n_inputs, uint32_t n_outputs, neap_diag *diag)
{
    void **addresses = calloc(n_inputs + n_outputs + 1, sizeof *addresses);
    bool trouble = false;
    assert_non_null(addresses);
    for (uint32_t i = 0; i < n_inputs; i++)
        addresses[i] = mirrored(m, args->in[i]);
    for (uint32_t i = 0; i < n_outputs; i++)
        addresses[n_inputs + i] = mirrored(m, args->out[i]);
    run_args there = *args;
    there.in = addresses;
    there.out = addresses + n_inputs;
    there.workspace = mirrored(m, args->workspace);
    neap_status status = kernel->run(kernel, &there, diag);
    if (status == NEAP_OK)
        status = neap_cuda_take_trouble(m->driver, &trouble, diag);
    free(addresses);
    if (status != NEAP_OK || !trouble)
        return status;
    snprintf(diag->message, sizeof diag->message, "an index is out of range");
    return NEAP_INVALID;
}

neap_status run_with_pieces(neap_backend *backend, const run_kernel *kernel, const run_args *args,
                            uint32_t n_inputs, uint32_t n_outputs, const device_piece *pieces,
                            size_t n_pieces, neap_diag *diag)
{
    mirror m = {.driver = driver_of(backend), .pieces = pieces, .n_pieces = n_pieces};
    if (!m.driver)
        return kernel->run(kernel, args, diag);
    make_mirror(&m);
    neap_status status = run_on_copies(&m, kernel, args, n_inputs, n_outputs, diag);
    for (size_t i = 0; i < n_pieces && status == NEAP_OK; i++)
        status =
            neap_cuda_read(m.driver, pieces[i].host, m.copies[i], (int64_t)pieces[i].bytes, diag);
    neap_cuda_free(m.driver, m.memory);
    free(m.copies);
    return status;
}
