// SPDX-License-Identifier: Apache-2.0
//
// Interpreter: runs any graph node by node, in topological order, on host tensors. No passes, no
// plan, no memory planning: what it computes is what the graph means, and the compiler is tested
// against it.
//
//   * Only what fetches and targets need is run; what is fed is not.
//   * A read sees what the writes it is ordered after have left, and otherwise the value from
//   before
//     the step. Writes change a variable in the order of the graph.
//   * A step that fails leaves every variable as it was.
//   * In double, floats are computed as doubles all through. Random ops draw their numbers in their
//     own dtype, so they draw the same ones.
//
// It does not run collectives. Not thread-safe.
#ifndef MIRRORFLOW_FRAMEWORK_REFERENCE_INTERPRETER_H_
#define MIRRORFLOW_FRAMEWORK_REFERENCE_INTERPRETER_H_

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

// A list of tensors; an item without a value is zeros. A value of dtype variant is, here, the
// number of a list in the table of its step.
struct ReferenceList {
  DataType dtype = DT_INVALID;
  Shape element = Shape::UnknownRank();
  std::vector<Tensor> items;
};
using ReferenceLists = std::vector<ReferenceList>;

// Runs a node that has lists among its inputs or outputs; returns its outputs. The ops are not the
// framework's, so whoever has some brings it.
using RunListOpFn = absl::StatusOr<std::vector<Tensor>> (*)(const Node& node,
                                                            absl::Span<const Tensor> inputs,
                                                            ReferenceLists& lists);

struct InterpreterOptions {
  bool in_double = false;
  // What the functions of branches and loops are made of; a graph without any does not need it.
  const OpRegistry* ops = nullptr;
  RunListOpFn run_list_op = nullptr;  // a graph without lists does not need it
};

class Interpreter {
 public:
  // Takes a copy of `graph`; `kernels` (those of device type CPU are used) must outlive it.
  static absl::StatusOr<Interpreter> Create(const Graph& graph, const KernelRegistry& kernels,
                                            const InterpreterOptions& options = {});

  // One step: the values of `fetches` after running what they and `targets` need. All are outputs
  // and nodes of the graph that was given to Create. Errors name the node.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                          absl::Span<const Output> fetches,
                                          absl::Span<const Operation> targets = {},
                                          const StepParams& params = {});

  // Gives each variable that has no value yet the output of the node named by `_initializer` of its
  // handle, if there is one.
  absl::Status InitializeVariables(const StepParams& params = {});

  // By name; to be read and set between steps.
  std::map<std::string, Tensor>& variables() { return variables_; }

 private:
  class StepRun;

  Interpreter() = default;
  absl::StatusOr<Output> Translate(const Output& output) const;

  const KernelRegistry* kernels_ = nullptr;
  InterpreterOptions options_;
  Graph original_;
  Graph graph_;               // what is run; a copy of original_, in double if asked
  std::vector<Node*> nodes_;  // of graph_, by the id in original_
  std::map<std::string, Tensor> variables_;
  std::shared_ptr<ReferenceLists> lists_;  // of this step; one for all of its functions
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_REFERENCE_INTERPRETER_H_
