#include <neap/components.h>

#include "lp/highs_model.h"
#include "onnx/file.h"
#include "train/data_internal.h"

#if NEAP_HAS_ONEDNN
#include "run/backends/onednn/dnnl_api.h"
#endif

#include <stdio.h>

/* Each writes the version, or leaves the empty buffer as it is. */

static void highs(char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "%s", neap_highs_version());
}

static void onednn(char *buffer, size_t capacity)
{
#if NEAP_HAS_ONEDNN
    neap_dnnl_version(buffer, capacity);
#else
    (void)buffer, (void)capacity;
#endif
}

static void openmp(char *buffer, size_t capacity)
{
#ifdef _OPENMP
    snprintf(buffer, capacity, "%d", _OPENMP);
#else
    (void)buffer, (void)capacity;
#endif
}

static void png(char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "%s", neap_picture_png_version());
}

static void protobuf(char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "%s", neap_onnx_protobuf_version());
}

/* Nothing of it is linked: the backend loads what the machine has. */
static void cuda(char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "loaded at run time");
}

static void compiler(char *buffer, size_t capacity)
{
#if defined(__clang__)
    snprintf(buffer, capacity, "clang %s", __clang_version__);
#elif defined(__GNUC__)
    snprintf(buffer, capacity, "gcc %s", __VERSION__);
#else
    snprintf(buffer, capacity, "unknown");
#endif
}

static const struct component {
    const char *name, *purpose;
    void (*version)(char *buffer, size_t capacity);
} COMPONENTS[] = {
    {"HiGHS", "linear and integer programs of some methods", highs},
    {"oneDNN", "kernels on the processor", onednn},
    {"OpenMP", "threads of these kernels", openmp},
    {"libpng", "pictures in PNG files", png},
    {"protobuf-c", "ONNX files", protobuf},
    {"CUDA", "kernels on a GPU, compiled for the one that is there", cuda},
    {"compiler", "of this library", compiler},
};

uint32_t neap_components_count(void)
{
    return sizeof COMPONENTS / sizeof COMPONENTS[0];
}

const char *neap_components_name(uint32_t index)
{
    return COMPONENTS[index].name;
}

const char *neap_components_purpose(uint32_t index)
{
    return COMPONENTS[index].purpose;
}

char *neap_components_version(uint32_t index, char *buffer, size_t capacity)
{
    if (capacity > 0)
        *buffer = '\0';
    COMPONENTS[index].version(buffer, capacity);
    return buffer;
}
