// SPDX-License-Identifier: Apache-2.0
//
// Chooses what carries data between hosts, so that no data lose the protection that the user has
// asked for.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/collective_kind.h"
#include "framework/core/monotonic_time.h"
#include "framework/session/worker_group.h"

namespace mirrorflow {

struct TransportRequest {
  CollectiveKind kind = CollectiveKind::kAuto;
  bool has_secret = false;
  bool has_certificates = false;
  bool insecure = false;  // the user trusts every process of the network
  bool has_rdma = false;  // the network device on the way to the other workers
};

// Returns whether data between CPUs travel over UCX; otherwise they use TCP. By itself it is chosen
// only if the network device of every worker has RDMA, and the job has neither a secret nor
// certificates: UCX neither authenticates nor encrypts. All workers must call this.
absl::StatusOr<bool> ChooseUcx(const TransportRequest& request, WorkerGroup& group,
                               MonotonicTime deadline);

// InvalidArgument if data of a job with certificates would travel over `library`, UCX or NCCL,
// which encrypts nothing, unless the job is `insecure`.
absl::Status CheckUnencrypted(const TransportRequest& request, absl::string_view library);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_
