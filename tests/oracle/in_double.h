// SPDX-License-Identifier: Apache-2.0
//
// Copies a graph with all floats converted to double precision. Tests measure float rounding
// against the copy.
#ifndef MIRRORFLOW_TESTS_ORACLE_IN_DOUBLE_H_
#define MIRRORFLOW_TESTS_ORACLE_IN_DOUBLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

struct GraphInDouble {
  Graph graph;
  std::vector<Node*> nodes;  // indexed by the original node's id
};

// Copies `graph` with every floating-point type attribute and constant converted to double. Returns
// InvalidArgument, with the node's name, if an op does not support double.
absl::StatusOr<GraphInDouble> CopyInDouble(const Graph& graph);

// Converts a floating-point tensor to another floating-point dtype, rounding as needed. Returns any
// other tensor unchanged.
absl::StatusOr<Tensor> ConvertFloating(const Tensor& tensor, DataType dtype);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_ORACLE_IN_DOUBLE_H_
