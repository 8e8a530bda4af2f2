// SPDX-License-Identifier: Apache-2.0
//
// Masks of the steps of sequences that are padding, for the recurrent layers:
//
//   const layers::MaskingOutputs steps = layers::Masking(root, x);
//   Output y = layers::LSTM(root, steps.y, 64, {.mask = steps.mask});
//
//   Output words = layers::Embedding(root, ids, 10000, 32);
//   Output y = layers::LSTM(root, words, 64, {.mask = layers::PaddingMask(root, ids)});
//
// A mask is a value that a layer takes; unlike in Keras, it does not follow a sequence on its own.
#ifndef MIRRORFLOW_TRAIN_LAYERS_MASKING_H_
#define MIRRORFLOW_TRAIN_LAYERS_MASKING_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

struct MaskingOutputs {
  Output y;     // x, but 0 in the masked steps
  Output mask;  // bool [batch, n], false for the masked steps
};

// Masking: masks the steps all of whose elements are mask_value.
// Shapes:   x [batch, n, width] -> y, the same, and mask [batch, n].
// Errors:   InvalidArgument if x has another rank, or if mask_value is NaN; it may be infinite.
MaskingOutputs Masking(const Scope& scope, Output x, double mask_value = 0);

// PaddingMask: the mask of an embedding's ids, false for padding_id. With 0 it is that of Keras'
//              Embedding(mask_zero=True).
// Shapes:   ids […] -> bool, the same.
Output PaddingMask(const Scope& scope, Output ids, int64_t padding_id = 0);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_MASKING_H_
