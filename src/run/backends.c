/* The table of backends, and the functions they share. */
#include "base/fail.h"
#include "base/memory.h"
#include "base/team.h"
#include "graph/network_internal.h"
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
    size_t i = N_BACKENDS - 1;
    while (backends[i]->needs_device)
        i--;
    return backends[i]->name;
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

void neap_backend_options_init(neap_backend_options *options)
{
    *options = (neap_backend_options){.threads = 0};
}

neap_status neap_backend_open_with(neap_allocator *allocator, const char *name,
                                   const neap_backend_options *options, neap_backend **backend,
                                   neap_diag *diag)
{
    allocator = neap_allocator_or_system(allocator);
    if (options->threads < 0)
        return neap_fail(diag, NEAP_INVALID, "%d threads: it must be 0 (all) or more",
                         options->threads);
    for (size_t i = 0; i < N_BACKENDS; i++) {
        if (strcmp(backends[i]->name, name) != 0)
            continue;
        neap_backend_options resolved = *options;
        resolved.threads = (int)neap_team_size(options->threads, INT_MAX);
        neap_status status = backends[i]->open(allocator, &resolved, backend, diag);
        if (status == NEAP_OK) {
            (*backend)->type = backends[i];
            (*backend)->allocator = allocator;
            (*backend)->threads = resolved.threads;
        }
        return status;
    }
    return fail_unknown(name, diag);
}

neap_status neap_backend_open(neap_allocator *allocator, const char *name, int threads,
                              neap_backend **backend, neap_diag *diag)
{
    neap_backend_options options;
    neap_backend_options_init(&options);
    options.threads = threads;
    return neap_backend_open_with(allocator, name, &options, backend, diag);
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

static neap_status fail_no_device(const neap_backend *backend, neap_diag *diag)
{
    return neap_fail(diag, NEAP_UNSUPPORTED, "backend %s has no device with memory of its own",
                     backend->type->name);
}

neap_status neap_backend_memory(neap_backend *backend, neap_device_memory *memory, neap_diag *diag)
{
    const run_device_type *device = backend->type->device;
    return device ? device->memory(backend, memory, diag) : fail_no_device(backend, diag);
}

neap_status neap_backend_measure_link(neap_backend *backend, neap_link *link,
                                      neap_contention *contention, neap_diag *diag)
{
    const run_device_type *device = backend->type->device;
    return device ? device->measure_link(backend, link, contention, diag)
                  : fail_no_device(backend, diag);
}

int64_t neap_run_spec_int(const run_spec *spec, const char *name, int64_t otherwise)
{
    return neap_op_attr_int(spec->op, name, otherwise);
}

double neap_run_spec_real(const run_spec *spec, const char *name, double otherwise)
{
    return neap_op_attr_real(spec->op, name, otherwise);
}

/* ---- Operands ---- */

static const run_array *array_at(const run_spec *spec, uint32_t i)
{
    return i < spec->op->n_inputs ? &spec->in[i] : &spec->out[i - spec->op->n_inputs];
}

static op_shape operand_at(const void *from, uint32_t i)
{
    const run_array *array = array_at(from, i);
    op_shape shape = {.dtype = array->dtype, .rank = array->rank};
    memcpy(shape.shape, array->shape, sizeof shape.shape);
    return shape;
}

neap_status neap_run_check_op(const run_spec *spec, neap_diag *diag)
{
    return neap_op_check(&(op_operands){spec->op, operand_at, spec}, diag);
}

int64_t neap_run_integer_limit(const run_spec *spec, uint32_t input)
{
    return neap_op_integer_limit(&(op_operands){spec->op, operand_at, spec}, input);
}

/* ---- Tables of kernels ---- */

static const run_op *op_of(const neap_backend *backend, const run_spec *spec)
{
    return backend->type->ops[neap_op_def_index(spec->op->type)];
}

/* The form checks integers; the first result of every kernel is floating-point. Updates read and
   write floats of any type. */
static bool fits_floats(const run_spec *spec, neap_dtype floats)
{
    if (spec->op->n_updates > 0 || floats == NEAP_DTYPE_UNKNOWN)
        return true;
    bool fits = spec->out[0].dtype == floats;
    for (uint32_t i = 0; i < spec->op->n_inputs + spec->op->n_outputs; i++) {
        neap_dtype dtype = array_at(spec, i)->dtype;
        fits =
            fits && (dtype == floats || dtype == NEAP_I64 || dtype == NEAP_I32 || dtype == NEAP_U8);
    }
    return fits;
}

bool neap_run_ops_support(neap_backend *backend, const run_spec *spec, neap_diag *diag)
{
    const neap_op *op = spec->op;
    if (neap_run_check_op(spec, diag) != NEAP_OK)
        return false;
    if (!op_of(backend, spec)->prepare) {
        neap_fail(diag, NEAP_UNSUPPORTED, "op \"%s\" (%s): the %s backend has no kernel for it",
                  op->name, op->type, backend->type->name);
        return false;
    }
    if (op_of(backend, spec)->check && op_of(backend, spec)->check(spec, diag) != NEAP_OK)
        return false;
    bool fits = fits_floats(spec, backend->type->floats);
    if (!fits)
        neap_fail(diag, NEAP_UNSUPPORTED,
                  "op \"%s\" (%s): the %s backend computes in %s; backend ref may do", op->name,
                  op->type, backend->type->name, neap_dtype_name(backend->type->floats));
    return fits;
}

neap_status neap_run_ops_variants(neap_backend *backend, const run_spec *spec, int64_t *workspaces,
                                  uint32_t *count, neap_diag *diag)
{
    if (!neap_run_ops_support(backend, spec, diag))
        return NEAP_UNSUPPORTED;
    const run_op *op = op_of(backend, spec);
    workspaces[0] = 0;
    *count = 1;
    return op->variants ? op->variants(backend, spec, workspaces, count, diag) : NEAP_OK;
}

neap_status neap_run_ops_algorithm(neap_backend *backend, const run_spec *spec, uint32_t *number,
                                   neap_diag *diag)
{
    const run_op *op = backend->type->ops ? op_of(backend, spec) : NULL;
    *number = 0;
    return op && op->algorithm ? op->algorithm(backend, spec, number, diag) : NEAP_OK;
}

neap_status neap_run_ops_announce(neap_backend *backend, const run_spec *spec, neap_diag *diag)
{
    const run_op *op = op_of(backend, spec);
    return op->announce ? op->announce(backend, spec, diag) : NEAP_OK;
}

neap_status neap_run_ops_prepare(neap_backend *backend, const run_spec *spec, run_kernel **kernel,
                                 neap_diag *diag)
{
    return neap_run_ops_support(backend, spec, diag)
               ? op_of(backend, spec)->prepare(backend, spec, kernel, diag)
               : NEAP_UNSUPPORTED;
}
