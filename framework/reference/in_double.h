// SPDX-License-Identifier: Apache-2.0
//
// A graph computed in double: what float rounding is measured against.
#ifndef MIRRORFLOW_FRAMEWORK_REFERENCE_IN_DOUBLE_H_
#define MIRRORFLOW_FRAMEWORK_REFERENCE_IN_DOUBLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

struct GraphInDouble {
  Graph graph;
  std::vector<Node*> nodes;  // by the id of the node that each stands for
};

// A copy in which every type attribute and constant that is floating is double. InvalidArgument
// naming the node if an op has no such form.
absl::StatusOr<GraphInDouble> CopyInDouble(const Graph& graph);

// The same numbers in another floating dtype, rounded; other tensors as they are.
absl::StatusOr<Tensor> ConvertFloating(const Tensor& tensor, DataType dtype);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_REFERENCE_IN_DOUBLE_H_
