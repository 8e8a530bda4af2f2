// SPDX-License-Identifier: Apache-2.0
//
// A small decoder-only language model like GPT-2 (Radford et al., "Language models are unsupervised
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
  bool tied = true;  // whether the output layer uses the transposed embedding
};

struct LanguageModel {
  Output tokens;  // placeholder [-1, context], int32
  Output next;    // placeholder [-1, context], int32: the token that follows each of `tokens`
  Output loss;    // the mean over all tokens, the value to minimise
  Output logits;  // [-1 * context, vocabulary]
};

// Builds token and position embeddings, `blocks` pre-norm blocks, a final layer normalisation and
// the logits. A block adds causal attention, then a Gelu layer of 4 * width units, to its input.
// Errors are recorded in the scope.
LanguageModel BuildTransformer(const Scope& scope, const TransformerConfig& config);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_MODELS_TRANSFORMER_H_
