// SPDX-License-Identifier: Apache-2.0
#include "train/inference.h"

#include <string>

#include "train/graph_walk.h"

namespace mirrorflow {
namespace {

constexpr char kIsTraining[] = "is_training";  // TensorFlow's attribute name

bool StopTraining(AttrMap& attrs) {
  const auto training = attrs.find(kIsTraining);
  if (training == attrs.end() || training->second != AttrValue(true)) return false;
  training->second = false;
  return true;
}

template <typename Value>
Value InferenceForm(const Scope& scope, const Value& value) {
  if (!scope.ok() || !value.valid() || !scope.Owns({value.node, 0})) return Value();
  const Graph& graph = scope.graph();
  auto instead = [&](const Node& node) {
    if (!node.has_attr(kInferenceAttr)) return Output();
    return FindOutput(graph, node.attr<std::string>(kInferenceAttr));
  };
  absl::StatusOr<Value> result = CopyWithChanges(
      scope, value, {.prefix = "inference", .replacement = instead, .change_attrs = StopTraining});
  if (result.ok()) return *result;
  scope.Fail(result.status());
  return Value();
}

}  // namespace

Output ForInference(const Scope& scope, Output output) { return InferenceForm(scope, output); }

Operation ForInference(const Scope& scope, Operation operation) {
  return InferenceForm(scope, operation);
}

}  // namespace mirrorflow
