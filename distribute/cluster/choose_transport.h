// SPDX-License-Identifier: Apache-2.0
//
// Chooses the transport between hosts, and estimates its costs. By default (kAuto), chooses only a
// transport that keeps the authentication and encryption that the user requested.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/join_options.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// Returns whether data between CPUs travels over UCX rather than TCP. kAuto selects UCX only if the
// network device towards the other workers has RDMA on every worker (`has_rdma` on this one) and
// the job has neither a secret nor certificates, because UCX neither authenticates nor encrypts.
// All workers must call this.
absl::StatusOr<bool> ChooseUcx(const JoinOptions& options, bool has_rdma, WorkerGroup& group,
                               MonotonicTime deadline);

// Returns InvalidArgument if a job with certificates would send data over `library` (UCX or NCCL),
// which does not encrypt, unless the job is `insecure`.
absl::Status CheckUnencrypted(const JoinOptions& options, absl::string_view library);

// Returns assumed costs of messages between CPUs of different hosts, for use without measurements.
inline LinkCosts LinkCostsOf(CollectiveKind transport) {
  // UCX runs on InfiniBand and RoCE, so assume a 100 Gbit/s link, with figures from data sheets.
  if (transport == CollectiveKind::kUcx) return {.message_ns = 5'000, .byte_ns = 0.1};
  return {};  // TCP
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_
