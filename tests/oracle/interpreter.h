// SPDX-License-Identifier: Apache-2.0
//
// Interpreter: runs a graph node by node, in topological order, on host tensors. It uses no passes,
// plans or memory planning. Its results define what a graph computes; tests compare the compiler
// with them.
//
//   * It runs only the nodes that fetches and targets need, and no node that is fed.
//   * A read sees the writes that it is ordered after, or else the value from before the step.
//     Writes change a variable in the order of the graph.
//   * A step that fails leaves every variable unchanged.
//   * With `in_double`, all floating-point computation is in double precision. Random ops still
//     draw in their own dtype, so the numbers are the same.
//
// The interpreter does not run collectives and is not thread-safe.
#ifndef MIRRORFLOW_TESTS_ORACLE_INTERPRETER_H_
#define MIRRORFLOW_TESTS_ORACLE_INTERPRETER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// A list of tensors; an item without a value stands for zeros. The interpreter represents a value
// of dtype variant by its list's index in the step's table.
struct ReferenceList {
  DataType dtype = DT_INVALID;
  Shape element = Shape::UnknownRank();
  std::vector<Tensor> items;
};
using ReferenceLists = std::vector<ReferenceList>;

// Runs a node that takes or returns lists, and returns its outputs. List ops are not part of the
// framework, so the layer that defines them supplies this function.
using RunListOpFn = absl::StatusOr<std::vector<Tensor>> (*)(const Node& node,
                                                            absl::Span<const Tensor> inputs,
                                                            ReferenceLists& lists);

struct InterpreterOptions {
  bool in_double = false;
  // Used to instantiate the functions of branches and loops; other graphs do not need it.
  const OpRegistry* ops = nullptr;
  RunListOpFn run_list_op = nullptr;  // only graphs with lists need it
};

class Interpreter {
 public:
  // Copies `graph`. The interpreter runs the CPU kernels in `kernels`, which must outlive it.
  static absl::StatusOr<Interpreter> Create(const Graph& graph, const KernelRegistry& kernels,
                                            const InterpreterOptions& options = {});

  // Runs one step: everything that `fetches` and `targets` need. Returns the values of `fetches`.
  // All arguments refer to the graph that was passed to Create. Errors name the node.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                          absl::Span<const Output> fetches,
                                          absl::Span<const Operation> targets = {},
                                          const StepParams& params = {});

  // Initializes each variable that has no value yet from the node that the `_initializer` attribute
  // of its handle names. Skips variables whose handles lack this attribute.
  absl::Status InitializeVariables(const StepParams& params = {});

  // Variable values by name. The caller may read and modify them between steps.
  std::map<std::string, Tensor>& variables() { return variables_; }

 private:
  class StepRun;

  Interpreter() = default;
  absl::StatusOr<Output> Translate(const Output& output) const;

  const KernelRegistry* kernels_ = nullptr;
  InterpreterOptions options_;
  Graph original_;
  Graph graph_;               // what runs: a copy of original_, in double precision if requested
  std::vector<Node*> nodes_;  // nodes of graph_, indexed by id in original_
  std::map<std::string, Tensor> variables_;
  std::shared_ptr<ReferenceLists> lists_;  // lists of the current step, shared by its functions
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_ORACLE_INTERPRETER_H_
