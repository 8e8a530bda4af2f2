// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARDS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Row counts, by axis, then replica.
using RowShards = std::vector<std::vector<int64_t>>;

// Divides the rows of each axis among the replicas: according to `replica_rows` or, if that is
// empty, as evenly as possible, with the remainder on the first replicas. Each replica gets one row
// of an axis with Axis::of_replicas. InvalidArgument unless `replica_rows` has `world_size` numbers
// >= 0 whose sum is the size of every other axis.
absl::StatusOr<RowShards> ShardRows(absl::Span<const Axis> axes,
                                    absl::Span<const int64_t> replica_rows, int world_size);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARDS_H_
