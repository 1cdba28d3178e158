/*
 * A device file of arbitrary bytes: rejected with one line and an unchanged table, or accepted, and
 * each device then times a graph or reports why it cannot.
 */
#include "fuzz.h"

#include <math.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char devices_graph_text[] =
    "{\"neap\":\"graph\",\"version\":1,\"values\":["
    "{\"bytes\":16,\"kind\":\"input\",\"dtype\":\"f32\",\"shape\":[2,2]},"
    "{\"bytes\":16,\"dtype\":\"f32\",\"shape\":[2,2]},"
    "{\"bytes\":8,\"dtype\":\"f16\",\"shape\":[2,2]}],\"ops\":["
    "{\"type\":\"linear\",\"inputs\":[0,0],\"outputs\":[1],\"time\":0},"
    "{\"type\":\"mine\",\"inputs\":[1],\"outputs\":[2],\"time\":0,\"flops\":9,\"bytes_moved\":9}],"
    "\"outputs\":[2]}";

static bool devices_share(double x)
{
    return x > 0 && x <= 1;
}

static bool devices_amount(double x)
{
    return isfinite(x) && x >= 0;
}

static void devices_check_one(const neap_devices *devices, const neap_device *device)
{
    neap_graph *graph;
    neap_diag diag = {0};
    fuzz_check_line(device->name);
    FUZZ_CHECK(neap_devices_find(devices, device->name) == device);
    FUZZ_CHECK(device->summary && device->memory >= 0);
    FUZZ_CHECK(devices_share(device->compute_efficiency));
    FUZZ_CHECK(devices_share(device->memory_efficiency));
    FUZZ_CHECK(device->unit || device->bandwidth > 0);
    FUZZ_CHECK(devices_amount(device->launch) && devices_amount(device->link_latency));
    FUZZ_CHECK(devices_amount(device->link_out) && devices_amount(device->link_in));
    FUZZ_CHECK(neap_graph_read_text(NULL, devices_graph_text, sizeof devices_graph_text - 1, "g",
                                    &graph, &diag) == NEAP_OK);
    neap_status status = neap_cost_apply(graph, device, NEAP_MATH_F32, &diag);
    FUZZ_CHECK(status == NEAP_OK || status == NEAP_INVALID);
    if (status == NEAP_INVALID)
        fuzz_check_line(diag.message);
    else
        FUZZ_CHECK(neap_graph_base_ticks(graph) >= 0);
    neap_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    FILE *file = tmpfile();
    neap_devices *devices;
    neap_diag diag = {0};
    FUZZ_CHECK(file != NULL);
    FUZZ_CHECK(fwrite(data, 1, size, file) == size && fflush(file) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));

    FUZZ_CHECK(neap_devices_create(NULL, &devices, &diag) == NEAP_OK);
    uint32_t before = neap_devices_count(devices);
    const neap_device *first = neap_devices_at(devices, 0);
    neap_status status = neap_devices_read_file(devices, path, &diag);
    fclose(file);
    if (status != NEAP_OK) {
        fuzz_check_refusal(status, &diag, path);
        FUZZ_CHECK(neap_devices_count(devices) == before);
        FUZZ_CHECK(neap_devices_at(devices, 0) == first);
    }
    FUZZ_CHECK(neap_devices_count(devices) >= before);
    for (uint32_t i = 0; i < neap_devices_count(devices); i++)
        devices_check_one(devices, neap_devices_at(devices, i));
    neap_devices_destroy(devices);
    return 0;
}
