// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LAYERS_EMBEDDING_H_
#define MIRRORFLOW_TRAIN_LAYERS_EMBEDDING_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct EmbeddingOptions {
  Initializer embeddings_initializer = initializers::RandomNormal(0.02);  // as in GPT-2
  std::string name = "embedding";
};

// Embedding: returns one row of a trainable table for each id.
// Shapes:   ids […] (int32 or int64) -> […, width]; variable embeddings [vocabulary, width].
// Errors:   InvalidArgument if `vocabulary` or `width` is less than 1. A step with an id outside
//           [0, vocabulary) fails with InvalidArgument and changes no variable.
Output Embedding(const Scope& scope, Output ids, int64_t vocabulary, int64_t width,
                 const EmbeddingOptions& options = {});
// Like Embedding above, with an existing table [vocabulary, width], which other layers can also
// use.
Output Embedding(const Scope& scope, Output ids, const Variable& embeddings);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_EMBEDDING_H_
