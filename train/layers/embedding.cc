// SPDX-License-Identifier: Apache-2.0
#include "train/layers/embedding.h"

#include "ops/constant.h"
#include "ops/gather.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {

Output Embedding(const Scope& scope, Output ids, int64_t vocabulary, int64_t width,
                 const EmbeddingOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok()) return Output();
  if (vocabulary < 1 || width < 1) {
    return Fail(s, options.name, ": vocabulary or width out of range; expected at least 1, got ",
                vocabulary, " and ", width);
  }
  return Embedding(
      s, ids, CreateVariable(s, "embeddings", {vocabulary, width}, options.embeddings_initializer));
}

Output Embedding(const Scope& scope, Output ids, const Variable& embeddings) {
  return ops::GatherV2(scope, embeddings.value, ids, ops::ScalarConst(scope, DT_INT32, 0));
}

}  // namespace layers
}  // namespace mirrorflow
