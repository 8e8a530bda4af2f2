// SPDX-License-Identifier: Apache-2.0
//
// What a network gives when it is used instead of trained: batch normalisation by the moving
// averages, no dropout. The model is written once, for training.
#ifndef MIRRORFLOW_TRAIN_INFERENCE_H_
#define MIRRORFLOW_TRAIN_INFERENCE_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

// The attribute of a node that only matters in training: the output (`node:1`) that stands for its
// output 0 in inference.
inline constexpr char kInferenceAttr[] = "_inference";

// `output` as it is in inference: the part of the graph that would differ is made again, with names
// that begin with `inference/`, with the same variables and the same inputs. `output` itself if
// nothing on the way to it differs.
Output ForInference(const Scope& scope, Output output);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_INFERENCE_H_
