/* The table of backends, and what all of them share. */
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "graph/graph_internal.h"
#include "run/backend.h"

#include <limits.h>
#include <string.h>

static const run_backend_type *const backends[] = {
#define X(name) &neap_run_backend_##name,
#include "run/backends.def"
#undef X
};

#define N_BACKENDS (sizeof backends / sizeof *backends)

uint32_t neap_backends_count(void)
{
    return N_BACKENDS;
}

const char *neap_backends_name(uint32_t index)
{
    return index < N_BACKENDS ? backends[index]->name : NULL;
}

const char *neap_backends_summary(uint32_t index)
{
    return index < N_BACKENDS ? backends[index]->summary : NULL;
}

/* The table goes from the plainest to the fastest. */
const char *neap_backends_default(void)
{
    return backends[N_BACKENDS - 1]->name;
}

static neap_status fail_unknown(const char *name, neap_diag *diag)
{
    char names[128] = "";
    for (size_t i = 0; i < N_BACKENDS; i++) {
        strncat(names, i ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, backends[i]->name, sizeof names - strlen(names) - 1);
    }
    return neap_fail(diag, NEAP_INVALID, "there is no backend \"%s\" in this build; it has %s",
                     name, names);
}

neap_status neap_backend_open(neap_allocator *allocator, const char *name, int threads,
                              neap_backend **backend, neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    if (threads < 0)
        return neap_fail(diag, NEAP_INVALID, "%d threads: it must be 0 (all) or more", threads);
    for (size_t i = 0; i < N_BACKENDS; i++) {
        if (strcmp(backends[i]->name, name) != 0)
            continue;
        int team = (int)neap_team_size(threads, INT_MAX);
        neap_status status = backends[i]->open(allocator, team, backend, diag);
        if (status == NEAP_OK) {
            (*backend)->type = backends[i];
            (*backend)->allocator = allocator;
            (*backend)->threads = team;
        }
        return status;
    }
    return fail_unknown(name, diag);
}

void neap_backend_close(neap_backend *backend)
{
    if (backend)
        backend->type->close(backend);
}

const char *neap_backend_name(const neap_backend *backend)
{
    return backend->type->name;
}

const char *neap_backend_machine(const neap_backend *backend)
{
    return backend->machine;
}

int neap_backend_threads(const neap_backend *backend)
{
    return backend->threads;
}

int64_t neap_run_spec_int(const run_spec *spec, const char *name, int64_t otherwise)
{
    return neap_op_attr_int(spec->op, name, otherwise);
}

double neap_run_spec_real(const run_spec *spec, const char *name, double otherwise)
{
    return neap_op_attr_real(spec->op, name, otherwise);
}
