// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MEMBERS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MEMBERS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distribute/cluster/coordination/coordination.pb.h"

namespace mirrorflow {

// Encodes what workers learn about each other: each worker's devices, cores, instruction set and
// host, and everything about worker 0 except its settings. Replaces each host identity with a small
// integer. Every worker receives the result, so it must be small: about three bytes per worker in a
// cluster of equal hosts.
coordination::Membership JoinMembers(absl::Span<const coordination::Member> members);
// Decodes the result of JoinMembers. Returns Internal if `membership` does not describe `count`
// workers.
absl::StatusOr<std::vector<coordination::Member>> SplitMembers(
    const coordination::Membership& membership, int count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MEMBERS_H_
