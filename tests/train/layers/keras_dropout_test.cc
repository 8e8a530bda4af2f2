// SPDX-License-Identifier: Apache-2.0
//
// Compares dropout in recurrent layers with Keras. In training, both frameworks use the same
// factors instead of random ones. In inference, the layers must equal those without dropout.
#include "gtest/gtest.h"
#include "ops/concat.h"
#include "ops/split.h"
#include "tests/support/sizes.h"
#include "tests/train/layers/keras_case.h"
#include "train/inference.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

using Xs = const std::vector<Output>&;
using Outputs = std::vector<Output>;

#define LAYER(...) [=](const Scope& s, Xs x) { return __VA_ARGS__; }

const KerasInput kSequence = Shape({7, 5, 3});

// Returns the dropout factors of the input x; each tensor is [batch, 1, in].
Outputs OfX(const Scope& s, Output factors) {
  const int64_t count = s.shape(factors).dim(1);
  return count == 1 ? Outputs{factors} : ops::Split(s, factors, count, 1);
}

// Returns the dropout factors of the state; each tensor is [batch, units].
Outputs OfState(const Scope& s, Output factors) {
  return ops::Unpack(s, factors, s.shape(factors).dim(1), {.axis = 1});
}

Outputs OfBoth(const Scope& s, Output of_x, Output of_state) {
  Outputs factors = OfX(s, of_x);
  for (const Output& factor : OfState(s, of_state)) factors.push_back(factor);
  return factors;
}

// Returns the cases for a layer with `gates` gates: they add dropout of the input, of the state, or
// of both to `options`.
template <typename Options>
std::vector<KerasCase> CasesOf(const std::string& name, int64_t gates, Options options,
                               Output (*layer)(const Scope&, Output, int64_t, const Options&)) {
  options.return_sequences = true;
  Options on_x = options, on_state = options, on_both = options;
  on_x.dropout = on_both.dropout = on_state.recurrent_dropout = on_both.recurrent_dropout = 0.5;
  const KerasInput of_state = Shape({7, gates, 4});
  return {
      {name + "_dropout",
       {kSequence, Shape({7, 1, 3})},
       LAYER(WithFactors(s, layer(s, x[0], 4, on_x), OfX(s, x[1])))},
      {name + "_recurrent_dropout",
       {kSequence, of_state},
       LAYER(WithFactors(s, layer(s, x[0], 4, on_state), OfState(s, x[1])))},
      {name + "_both_dropouts",
       {kSequence, Shape({7, gates, 3}), of_state},
       LAYER(WithFactors(s, layer(s, x[0], 4, on_both), OfBoth(s, x[1], x[2])))},
  };
}

class KerasDropout : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Unroll, KerasDropout, testing::Bool());

TEST_P(KerasDropout, TrainingMatchesKeras) {
  const bool unroll = GetParam();
  std::vector<KerasCase> cases;
  for (const std::vector<KerasCase>& more :
       {CasesOf<layers::SimpleRNNOptions>("simple_rnn", 1, {.unroll = unroll}, layers::SimpleRNN),
        CasesOf<layers::LSTMOptions>("lstm", 4, {.unroll = unroll}, layers::LSTM),
        CasesOf<layers::GRUOptions>("gru", 3, {.unroll = unroll}, layers::GRU),
        CasesOf<layers::GRUOptions>("gru_reset_before", 3, {.unroll = unroll, .reset_after = false},
                                    layers::GRU),
        CasesOf<layers::GRUOptions>("gru_without_bias", 3,
                                    {.use_bias = false, .go_backwards = true, .unroll = unroll},
                                    layers::GRU)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  ExpectMatchesKeras("recurrent_dropout", cases);
}

TEST_P(KerasDropout, InferenceMatchesKerasWithoutDropout) {
  const bool unroll = GetParam();
  const auto stored = ReadKerasFamily("recurrent");
  ASSERT_TRUE(stored.ok()) << stored.status();
  const std::vector<KerasCase> cases = {
      {"simple_rnn",
       {kSequence},
       LAYER(ForInference(
           s, layers::SimpleRNN(s, x[0], 4,
                                {.dropout = 0.3, .recurrent_dropout = 0.6, .unroll = unroll})))},
      {"lstm",
       {kSequence},
       LAYER(ForInference(
           s, layers::LSTM(s, x[0], 4,
                           {.dropout = 0.3, .recurrent_dropout = 0.6, .unroll = unroll})))},
      {"gru_reset_before",
       {kSequence},
       LAYER(ForInference(s, layers::GRU(s, x[0], 4,
                                         {.dropout = 0.3,
                                          .recurrent_dropout = 0.6,
                                          .unroll = unroll,
                                          .reset_after = false})))},
      {"bidirectional_gru_sequences",
       {kSequence},
       LAYER(ForInference(s, layers::Bidirectional(s, x[0], 4, layers::GRU,
                                                   {.dropout = 0.3,
                                                    .recurrent_dropout = 0.6,
                                                    .return_sequences = true,
                                                    .unroll = unroll})))},
  };
  for (const KerasCase& c : cases) {
    for (const int replicas : KerasReplicas()) {
      EXPECT_EQ(DifferenceFromKeras(c, *stored, replicas), "")
          << c.name << " on " << replicas << " replicas";
    }
  }
}

}  // namespace
}  // namespace mirrorflow
