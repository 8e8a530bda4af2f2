// SPDX-License-Identifier: Apache-2.0
//
// Chooses the transport between hosts without dropping the protection that the user has asked for.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distribute/cluster/collective_kind.h"
#include "framework/core/monotonic_time.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

struct TransportRequest {
  CollectiveKind kind = CollectiveKind::kAuto;
  bool has_secret = false;
  bool has_certificates = false;
  bool insecure = false;  // the user trusts every process on the network
  bool has_rdma = false;  // of the network device towards the other workers
};

// Returns whether data between CPUs travel over UCX rather than TCP. kAuto selects UCX only if the
// network device of every worker has RDMA and the job has neither a secret nor certificates,
// because UCX neither authenticates nor encrypts. All workers must call this.
absl::StatusOr<bool> ChooseUcx(const TransportRequest& request, WorkerGroup& group,
                               MonotonicTime deadline);

// Returns InvalidArgument if a job with certificates would send data over `library` (UCX or NCCL),
// which does not encrypt, unless the job is `insecure`.
absl::Status CheckUnencrypted(const TransportRequest& request, absl::string_view library);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CHOOSE_TRANSPORT_H_
