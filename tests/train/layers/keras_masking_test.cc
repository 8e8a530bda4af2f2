// SPDX-License-Identifier: Apache-2.0
//
// Compares layers on masked sequences with Keras, as keras_cases_test.cc does.
#include "gtest/gtest.h"
#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "tests/train/layers/keras_case.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

using Xs = const std::vector<Output>&;

#define LAYER(...) [=](const Scope& s, Xs x) { return __VA_ARGS__; }

const KerasInput kSequence = Shape({7, 5, 3}), kState = Shape({7, 4});
const KerasInput kSteps = {{7, 5}, 4}, kRows = {{7, 1}, 2};

Output Positive(const Scope& s, Output x) {
  return ops::Greater(s, x, ops::ScalarConst(s, DT_INT32, 0));
}

// Returns a mask of the steps that both int32 masks keep.
Output Mask(const Scope& s, Xs x) { return Positive(s, ops::Mul(s, x[1], x[2])); }

// Concatenates the layer's result and its last states.
Output Joined(const Scope& s, const layers::RecurrentOutputs& outputs) {
  std::vector<Output> values = {outputs.y};
  values.insert(values.end(), outputs.states.begin(), outputs.states.end());
  return s.ok() ? ops::ConcatV2(s, values, 1) : Output();
}

// Returns the cases for a layer with this many states.
template <typename Options>
std::vector<KerasCase> CasesOf(const std::string& name, size_t num_states, bool unroll,
                               Output (*layer)(const Scope&, Output, int64_t, const Options&),
                               layers::RecurrentOutputs (*with_state)(const Scope&, Output, int64_t,
                                                                      const Options&)) {
  const std::vector<KerasInput> masked = {kSequence, kSteps, kRows};
  std::vector<KerasInput> from_state = masked;
  from_state.insert(from_state.end(), num_states, kState);
  const auto states = [](Xs x) { return std::vector<Output>(x.begin() + 3, x.end()); };
  return {
      {name + "_masked", masked, LAYER(layer(s, x[0], 4, {.unroll = unroll, .mask = Mask(s, x)}))},
      {name + "_masked_sequences", masked,
       LAYER(layer(s, x[0], 4, {.return_sequences = true, .unroll = unroll, .mask = Mask(s, x)}))},
      {name + "_masked_backwards", masked,
       LAYER(layer(s, x[0], 4,
                   {.return_sequences = true,
                    .go_backwards = true,
                    .unroll = unroll,
                    .mask = Mask(s, x)}))},
      {name + "_masked_sequences_from_state", from_state,
       LAYER(layer(s, x[0], 4,
                   {.return_sequences = true,
                    .unroll = unroll,
                    .initial_state = states(x),
                    .mask = Mask(s, x)}))},
      {name + "_masked_states", from_state,
       LAYER(Joined(
           s, with_state(s, x[0], 4,
                         {.unroll = unroll, .initial_state = states(x), .mask = Mask(s, x)})))},
  };
}

// Returns the cases where masked steps yield zeros: with `zero_output_for_mask` and in
// Bidirectional.
std::vector<KerasCase> ZeroOutputCases(bool unroll) {
  const std::vector<KerasInput> masked = {kSequence, kSteps, kRows};
  const auto zeros = [=](bool backwards) {
    return LAYER(layers::LSTM(s, x[0], 4,
                              {.return_sequences = true,
                               .go_backwards = backwards,
                               .unroll = unroll,
                               .mask = Mask(s, x),
                               .zero_output_for_mask = true}));
  };
  return {
      {"lstm_masked_zeros", masked, zeros(false)},
      {"lstm_masked_zeros_backwards", masked, zeros(true)},
      {"bidirectional_lstm_masked", masked,
       LAYER(layers::Bidirectional(s, x[0], 4, layers::LSTM,
                                   {.unroll = unroll, .mask = Mask(s, x)}))},
      {"bidirectional_gru_masked_sequences", masked,
       LAYER(layers::Bidirectional(
           s, x[0], 4, layers::GRU,
           {.return_sequences = true, .unroll = unroll, .mask = Mask(s, x)}))},
  };
}

// Returns x[0] with `value` in the steps that the mask x[1] does not keep.
Output Marked(const Scope& s, Xs x, double value) {
  return ops::SelectV2(s, ops::ExpandDims(s, Positive(s, x[1]), 2), x[0],
                       ops::ScalarConst(s, DT_FLOAT, value));
}

std::vector<KerasCase> MaskingCases(bool unroll) {
  const std::vector<KerasInput> marked = {kSequence, {{7, 5}, 3}};
  return {
      {"masking", marked, LAYER(layers::Masking(s, Marked(s, x, 0)).y)},
      {"masking_value", marked, LAYER(layers::Masking(s, Marked(s, x, 0.5), 0.5).y)},
      {"masking_lstm", marked,
       [=](const Scope& root, Xs x) {
         const Scope s = root.SubScope("model");
         const layers::MaskingOutputs steps = layers::Masking(s, Marked(s, x, 0.5), 0.5);
         return layers::LSTM(s, steps.y, 4, {.unroll = unroll, .mask = steps.mask});
       }},
      {"embedding_gru",
       {{{7, 5}, 4}},
       [=](const Scope& root, Xs x) {
         const Scope s = root.SubScope("model");
         return layers::GRU(s, layers::Embedding(s, x[0], 9, 4), 4,
                            {.unroll = unroll, .mask = layers::PaddingMask(s, x[0])});
       }},
  };
}

class KerasMasking : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Unroll, KerasMasking, testing::Bool());

TEST_P(KerasMasking, MatchesKeras) {
  const bool unroll = GetParam();
  std::vector<KerasCase> cases;
  for (const std::vector<KerasCase>& more :
       {CasesOf("simple_rnn", 1, unroll, layers::SimpleRNN, layers::SimpleRNNWithState),
        CasesOf("lstm", 2, unroll, layers::LSTM, layers::LSTMWithState),
        CasesOf("gru", 1, unroll, layers::GRU, layers::GRUWithState), ZeroOutputCases(unroll),
        MaskingCases(unroll)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  ExpectMatchesKeras("masking", cases);
}

}  // namespace
}  // namespace mirrorflow
