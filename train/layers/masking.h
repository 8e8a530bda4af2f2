// SPDX-License-Identifier: Apache-2.0
//
// Masks mark the padded steps of sequences for recurrent layers:
//
//   const layers::MaskingOutputs steps = layers::Masking(root, x);
//   Output y = layers::LSTM(root, steps.y, 64, {.mask = steps.mask});
//
//   Output words = layers::Embedding(root, ids, 10000, 32);
//   Output y = layers::LSTM(root, words, 64, {.mask = layers::PaddingMask(root, ids)});
//
// Pass the mask to each layer that needs it: unlike in Keras, layers do not pass masks on.
#ifndef MIRRORFLOW_TRAIN_LAYERS_MASKING_H_
#define MIRRORFLOW_TRAIN_LAYERS_MASKING_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

struct MaskingOutputs {
  Output y;     // x, with zeros in the masked steps
  Output mask;  // bool [batch, n], false for masked steps
};

// Masking: masks the steps whose elements all equal mask_value.
// Shapes:   x [batch, n, width] -> y of the same shape, mask [batch, n].
// Errors:   InvalidArgument if x has a different rank, or if mask_value is NaN. mask_value can be
//           infinite.
MaskingOutputs Masking(const Scope& scope, Output x, double mask_value = 0);

// PaddingMask: a mask for an embedding's ids, false where the id is padding_id. With padding_id 0,
//              it equals the mask of Keras' Embedding(mask_zero=True).
// Shapes:   ids […] -> bool of the same shape.
Output PaddingMask(const Scope& scope, Output ids, int64_t padding_id = 0);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_MASKING_H_
