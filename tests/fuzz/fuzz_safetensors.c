/*
 * A safetensors file of arbitrary bytes: rejected with one line, or tensors that follow each other
 * in the file; each can be found and read, and all are written again with the same contents.
 */
#include "fuzz.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t safetensors_check_one(const neap_safetensors *file, size_t index,
                                     const uint8_t *data, size_t size)
{
    const neap_safetensors_entry *entry = neap_safetensors_at(file, index);
    neap_diag diag = {0};
    FUZZ_CHECK(neap_safetensors_find(file, entry->name) == entry);
    FUZZ_CHECK(entry->dtype_name && (entry->rank == 0 || entry->shape));
    FUZZ_CHECK(entry->bytes >= 0 && entry->offset >= 8);
    FUZZ_CHECK((uint64_t)entry->offset + (uint64_t)entry->bytes <= size);
    int64_t elements = 1, width = neap_dtype_bytes(entry->dtype);
    for (uint32_t i = 0; i < entry->rank; i++)
        elements *= entry->shape[i];
    FUZZ_CHECK(width == 0 || elements * width == entry->bytes);
    size_t bytes = (size_t)entry->bytes;
    uint8_t *copy = malloc(bytes + 1);
    FUZZ_CHECK(copy != NULL);
    FUZZ_CHECK(neap_safetensors_read(file, entry, copy, bytes, &diag) == NEAP_OK);
    FUZZ_CHECK(memcmp(copy, data + entry->offset, bytes) == 0);
    free(copy);
    return entry->bytes;
}

/* Those whose dtype we have are written to a file of their own, and read back. */
static void safetensors_write_again(const neap_safetensors *file, const uint8_t *data)
{
    size_t count = neap_safetensors_count(file), kept = 0;
    size_t n_metadata = neap_safetensors_metadata_count(file);
    neap_safetensor *tensors = calloc(count + 1, sizeof *tensors);
    char path[] = "/tmp/neap-fuzz-XXXXXX";
    int made = mkstemp(path);
    neap_diag diag = {0};
    neap_safetensors *again;
    FUZZ_CHECK(tensors != NULL && made >= 0);
    close(made);
    for (size_t i = 0; i < count; i++) {
        const neap_safetensors_entry *e = neap_safetensors_at(file, i);
        if (e->dtype != NEAP_DTYPE_UNKNOWN)
            tensors[kept++] =
                (neap_safetensor){e->name, e->dtype, e->rank, e->shape, data + e->offset};
    }
    const neap_metadata *metadata = n_metadata > 0 ? neap_safetensors_metadata_at(file, 0) : NULL;
    FUZZ_CHECK(neap_safetensors_write(NULL, path, tensors, kept, metadata, n_metadata, &diag) ==
               NEAP_OK);
    FUZZ_CHECK(neap_safetensors_open(NULL, path, &again, &diag) == NEAP_OK);
    unlink(path);
    FUZZ_CHECK(neap_safetensors_count(again) == kept);
    FUZZ_CHECK(neap_safetensors_metadata_count(again) == n_metadata);
    for (size_t i = 0; i < n_metadata; i++)
        FUZZ_CHECK(strcmp(neap_safetensors_metadata(again, metadata[i].key), metadata[i].value) ==
                   0);
    for (size_t i = 0; i < kept; i++)
        FUZZ_CHECK(neap_safetensors_find(again, tensors[i].name) != NULL);
    neap_safetensors_close(again);
    free(tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    FILE *stream = tmpfile();
    neap_safetensors *file;
    neap_diag diag = {0};
    FUZZ_CHECK(stream != NULL);
    FUZZ_CHECK(fwrite(data, 1, size, stream) == size && fflush(stream) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(stream));
    neap_status status = neap_safetensors_open(NULL, path, &file, &diag);
    fclose(stream);
    if (status != NEAP_OK) {
        fuzz_check_refusal(status, &diag, path);
        FUZZ_CHECK(file == NULL);
        return 0;
    }
    int64_t bytes = 0;
    for (size_t i = 0; i < neap_safetensors_count(file); i++)
        bytes += safetensors_check_one(file, i, data, size);
    FUZZ_CHECK((uint64_t)bytes + 8 <= size);
    safetensors_write_again(file, data);
    neap_safetensors_close(file);
    return 0;
}
