// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_MEASURE_LINK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_MEASURE_LINK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// Measures the cost of messages between domains with all-reduces of two sizes. All workers must
// call this, each with its own ranks' communicators. All return what rank 0 measured.
absl::StatusOr<LinkCosts> MeasureLink(absl::Span<const std::unique_ptr<Communicator>> local_ranks,
                                      WorkerGroup& workers, MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_MEASURE_LINK_H_
