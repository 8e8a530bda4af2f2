// SPDX-License-Identifier: Apache-2.0
//
// Compares attention layers with Keras, as keras_cases_test.cc does. In inference, a case with
// dropout must equal the layer without dropout. In training, both frameworks use the same dropout
// factors.
#include "gtest/gtest.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/select.h"
#include "tests/train/layers/keras_case.h"
#include "train/inference.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

using Xs = const std::vector<Output>&;

#define LAYER(...) [](const Scope& s, Xs x) { return __VA_ARGS__; }

// Converts an int32 mask to a boolean mask of the pairs that it keeps.
Output Kept(const Scope& s, Output mask) {
  return ops::Greater(s, mask, ops::ScalarConst(s, DT_INT32, 0));
}

// Converts an int32 mask to the additive mask that SelfAttention takes.
Output Added(const Scope& s, Output mask) {
  return ops::SelectV2(s, Kept(s, mask), ops::ScalarConst(s, DT_FLOAT, 0),
                       ops::ScalarConst(s, DT_FLOAT, -1e9));
}

const KerasInput kSequence = Shape({7, 5, 6}), kQuery = Shape({7, 4, 6});
const KerasInput kValue = Shape({7, 5, 3}), kKey = Shape({7, 5, 2});
const KerasInput kMask = {{7, 5, 5}, 4}, kDenseMask = {{7, 5, 5}, 9};

std::vector<KerasCase> MultiHeadCases() {
  return {
      {"multi_head", {kSequence}, LAYER(layers::MultiHeadAttention(s, x[0], x[0], 2, 3))},
      {"multi_head_causal",
       {kSequence},
       LAYER(layers::MultiHeadAttention(s, x[0], x[0], 2, 3, {.mask = {.causal = true}}))},
      {"multi_head_cross",
       {kQuery, kValue},
       LAYER(layers::MultiHeadAttention(s, x[0], x[1], 2, 3))},
      {"multi_head_cross_causal",
       {kQuery, kValue},
       LAYER(layers::MultiHeadAttention(s, x[0], x[1], 2, 3, {.mask = {.causal = true}}))},
      {"multi_head_three_inputs",
       {kQuery, kValue, kKey},
       LAYER(layers::MultiHeadAttention(
           s, x[0], x[1], 2, 3,
           {.value_dim = 4, .use_bias = false, .output_shape = 5, .key = x[2]}))},
      {"multi_head_masked",
       {kSequence, kMask},
       LAYER(layers::MultiHeadAttention(s, x[0], x[0], 2, 3, {.mask = {.mask = Kept(s, x[1])}}))},
      {"multi_head_masked_causal",
       {kSequence, kDenseMask},
       LAYER(layers::MultiHeadAttention(s, x[0], x[0], 2, 3,
                                        {.mask = {.causal = true, .mask = Kept(s, x[1])}}))},
      {"multi_head_masked_keys",
       {kSequence, {{7, 1, 5}, 9}},
       LAYER(layers::MultiHeadAttention(s, x[0], x[0], 2, 3, {.mask = {.mask = Kept(s, x[1])}}))},
      {"multi_head_masked_heads",
       {kSequence, {{7, 2, 5, 5}, 9}},
       LAYER(layers::MultiHeadAttention(s, x[0], x[0], 2, 3, {.mask = {.mask = Kept(s, x[1])}}))},
      {"multi_head_dropout",
       {kSequence, Shape({7, 2, 5, 5})},
       LAYER(WithFactors(s, layers::MultiHeadAttention(s, x[0], x[0], 2, 3, {.dropout = 0.5}),
                         {x[1]}))},
      {"multi_head",
       {kSequence},
       LAYER(ForInference(s, layers::MultiHeadAttention(s, x[0], x[0], 2, 3, {.dropout = 0.5})))},
      {"multi_head_masked_causal",
       {kSequence, kDenseMask},
       LAYER(ForInference(s,
                          layers::MultiHeadAttention(
                              s, x[0], x[0], 2, 3,
                              {.dropout = 0.5, .mask = {.causal = true, .mask = Kept(s, x[1])}})))},
  };
}

std::vector<KerasCase> GroupQueryCases() {
  return {
      {"grouped_query", {kSequence}, LAYER(layers::GroupQueryAttention(s, x[0], x[0], 3, 4, 2))},
      {"grouped_query_causal",
       {kSequence},
       LAYER(layers::GroupQueryAttention(s, x[0], x[0], 3, 4, 1, {.mask = {.causal = true}}))},
      {"grouped_query_cross",
       {kQuery, kValue},
       LAYER(layers::GroupQueryAttention(s, x[0], x[1], 3, 4, 2, {.use_bias = false}))},
      {"grouped_query_masked",
       {kSequence, kMask},
       LAYER(
           layers::GroupQueryAttention(s, x[0], x[0], 3, 4, 2, {.mask = {.mask = Kept(s, x[1])}}))},
      {"grouped_query_masked_causal",
       {kSequence, kDenseMask},
       LAYER(layers::GroupQueryAttention(s, x[0], x[0], 3, 4, 2,
                                         {.mask = {.causal = true, .mask = Kept(s, x[1])}}))},
      {"grouped_query_three_inputs",
       {kQuery, kValue, kKey},
       LAYER(layers::GroupQueryAttention(s, x[0], x[1], 3, 4, 2, {.key = x[2]}))},
      {"grouped_query_dropout",
       {kSequence, Shape({7, 4, 5, 5})},
       LAYER(WithFactors(s, layers::GroupQueryAttention(s, x[0], x[0], 3, 4, 2, {.dropout = 0.5}),
                         {x[1]}))},
      {"grouped_query",
       {kSequence},
       LAYER(
           ForInference(s, layers::GroupQueryAttention(s, x[0], x[0], 3, 4, 2, {.dropout = 0.5})))},
  };
}

std::vector<KerasCase> SelfAttentionCases() {
  return {
      {"self_attention", {kSequence}, LAYER(layers::SelfAttention(s, x[0], 2))},
      {"self_attention_causal",
       {kSequence},
       LAYER(layers::SelfAttention(s, x[0], 3, {.mask = {.causal = true}}))},
      {"self_attention_masked",
       {kSequence, {{7, 1, 5, 5}, 9}},
       LAYER(layers::SelfAttention(s, x[0], 2, {.mask = {.mask = Added(s, x[1])}}))},
      {"self_attention_masked_causal",
       {kSequence, {{7, 1, 1, 5}, 4}},
       LAYER(
           layers::SelfAttention(s, x[0], 2, {.mask = {.causal = true, .mask = Added(s, x[1])}}))},
  };
}

TEST(KerasAttention, MatchesKeras) {
  std::vector<KerasCase> cases = MultiHeadCases();
  for (const auto& more : {GroupQueryCases(), SelfAttentionCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  ExpectMatchesKeras("attention", cases);
}

}  // namespace
}  // namespace mirrorflow
