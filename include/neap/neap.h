/*
 * neap/neap.h - all of neap. A tour: graph.h is the thing that is planned, network.h and
 * models.h make one, cost.h gives it times, planner.h lists the methods, solve.h plans it,
 * curve.h plans it at many budgets, batch.h finds how large its batch can be, plan.h is the
 * result, check.h the judge, layout.h the addresses, report.h the pictures; data.h, optimizer.h
 * and safetensors.h are what training takes in, does with gradients and leaves behind; run.h
 * runs plans, train.h trains by them.
 */
#ifndef NEAP_NEAP_H
#define NEAP_NEAP_H

#include <neap/allocator.h>
#include <neap/batch.h>
#include <neap/chain.h>
#include <neap/check.h>
#include <neap/cost.h>
#include <neap/curve.h>
#include <neap/data.h>
#include <neap/graph.h>
#include <neap/layout.h>
#include <neap/models.h>
#include <neap/network.h>
#include <neap/optimizer.h>
#include <neap/plan.h>
#include <neap/planner.h>
#include <neap/progress.h>
#include <neap/report.h>
#include <neap/run.h>
#include <neap/safetensors.h>
#include <neap/solve.h>
#include <neap/status.h>
#include <neap/text.h>
#include <neap/train.h>
#include <neap/version.h>

#endif
