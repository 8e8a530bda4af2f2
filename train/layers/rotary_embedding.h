// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LAYERS_ROTARY_EMBEDDING_H_
#define MIRRORFLOW_TRAIN_LAYERS_ROTARY_EMBEDDING_H_

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

struct RotaryEmbeddingOptions {
  double max_wavelength = 10000;
  double scaling_factor = 1;  // divides positions, for sequences longer than those in training
  // Pairs are elements 2i and 2i + 1, as in the paper, instead of i and i + d / 2, as in Keras Hub
  // and in the models of Hugging Face.
  bool interleaved = false;
};

// RotaryEmbedding: rotates pair i of the element at position p by the angle
//                  p / scaling_factor / max_wavelength^(2i / d).
// Shapes:   x [batch, n, d] or, for heads, [batch, n, heads, d] -> the same; n and d must be known,
//           and d even.
// Errors:   InvalidArgument for other shapes, and for numbers that are not positive and finite.
// Source:   Su et al., "RoFormer: Enhanced transformer with rotary position embedding", 2021.
Output RotaryEmbedding(const Scope& scope, Output x, const RotaryEmbeddingOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_ROTARY_EMBEDDING_H_
