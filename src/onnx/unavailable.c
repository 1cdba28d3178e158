/* Opening files in a build without protobuf-c. */
#include "onnx/file.h"

#include "base/fail.h"

const char *neap_onnx_protobuf_version(void)
{
    return "";
}

bool neap_onnx_available(void)
{
    return false;
}

neap_status neap_onnx_open(neap_allocator *allocator, const char *path, neap_onnx **file,
                           neap_diag *diag)
{
    (void)allocator;
    *file = NULL;
    return neap_fail(diag, NEAP_UNSUPPORTED,
                     "%s: this neap was built without ONNX; install protobuf-c and ONNX's schema "
                     "(tools/setup.sh build does) and build it again",
                     path);
}

void neap_onnx_close(neap_onnx *file)
{
    (void)file;
}

const uint8_t *neap_onnx_file_bytes(const neap_onnx *file, size_t *length)
{
    (void)file;
    *length = 0;
    return NULL;
}
