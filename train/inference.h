// SPDX-License-Identifier: Apache-2.0
//
// Derives the inference form of a model that was written for training: without dropout, and with
// batch normalisation by the moving averages.
#ifndef MIRRORFLOW_TRAIN_INFERENCE_H_
#define MIRRORFLOW_TRAIN_INFERENCE_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

// Attribute of a node that only training uses. Names the output, such as `node:1`, that replaces
// the node's output 0 in inference.
inline constexpr char kInferenceAttr[] = "_inference";

// Returns the inference form of `output`. Copies the nodes that differ between training and
// inference, under names that begin with `inference/`. The copies use the same variables and
// inputs. Returns `output` itself if nothing that it depends on differs.
Output ForInference(const Scope& scope, Output output);
// Returns the inference form of an operation or a group of operations, such as a metric's update.
Operation ForInference(const Scope& scope, Operation operation);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INFERENCE_H_
