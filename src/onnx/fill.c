/* neap_onnx_fill: the contents of parameters and constant inputs, as a graph has them. */
#include "onnx/import.h"

#include "base/fail.h"
#include "base/half.h"
#include "base/memory.h"

#include <string.h>

/* ---- One number ---- */

static void put_real(neap_dtype dtype, void *data, int64_t i, double number)
{
    switch (dtype) {
    case NEAP_F32:
        ((float *)data)[i] = (float)number;
        break;
    case NEAP_F64:
        ((double *)data)[i] = number;
        break;
    case NEAP_F16:
        ((uint16_t *)data)[i] = neap_to_f16((float)number);
        break;
    default:
        ((uint16_t *)data)[i] = neap_to_bf16((float)number);
    }
}

static bool is_float(neap_dtype dtype)
{
    return dtype == NEAP_F32 || dtype == NEAP_F64 || dtype == NEAP_F16 || dtype == NEAP_BF16;
}

/* ---- Constant inputs ---- */

static void fill_constant(const onnx_constant *from, neap_dtype dtype, void *data)
{
    for (int64_t i = 0; i < from->elements; i++)
        if (is_float(dtype))
            put_real(dtype, data, i, neap_onnx_get_real(from, i));
        else if (dtype == NEAP_I64)
            ((int64_t *)data)[i] = neap_onnx_get_integer(from, i);
        else if (dtype == NEAP_I32)
            ((int32_t *)data)[i] = (int32_t)neap_onnx_get_integer(from, i);
        else
            ((uint8_t *)data)[i] = (uint8_t)neap_onnx_get_integer(from, i);
}

/* ---- Parameters ---- */

void neap_onnx_walk_begin(onnx_walk *walk, const onnx_parameter *parameter)
{
    int64_t elements = 1;
    for (uint32_t a = 0; a < parameter->layout.n_atoms; a++)
        elements *= parameter->layout.extents[a];
    *walk = (onnx_walk){.layout = &parameter->layout};
    if (parameter->gate_groups > 0)
        walk->gate = elements / (4 * parameter->gate_groups);
    neap_onnx_order_begin(&walk->order, &parameter->layout);
}

int64_t neap_onnx_walk_next(onnx_walk *walk)
{
    static const int64_t in_file[4] = {0, 2, 3, 1}; /* which of i o f c is i, f, c, o */
    if (walk->gate > 0 && walk->next % walk->gate == 0) {
        int64_t gate = walk->next / walk->gate, group = gate / 4;
        neap_onnx_order_seek(&walk->order, (4 * group + in_file[gate % 4]) * walk->gate);
    }
    walk->next++;
    return neap_onnx_order_next(&walk->order);
}

/* A matrix turned, in tiles that fit a cache: rows x columns here, columns x rows in the file. */
static void turn(const uint8_t *from, float *to, int64_t rows, int64_t columns)
{
    enum { TILE = 32 };
    for (int64_t r = 0; r < rows; r += TILE)
        for (int64_t c = 0; c < columns; c += TILE)
            for (int64_t i = r; i < rows && i < r + TILE; i++)
                for (int64_t k = c; k < columns && k < c + TILE; k++)
                    memcpy(&to[i * columns + k], from + (k * rows + i) * (int64_t)sizeof *to,
                           sizeof *to);
}

/* The usual cases at the speed of memory: f32 in the file's order, or as a turned matrix. */
static bool fill_fast(const onnx_parameter *parameter, const onnx_tensor *from, float *floats)
{
    onnx_view layout = parameter->layout;
    bool single = from->type == ONNX_FLOAT && (from->form == FORM_RAW || from->form == FORM_FLOATS);
    neap_onnx_view_simplify(&layout);
    if (parameter->gate_groups > 0)
        return false;
    if (neap_onnx_view_is_whole(&layout)) {
        neap_onnx_tensor_floats(from, floats);
        return true;
    }
    if (!single || layout.n_atoms != 2 || layout.order[0] != 1)
        return false;
    turn(from->data, floats, layout.extents[1], layout.extents[0]);
    return true;
}

static void fill_parameter(const onnx_parameter *parameter, const onnx_tensor *from,
                           neap_dtype dtype, void *data)
{
    onnx_walk walk;
    if (dtype == NEAP_F32 && fill_fast(parameter, from, data))
        return;
    neap_onnx_walk_begin(&walk, parameter);
    for (int64_t i = 0; i < from->elements; i++)
        put_real(dtype, data, i, neap_onnx_tensor_real(from, neap_onnx_walk_next(&walk)));
}

static neap_status check_count(const char *name, int64_t count, int64_t wanted, neap_diag *diag)
{
    if (count == wanted)
        return NEAP_OK;
    return neap_fail(diag, NEAP_INVALID, "\"%s\" has %lld elements, not %lld", name,
                     (long long)wanted, (long long)count);
}

neap_status neap_onnx_fill(const neap_onnx_binding *binding, const char *name, neap_dtype dtype,
                           void *data, int64_t count, bool *found, neap_diag *diag)
{
    *found = false;
    for (size_t i = 0; i < binding->n_parameters && is_float(dtype); i++) {
        const onnx_parameter *parameter = &binding->parameters[i];
        const onnx_tensor *from = &binding->file->proto.initializers[parameter->initializer];
        if (strcmp(parameter->name, name) != 0)
            continue;
        NEAP_TRY(check_count(name, count, from->elements, diag));
        if (data)
            fill_parameter(parameter, from, dtype, data);
        *found = true;
        return NEAP_OK;
    }
    for (size_t i = 0; i < binding->n_fixed; i++) {
        if (strcmp(binding->fixed[i].name, name) != 0)
            continue;
        NEAP_TRY(check_count(name, count, binding->fixed[i].constant->elements, diag));
        if (data)
            fill_constant(binding->fixed[i].constant, dtype, data);
        *found = true;
        return NEAP_OK;
    }
    return NEAP_OK;
}
