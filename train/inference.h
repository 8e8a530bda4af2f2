// SPDX-License-Identifier: Apache-2.0
//
// Derives the inference form of a model that was written for training: without dropout and noise,
// and with batch normalisation by the moving averages (Keras' training=False, PyTorch's eval()).
//
//   const Output logits = layers::Dense(root, layers::Dropout(root, hidden, 0.2), 10);
//   const Operation train = Adam().Minimize(root, loss);
//   const Output predictions = ForInference(root, logits);  // has no dropout
//
// Trainer does this for the model that it evaluates.
#ifndef MIRRORFLOW_TRAIN_INFERENCE_H_
#define MIRRORFLOW_TRAIN_INFERENCE_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

// The attribute of a node that only training uses. Its value names the output, such as `node:1`,
// that replaces the node's output 0 in inference. Layers set it.
inline constexpr char kInferenceAttr[] = "_inference";

// Returns the inference form of `output`, in the same graph. Copies the nodes that differ between
// training and inference, under names that begin with `inference/`. The copies use the same
// variables and inputs. Returns `output` itself if nothing that it depends on differs.
// Errors: InvalidArgument if `output` belongs to another graph.
Output ForInference(const Scope& scope, Output output);
// Does the same for an operation or a group of operations, such as a metric's update.
Operation ForInference(const Scope& scope, Operation operation);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INFERENCE_H_
