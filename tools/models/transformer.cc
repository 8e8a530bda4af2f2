// SPDX-License-Identifier: Apache-2.0
#include "tools/models/transformer.h"

#include "ops/binary.h"
#include "ops/control.h"
#include "ops/gelu.h"
#include "ops/matmul.h"
#include "ops/reshape.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"

namespace mirrorflow {
namespace {

// The initializer of GPT-2.
Initializer Kernels() { return initializers::RandomNormal(0.02); }

Output Block(const Scope& scope, Output x, const TransformerConfig& config) {
  const Scope s = scope.SubScope("block");
  const Output seen = layers::SelfAttention(
      s, layers::LayerNormalization(s, x), config.heads,
      {.mask = {.causal = true}, .kernel_initializer = Kernels(), .name = "attention"});
  x = ops::AddV2(s, x, seen);
  const Output wide = layers::Dense(s, layers::LayerNormalization(s, x), 4 * config.width,
                                    ops::Gelu, {.kernel_initializer = Kernels()});
  return ops::AddV2(
      s, x, layers::Dense(s, wide, config.width, nullptr, {.kernel_initializer = Kernels()}));
}

}  // namespace

LanguageModel BuildTransformer(const Scope& scope, const TransformerConfig& config) {
  LanguageModel model;
  const Shape examples({kUnknownDim, config.context});
  model.tokens = ops::Placeholder(scope.WithName("tokens"), DT_INT32, examples);
  model.next = ops::Placeholder(scope.WithName("next"), DT_INT32, examples);
  const Variable embeddings =
      CreateVariable(scope, "embeddings", {config.vocabulary, config.width}, Kernels());
  const Variable places =
      CreateVariable(scope, "places", {config.context, config.width}, Kernels());
  Output x = ops::AddV2(scope, layers::Embedding(scope, model.tokens, embeddings), places.value);
  for (int64_t i = 0; i < config.blocks; ++i) x = Block(scope, x, config);
  x = ops::Reshape(scope, layers::LayerNormalization(scope, x), Shape({kUnknownDim, config.width}));
  model.logits = config.tied ? ops::MatMul(scope, x, embeddings.value, {.transpose_b = true})
                             : layers::Dense(scope, x, config.vocabulary, nullptr,
                                             {.use_bias = false, .kernel_initializer = Kernels()});
  model.loss = losses::SparseSoftmaxCrossEntropy(
      scope, model.logits, ops::Reshape(scope, model.next, Shape({kUnknownDim})));
  return model;
}

}  // namespace mirrorflow
