// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_TRANSPORT_COSTS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_TRANSPORT_COSTS_H_

#include "distribute/cluster/collective_kind.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

// Returns the costs of messages between CPUs of different hosts, if nothing was measured.
inline LinkCosts LinkCostsOf(CollectiveKind transport) {
  // UCX is for InfiniBand and RoCE: a link of 100 Gbit/s, by its data sheet.
  if (transport == CollectiveKind::kUcx) return {.message_ns = 5'000, .byte_ns = 0.1};
  return {};  // TCP
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_TRANSPORT_COSTS_H_
