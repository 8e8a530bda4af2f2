// SPDX-License-Identifier: Apache-2.0
//
// Inference with a model that is written only once, for training. Its inference form has no
// dropout, and batch normalisation uses the moving averages.
#ifndef MIRRORFLOW_TRAIN_INFERENCE_H_
#define MIRRORFLOW_TRAIN_INFERENCE_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

// Attribute of a node that matters only in training: names the output (`node:1`) that replaces the
// node's output 0 in inference.
inline constexpr char kInferenceAttr[] = "_inference";

// Returns the inference form of `output`. Copies the part of the graph that differs in inference;
// the copies have names that begin with `inference/`, and use the same variables and inputs.
// Returns `output` itself if nothing that it depends on differs.
Output ForInference(const Scope& scope, Output output);
// ForInference for an operation, or a group of operations, such as the update of a metric.
Operation ForInference(const Scope& scope, Operation operation);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INFERENCE_H_
