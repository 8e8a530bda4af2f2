// SPDX-License-Identifier: Apache-2.0
//
// Copies a graph in double precision. The copy is the baseline against which float rounding is
// measured.
#ifndef MIRRORFLOW_TESTS_ORACLE_IN_DOUBLE_H_
#define MIRRORFLOW_TESTS_ORACLE_IN_DOUBLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

struct GraphInDouble {
  Graph graph;
  std::vector<Node*> nodes;  // by the id of the original node
};

// Copies `graph` with every floating-point type attribute and constant converted to double.
// InvalidArgument, naming the node, if an op has no such form.
absl::StatusOr<GraphInDouble> CopyInDouble(const Graph& graph);

// Converts a floating-point tensor to another floating-point dtype, with rounding. Returns any
// other tensor unchanged.
absl::StatusOr<Tensor> ConvertFloating(const Tensor& tensor, DataType dtype);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_ORACLE_IN_DOUBLE_H_
