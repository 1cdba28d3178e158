/*
 * neap/neap.h - includes all of neap.
 *
 *     graph.h          the training graph; network.h and models.h build one, onnx.h reads a model
 *     cost.h           times of ops on a device
 *     planner.h        the methods, and requests to them
 *     solve.h          plans a graph; curve.h at many budgets; batch.h finds the largest batch
 *     plan.h           the result; check.h judges it, layout.h assigns addresses, report.h draws it
 *     chain.h          a graph as a chain of stages; split.h puts large values into pieces
 *     run.h, train.h   run plans, and train with them; data.h reads training data, optimizer.h
 *                      updates weights, safetensors.h reads and writes checkpoint files
 *     components.h     what the library was built with
 */
#ifndef NEAP_NEAP_H
#define NEAP_NEAP_H

#include <neap/allocator.h>
#include <neap/batch.h>
#include <neap/chain.h>
#include <neap/check.h>
#include <neap/components.h>
#include <neap/cost.h>
#include <neap/curve.h>
#include <neap/data.h>
#include <neap/graph.h>
#include <neap/layers.h>
#include <neap/layout.h>
#include <neap/models.h>
#include <neap/network.h>
#include <neap/onnx.h>
#include <neap/optimizer.h>
#include <neap/plan.h>
#include <neap/planner.h>
#include <neap/progress.h>
#include <neap/report.h>
#include <neap/run.h>
#include <neap/safetensors.h>
#include <neap/solve.h>
#include <neap/split.h>
#include <neap/status.h>
#include <neap/text.h>
#include <neap/train.h>
#include <neap/version.h>

#endif
