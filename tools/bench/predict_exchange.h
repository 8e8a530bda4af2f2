// SPDX-License-Identifier: Apache-2.0
//
// Predicts how long the steps of a plan wait for other memory domains. Like the cost model, it
// measures nothing: the prediction depends only on the plan, its instruction costs and the link
// costs.
#ifndef MIRRORFLOW_TOOLS_BENCH_PREDICT_EXCHANGE_H_
#define MIRRORFLOW_TOOLS_BENCH_PREDICT_EXCHANGE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

struct ExchangePrediction {
  double step_ns = 0;
  double exposed_ns = 0;   // time in a step spent waiting for other domains
  double network_ns = 0;   // time in a step during which its bytes are on the link
  int64_t sent_bytes = 0;  // sent by one domain per step
};

// `costs` holds the cost in nanoseconds of each instruction of rank 0's plan in a single domain.
// The model assumes that the link carries one message at a time, in the order that the collectives
// start, that an update that finishes late must finish before the next step needs it, and that
// collectives use the default ExchangeOptions. REQUIRES: at least two domains.
ExchangePrediction PredictExchange(const Plan& plan, absl::Span<const double> costs,
                                   const Topology& topology, const LinkCosts& link);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_PREDICT_EXCHANGE_H_
