// SPDX-License-Identifier: Apache-2.0
//
// Sorts numbered items in topological order: nodes of a graph, records of a file, functions of a
// library. The sort is iterative, so the stack does not grow with the input.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_TOPOLOGICAL_SORT_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_TOPOLOGICAL_SORT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace mirrorflow {

struct TopologicalSort {
  // Lists each item after all of its inputs. Of several items that could come next, the one with
  // the smallest number does. Items that are on a cycle or depend on one are missing.
  std::vector<int> order;
  // One cycle, if any exists, starting at its smallest number. Each item is an input of the next
  // one, and the last item is an input of the first.
  std::vector<int> cycle;
};

// Sorts the items 0 … count - 1. `inputs(i, visit)` calls visit(j) for each input j of item i. It
// may repeat an input, but must make the same calls every time.
TopologicalSort SortTopologically(
    int count, absl::FunctionRef<void(int, absl::FunctionRef<void(int)>)> inputs);

// Formats a cycle, such as `a -> b -> a`. Abbreviates a long cycle.
std::string CycleToString(absl::Span<const int> cycle, absl::FunctionRef<std::string(int)> name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_TOPOLOGICAL_SORT_H_
