/* doctor_samples.h - small files that neap doctor reads. */
#ifndef NEAP_CLI_DOCTOR_SAMPLES_H
#define NEAP_CLI_DOCTOR_SAMPLES_H

#include <stddef.h>

/* An ONNX model with one matrix product. */
extern const unsigned char doctor_onnx[];
extern const size_t doctor_onnx_bytes;

/* A PNG picture of two grey pixels, black and white. */
extern const unsigned char doctor_png[];
extern const size_t doctor_png_bytes;

#endif
