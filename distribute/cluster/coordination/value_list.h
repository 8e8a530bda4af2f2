// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_VALUE_LIST_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_VALUE_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "distribute/cluster/coordination/coordination.pb.h"

namespace mirrorflow {

// Encode values as a message, and decode the message. Each distinct value is stored once, and the
// list is run-length encoded, because workers that compare something usually all send the same
// value.
coordination::ValueList ValueListOf(absl::Span<const std::string> values);
// Returns Internal if the list does not hold `count` values.
absl::StatusOr<std::vector<std::string>> ValuesOf(const coordination::ValueList& list, int count);

// Like ValueListOf and ValuesOf, but for the serialized message.
std::string JoinValues(absl::Span<const std::string> values);
absl::StatusOr<std::vector<std::string>> SplitValues(absl::string_view joined, int count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_VALUE_LIST_H_
