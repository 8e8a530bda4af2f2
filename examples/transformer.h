// SPDX-License-Identifier: Apache-2.0
//
// A small language model: a decoder like GPT-2 (Radford et al., "Language models are unsupervised
// multitask learners", 2019).
#ifndef MIRRORFLOW_EXAMPLES_TRANSFORMER_H_
#define MIRRORFLOW_EXAMPLES_TRANSFORMER_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {

struct TransformerConfig {
  int64_t vocabulary = 256;  // bytes
  int64_t context = 64;      // tokens of an example
  int64_t width = 128;
  int64_t heads = 4;
  int64_t blocks = 2;
  bool tied = true;  // the output layer is the embedding, transposed
};

struct LanguageModel {
  Output tokens;  // placeholder [-1, context], int32
  Output next;    // placeholder [-1, context], int32: what comes after each of them
  Output loss;    // the mean over all tokens, to be minimised
  Output logits;  // [-1 * context, vocabulary]
};

// Embeddings of tokens and of places; `blocks` of attention to what came before and a layer of 4 *
// width with Gelu, each of its normalised input and added to it; a last normalisation, and logits.
// Errors of building stick to the scope.
LanguageModel BuildTransformer(const Scope& scope, const TransformerConfig& config);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_EXAMPLES_TRANSFORMER_H_
