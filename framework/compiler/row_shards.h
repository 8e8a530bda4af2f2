// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARDS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Row counts, indexed by axis and replica.
using RowShards = std::vector<std::vector<int64_t>>;

// Divides the rows of each axis among the replicas: according to `replica_rows` or, if that is
// empty, as evenly as possible, with the remainder on the first replicas. On an axis with
// Axis::of_replicas, each replica has one row. Returns InvalidArgument unless `replica_rows` is
// empty or has `world_size` values >= 0 whose sum is the size of every other axis.
absl::StatusOr<RowShards> ShardRows(absl::Span<const Axis> axes,
                                    absl::Span<const int64_t> replica_rows, int world_size);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARDS_H_
