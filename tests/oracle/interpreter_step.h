// SPDX-License-Identifier: Apache-2.0
//
// A step of the interpreter. This header is private to it.
#ifndef MIRRORFLOW_TESTS_ORACLE_INTERPRETER_STEP_H_
#define MIRRORFLOW_TESTS_ORACLE_INTERPRETER_STEP_H_

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "tests/oracle/interpreter.h"

namespace mirrorflow {

// Executes one step. Each write creates a new version of its variable; version 0 is the value
// before the step. A node sees the latest version among the writes that it is ordered after.
class Interpreter::StepRun {
 public:
  StepRun(Interpreter& interpreter, const StepParams& params)
      : interpreter_(interpreter), graph_(interpreter.graph_), params_(params) {}

  absl::Status Feed(const Output& value, Tensor tensor);
  absl::Status Execute(absl::Span<const Output> fetches, absl::Span<Node* const> targets);
  // Returns the fed or computed value, or InvalidArgument for a handle, which has no value.
  absl::StatusOr<Tensor> ValueOf(const Output& value) const;
  void Commit();

 private:
  // Which version of each variable a node sees, by variable name.
  using Seen = std::map<std::string, int>;

  void FindNeeded(absl::Span<const Output> fetches, absl::Span<Node* const> targets);
  Seen VersionsBefore(const Node& node) const;
  absl::Status ExecuteNode(const Node& node);

  // Runs a branch or loop (interpreter_control_flow.cc).
  absl::Status ExecuteControl(const Node& node, Seen seen);
  absl::StatusOr<std::vector<Tensor>> Call(const Node& node, absl::string_view function,
                                           std::vector<Tensor> args, const StepParams& params,
                                           std::map<std::string, Tensor>* variables) const;
  absl::StatusOr<Tensor> VariableInput(const Node& node, const Output& handle, Seen* seen,
                                       absl::flat_hash_map<std::string, Tensor>* written);
  absl::StatusOr<Tensor> ValueBeforeStep(const Node& node, const Output& handle,
                                         const std::string& name) const;
  absl::StatusOr<std::vector<Shape>> InferShapes(const Node& node,
                                                 absl::Span<const Tensor> inputs) const;
  absl::StatusOr<std::vector<Tensor>> Compute(const Node& node, std::vector<Tensor> inputs) const;

  Interpreter& interpreter_;
  Graph& graph_;
  const StepParams& params_;
  absl::flat_hash_map<Output, Tensor> fed_;
  absl::flat_hash_map<Output, Tensor> values_;
  absl::flat_hash_set<const Node*> needed_;
  absl::flat_hash_map<const Node*, Seen> seen_;
  std::map<std::string, std::vector<Tensor>> versions_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_ORACLE_INTERPRETER_STEP_H_
