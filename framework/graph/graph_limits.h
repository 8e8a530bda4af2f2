// SPDX-License-Identifier: Apache-2.0
//
// GraphLimits: bounds on the size of a foreign graph. A few bytes of a file can stand for any
// number of nodes (functions that call functions) and for any amount of memory (a repeated value).
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_LIMITS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_LIMITS_H_

#include <cstdint>

namespace mirrorflow {

struct GraphLimits {
  // A function body counts once for each reference to the function.
  int64_t max_nodes = int64_t{1} << 22;
  // Limits each of these separately: the file, its message in memory, the message with all function
  // calls inlined, and the total size of the tensors that are stored as one repeated value.
  int64_t max_bytes = int64_t{1} << 31;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_LIMITS_H_
