// SPDX-License-Identifier: Apache-2.0
//
// Compares recurrent layers with Keras, as keras_cases_test.cc does.
#include "gtest/gtest.h"
#include "ops/unary.h"
#include "tests/train/layers/keras_case.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

using Xs = const std::vector<Output>&;

#define LAYER(...) [=](const Scope& s, Xs x) { return __VA_ARGS__; }

// Returns the cases for layers that are loops or, if `unroll`, unrolled.
std::vector<KerasCase> RecurrentCases(bool unroll) {
  const KerasInput sequence = Shape({7, 5, 3}), state = Shape({7, 4});
  return {
      {"simple_rnn", {sequence}, LAYER(layers::SimpleRNN(s, x[0], 4, {.unroll = unroll}))},
      {"simple_rnn_sequences",
       {sequence},
       LAYER(layers::SimpleRNN(s, x[0], 4, {.return_sequences = true, .unroll = unroll}))},
      {"simple_rnn_backwards",
       {sequence},
       LAYER(layers::SimpleRNN(
           s, x[0], 4, {.return_sequences = true, .go_backwards = true, .unroll = unroll}))},
      {"simple_rnn_without_bias",
       {sequence},
       LAYER(layers::SimpleRNN(s, x[0], 4,
                               {.activation = ops::Relu, .use_bias = false, .unroll = unroll}))},
      {"simple_rnn_from_state",
       {sequence, state},
       LAYER(layers::SimpleRNN(s, x[0], 4, {.unroll = unroll, .initial_state = {x[1]}}))},
      {"lstm", {sequence}, LAYER(layers::LSTM(s, x[0], 4, {.unroll = unroll}))},
      {"lstm_sequences",
       {sequence},
       LAYER(layers::LSTM(s, x[0], 4, {.return_sequences = true, .unroll = unroll}))},
      {"lstm_backwards",
       {sequence},
       LAYER(layers::LSTM(s, x[0], 4,
                          {.return_sequences = true, .go_backwards = true, .unroll = unroll}))},
      {"lstm_without_bias",
       {sequence},
       LAYER(layers::LSTM(s, x[0], 4,
                          {.activation = ops::Relu, .use_bias = false, .unroll = unroll}))},
      {"lstm_from_state",
       {sequence, state, state},
       LAYER(layers::LSTM(s, x[0], 4, {.unroll = unroll, .initial_state = {x[1], x[2]}}))},
      {"lstm_with_relu_gates",
       {sequence},
       LAYER(layers::LSTM(s, x[0], 4, {.recurrent_activation = ops::Relu, .unroll = unroll}))},
      {"gru", {sequence}, LAYER(layers::GRU(s, x[0], 4, {.unroll = unroll}))},
      {"gru_sequences",
       {sequence},
       LAYER(layers::GRU(s, x[0], 4, {.return_sequences = true, .unroll = unroll}))},
      {"gru_backwards",
       {sequence},
       LAYER(layers::GRU(s, x[0], 4,
                         {.return_sequences = true, .go_backwards = true, .unroll = unroll}))},
      {"gru_without_bias",
       {sequence},
       LAYER(layers::GRU(s, x[0], 4,
                         {.activation = ops::Relu, .use_bias = false, .unroll = unroll}))},
      {"gru_from_state",
       {sequence, state},
       LAYER(layers::GRU(s, x[0], 4, {.unroll = unroll, .initial_state = {x[1]}}))},
      {"gru_reset_before",
       {sequence},
       LAYER(layers::GRU(s, x[0], 4, {.unroll = unroll, .reset_after = false}))},
      {"bidirectional_lstm",
       {sequence},
       LAYER(layers::Bidirectional(s, x[0], 4, layers::LSTM, {.unroll = unroll}))},
      {"bidirectional_gru_sequences",
       {sequence},
       LAYER(layers::Bidirectional(s, x[0], 4, layers::GRU,
                                   {.return_sequences = true, .unroll = unroll}))},
      {"bidirectional_rnn_sum",
       {sequence},
       LAYER(layers::Bidirectional(s, x[0], 4, layers::SimpleRNN,
                                   {.return_sequences = true, .unroll = unroll},
                                   {.merge_mode = "sum"}))},
      {"bidirectional_rnn_mul",
       {sequence},
       LAYER(layers::Bidirectional(s, x[0], 4, layers::SimpleRNN,
                                   {.return_sequences = true, .unroll = unroll},
                                   {.merge_mode = "mul"}))},
      {"bidirectional_rnn_ave",
       {sequence},
       LAYER(layers::Bidirectional(s, x[0], 4, layers::SimpleRNN,
                                   {.return_sequences = true, .unroll = unroll},
                                   {.merge_mode = "ave"}))},
  };
}

TEST(KerasSequences, RecurrentLoopsMatchKeras) {
  ExpectMatchesKeras("recurrent", RecurrentCases(false));
}

TEST(KerasSequences, UnrolledRecurrentLayersMatchKeras) {
  ExpectMatchesKeras("recurrent", RecurrentCases(true));
}

}  // namespace
}  // namespace mirrorflow
