// SPDX-License-Identifier: Apache-2.0
#include "train/inference.h"

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

CopyOptions InferenceChanges() {
  return {.prefix = "inference", .replacement_attr = kInferenceAttr, .change_attrs = StopTraining};
}

}  // namespace

Output ForInference(const Scope& scope, Output output) {
  return CopyWithChanges(scope, output, InferenceChanges());
}

Operation ForInference(const Scope& scope, Operation operation) {
  return CopyWithChanges(scope, operation, InferenceChanges());
}

}  // namespace mirrorflow
