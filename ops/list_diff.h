// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_LIST_DIFF_H_
#define MIRRORFLOW_OPS_LIST_DIFF_H_

#include "framework/core/tensor.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

struct ListDifference {
  Tensor out;
  Tensor idx;
};
// Computes ListDiff of two vectors; `idx_dtype` is int32 or int64.
absl::StatusOr<ListDifference> DifferenceOfLists(const Tensor& x, const Tensor& y,
                                                 DataType idx_dtype);

namespace ops {

struct ListDiffOptions {
  DataType out_idx = DT_INT32;  // or DT_INT64
};
struct ListDiffOutputs {
  Output out, idx;
};

// ListDiff: the elements of vector x that are not in y, and their indices in x.
// Shapes:   the results' sizes depend on the values, so x and y must be known when the step is
//           compiled.
ListDiffOutputs ListDiff(const Scope& scope, Output x, Output y,
                         const ListDiffOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_LIST_DIFF_H_
