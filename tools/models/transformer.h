// SPDX-License-Identifier: Apache-2.0
//
// A small language model: a decoder like GPT-2 (Radford et al., "Language models are unsupervised
// multitask learners", 2019).
#ifndef MIRRORFLOW_TOOLS_MODELS_TRANSFORMER_H_
#define MIRRORFLOW_TOOLS_MODELS_TRANSFORMER_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {

struct TransformerConfig {
  int64_t vocabulary = 256;  // bytes
  int64_t context = 64;      // tokens per example
  int64_t width = 128;
  int64_t heads = 4;
  int64_t blocks = 2;
  bool tied = true;  // the output layer is the embedding, transposed
};

struct LanguageModel {
  Output tokens;  // placeholder [-1, context], int32
  Output next;    // placeholder [-1, context], int32: the token after each of them
  Output loss;    // the mean over all tokens, the value to minimise
  Output logits;  // [-1 * context, vocabulary]
};

// Builds embeddings of tokens and positions; `blocks` blocks of causal attention and of a layer of
// 4 * width with Gelu, each applied to its normalised input and added to that input; a final
// normalisation; and the logits. Errors are recorded in the scope.
LanguageModel BuildTransformer(const Scope& scope, const TransformerConfig& config);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_MODELS_TRANSFORMER_H_
