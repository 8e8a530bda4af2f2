// SPDX-License-Identifier: Apache-2.0
//
// Inference with a model that is written once, for training: batch normalisation uses the moving
// averages, and there is no dropout.
#ifndef MIRRORFLOW_TRAIN_INFERENCE_H_
#define MIRRORFLOW_TRAIN_INFERENCE_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

// Attribute of a node that matters only in training: the output (`node:1`) that replaces its output
// 0 in inference.
inline constexpr char kInferenceAttr[] = "_inference";

// Returns the inference form of `output`. Copies the part of the graph that differs in inference;
// the copies have names that begin with `inference/` and use the same variables and the same
// inputs. Returns `output` itself if nothing that it depends on differs.
Output ForInference(const Scope& scope, Output output);
// The same for an operation, such as the update of a metric, or a group of them.
Operation ForInference(const Scope& scope, Operation operation);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INFERENCE_H_
