// SPDX-License-Identifier: Apache-2.0
//
// GraphLimits: how large a graph from outside may become. A few bytes of a file can stand for any
// number of nodes (functions that call functions) and for any amount of memory (a value repeated).
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_LIMITS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_LIMITS_H_

#include <cstdint>

namespace mirrorflow {

struct GraphLimits {
  // With the body of a function counted at each place that mentions it.
  int64_t max_nodes = int64_t{1} << 22;
  // Of the file, of the message with all function calls inlined, and of the tensors that are
  // written as one repeated value: each of them by itself.
  int64_t max_bytes = int64_t{1} << 31;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_LIMITS_H_
