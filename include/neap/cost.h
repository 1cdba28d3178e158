/*
 * neap/cost.h - the time of each op on a device.
 *
 * A roofline model: the time of an op is the larger of its FLOPs divided by the device's FLOP rate
 * and its bytes divided by the memory bandwidth, plus a launch latency. Rate and bandwidth are the
 * peaks times the fraction that real kernels reach. Views take no time. Named devices come from a
 * small table; a file can add or replace devices:
 *
 *     {"neap": "devices", "version": 1, "devices": [
 *        {"name": "mygpu", "summary": "...", "memory": 24e9, "bandwidth": 900e9,
 *         "flops": {"f32": 30e12, "tf32": 60e12, "f16": 120e12, "bf16": 120e12, "f64": 1e12},
 *         "compute_efficiency": 0.6, "memory_efficiency": 0.8, "launch": 5e-6,
 *         "link_out": 12e9, "link_in": 12e9, "link_latency": 1e-5, "duplex": true}]}
 *
 * A bandwidth of null means unlimited: memory traffic takes no time. The device "flops" has
 * unlimited bandwidth and takes 1 s for 10^12 floating-point operations; "unit" gives every op 1 s
 * and every view 0 s. Measured times come in a graph file.
 */
#ifndef NEAP_COST_H
#define NEAP_COST_H

#include <neap/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The arithmetic of matrix products: a type, or f32 inputs rounded to tf32 by the matrix units. */
typedef enum neap_math {
    NEAP_MATH_F32 = 0,
    NEAP_MATH_TF32,
    NEAP_MATH_F16,
    NEAP_MATH_BF16,
    NEAP_MATH_F64,
    NEAP_MATH_COUNT
} neap_math;

typedef struct neap_device {
    const char *name;
    const char *summary;
    bool unit;                     /* every op takes 1 second */
    int64_t memory;                /* bytes; 0: not known */
    double bandwidth;              /* of device memory, bytes per second; HUGE_VAL: no limit */
    double flops[NEAP_MATH_COUNT]; /* peak of matrix products and convolutions; 0: not supported */
    double compute_efficiency;     /* fractions of the peaks that kernels reach */
    double memory_efficiency;
    double launch;            /* seconds added to each op */
    double link_out, link_in; /* host link, bytes per second; 0: none */
    double link_latency;      /* seconds added to each transfer */
    bool duplex;              /* both directions at once */
} neap_device;

typedef struct neap_devices neap_devices;

/* The table of built-in devices. */
NEAP_API neap_status neap_devices_create(neap_allocator *allocator, neap_devices **devices,
                                         neap_diag *diag);
/* Adds the devices of a file. A device with a known name replaces the old one and inherits the
   fields that the file omits; in a new device they are 0 (efficiencies 1.0). On an error nothing
   is added. */
NEAP_API neap_status neap_devices_read_file(neap_devices *devices, const char *path,
                                            neap_diag *diag);
NEAP_API uint32_t neap_devices_count(const neap_devices *devices);
NEAP_API const neap_device *neap_devices_at(const neap_devices *devices, uint32_t index);
NEAP_API const neap_device *neap_devices_find(const neap_devices *devices, const char *name);
NEAP_API void neap_devices_destroy(neap_devices *devices);

/*
 * Sets the time of every op of the graph for a device, and drops variants measured elsewhere.
 * `math` is the arithmetic of f32 matrix products (NEAP_MATH_F32 or NEAP_MATH_TF32); other types
 * use their own. NEAP_INVALID, with the graph unchanged, if an op has no counts and its type or
 * shapes are unknown.
 */
NEAP_API neap_status neap_cost_apply(neap_graph *graph, const neap_device *device, neap_math math,
                                     neap_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
