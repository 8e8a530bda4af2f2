// SPDX-License-Identifier: Apache-2.0
//
// Predicts how long the steps of a plan wait for other memory domains. Like the cost model, it
// measures nothing: the plan, the costs of its instructions and those of the link decide.
#ifndef MIRRORFLOW_TOOLS_BENCH_PREDICT_EXCHANGE_H_
#define MIRRORFLOW_TOOLS_BENCH_PREDICT_EXCHANGE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

struct ExchangePrediction {
  double step_ns = 0;
  double exposed_ns = 0;   // the part of a step in which it waits for other domains
  double network_ns = 0;   // in which its bytes are on the link
  int64_t sent_bytes = 0;  // from one domain, per step
};

// `costs`: of each instruction of rank 0's plan if there were one domain, in nanoseconds.
// The link carries one message after another, in the order in which collectives start; an update
// that is finished late may take until the next step needs it. Collectives have the default
// ExchangeOptions. REQUIRES: several domains.
ExchangePrediction PredictExchange(const Plan& plan, absl::Span<const double> costs,
                                   const Topology& topology, const LinkCosts& link);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_PREDICT_EXCHANGE_H_
