// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// By axis, then replica.
using RowShares = std::vector<std::vector<int64_t>>;

// The rows of each axis that each replica gets: those of `replica_rows`, or, if there are none, as
// even as possible, the first replicas one more. InvalidArgument if `replica_rows` are not
// `world_size` numbers from 0 on whose sum is the size of every axis.
absl::StatusOr<RowShares> ShareRows(absl::Span<const Axis> axes,
                                    absl::Span<const int64_t> replica_rows, int world_size);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_ROW_SHARES_H_
