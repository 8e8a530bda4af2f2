// SPDX-License-Identifier: Apache-2.0
//
// Recurrent layers over sequences [batch, n, in]; n must be known. By default, they return the
// result of the last step; with return_sequences, the results of all steps.
//
// Padding:  steps where `mask`, bool [batch, n], is false are skipped: the states do not change,
//           and the previous result is repeated (zeros if there is none). With
//           zero_output_for_mask and return_sequences, the results of skipped steps are zeros.
//           masking.h creates masks.
// Dropout:  in training, `dropout` applies to x, and `recurrent_dropout` to the state that the
//           recurrent kernel multiplies. An example keeps the same dropout mask in all steps. As in
//           Keras, all gates share one dropout mask; with recurrent_dropout, however, each gate has
//           its own masks for x and for the state.
// Source:   Gal and Ghahramani, "A theoretically grounded application of dropout in recurrent
//           neural networks", 2016.
#ifndef MIRRORFLOW_TRAIN_LAYERS_RECURRENT_H_
#define MIRRORFLOW_TRAIN_LAYERS_RECURRENT_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/scope.h"
#include "ops/unary.h"
#include "train/layers/activation.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct RecurrentOutputs {
  Output y;                    // [batch, units], or [batch, n, units] with return_sequences
  std::vector<Output> states;  // after the last step, each [batch, units]
};

struct SimpleRNNOptions {
  Activation activation = ops::Tanh;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer recurrent_initializer = initializers::Orthogonal();
  Initializer bias_initializer = initializers::Zeros();
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool go_backwards = false;               // last element first, also in the results
  bool unroll = false;                     // a copy of the step per element, instead of a loop
  std::vector<Output> initial_state = {};  // h [batch, units]; zeros by default
  Output mask = {};
  bool zero_output_for_mask = false;
  std::string name = "simple_rnn";
};

// SimpleRNN: h' = activation(x · kernel + h · recurrent_kernel + bias); the result is h'.
// Variables: simple_rnn_cell/kernel [in, units], recurrent_kernel [units, units], bias [units].
// Errors:    InvalidArgument if n or `in` is unknown, for a wrong number of initial states, for a
//            mask of another dtype or shape, and for dropout rates outside [0, 1).
Output SimpleRNN(const Scope& scope, Output x, int64_t units, const SimpleRNNOptions& options = {});
RecurrentOutputs SimpleRNNWithState(const Scope& scope, Output x, int64_t units,
                                    const SimpleRNNOptions& options = {});

struct LSTMOptions {
  Activation activation = ops::Tanh;
  Activation recurrent_activation = ops::Sigmoid;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer recurrent_initializer = initializers::Orthogonal();
  Initializer bias_initializer = initializers::Zeros();
  bool unit_forget_bias = true;  // initialise the bias of the forget gate to 1
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool go_backwards = false;
  bool unroll = false;
  std::vector<Output> initial_state = {};  // h, c
  Output mask = {};
  bool zero_output_for_mask = false;
  std::string name = "lstm";
};

// LSTM: the columns of x · kernel + h · recurrent_kernel + bias are the gates i, f, g, o, in this
//       order; recurrent_activation is applied to i, f and o, and activation to g. Then
//       c' = f * c + i * g and h' = o * activation(c'); the result is h'.
// Variables: lstm_cell/kernel [in, 4 * units], recurrent_kernel [units, 4 * units], bias
//            [4 * units]. The states are h and c.
// Errors:    InvalidArgument if n or `in` is unknown, for a wrong number of initial states, for a
//            mask of another dtype or shape, and for dropout rates outside [0, 1).
// Source:    Hochreiter and Schmidhuber, "Long short-term memory", 1997; Keras' defaults.
Output LSTM(const Scope& scope, Output x, int64_t units, const LSTMOptions& options = {});
RecurrentOutputs LSTMWithState(const Scope& scope, Output x, int64_t units,
                               const LSTMOptions& options = {});

struct GRUOptions {
  Activation activation = ops::Tanh;
  Activation recurrent_activation = ops::Sigmoid;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer recurrent_initializer = initializers::Orthogonal();
  Initializer bias_initializer = initializers::Zeros();
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool go_backwards = false;
  bool unroll = false;
  // The reset gate scales h · recurrent_kernel + bias[1], as in cuDNN; if false, it scales h.
  bool reset_after = true;
  std::vector<Output> initial_state = {};  // h
  Output mask = {};
  bool zero_output_for_mask = false;
  std::string name = "gru";
};

// GRU: the columns of x · kernel + h · recurrent_kernel + bias are the gates z, r, g, in order;
//      recurrent_activation is applied to z and r, and activation to g. r scales the recurrent part
//      of g (see reset_after). Then h' = z * h + (1 - z) * g; the result is h'.
// Variables: gru_cell/kernel [in, 3 * units], recurrent_kernel [units, 3 * units], bias [2, 3 *
//            units] for x and for h, or [3 * units] if reset_after is false.
// Errors:    InvalidArgument if n or `in` is unknown, for a wrong number of initial states, for a
//            mask of another dtype or shape, and for dropout rates outside [0, 1).
// Source:    Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014; Keras'
//            defaults.
Output GRU(const Scope& scope, Output x, int64_t units, const GRUOptions& options = {});
RecurrentOutputs GRUWithState(const Scope& scope, Output x, int64_t units,
                              const GRUOptions& options = {});

struct BidirectionalOptions {
  std::string merge_mode = "concat";  // along the last dimension; or "sum", "mul", "ave"
  std::string name = "bidirectional";
};

namespace internal {

// Merges the results of both directions. `backward` is in the step order of the backward layer.
Output MergeDirections(const Scope& scope, Output forward, Output backward, bool sequences,
                       const BidirectionalOptions& options);

}  // namespace internal

// Bidirectional: runs one recurrent layer forwards over a sequence, and a second one, with its own
//                variables, backwards:
//   Bidirectional(scope, x, 64, layers::LSTM, {.return_sequences = true})
// Shapes:    y [batch, 2 * units], or [batch, n, 2 * units] with return_sequences, in the order of
//            x. For merge modes other than concat, `units` instead of 2 * units.
// Variables: those of the layers `forward_NAME` and `backward_NAME`, where NAME is options.name.
// States:    the first half of initial_state is for the forward layer, the second half for the
//            backward layer.
// Masks:     as in Keras, return_sequences sets zero_output_for_mask for both layers.
// Errors:    InvalidArgument if the merge mode is unknown.
// Source:    Schuster and Paliwal, "Bidirectional recurrent neural networks", 1997.
template <typename Options>
Output Bidirectional(const Scope& scope, Output x, int64_t units,
                     Output (*layer)(const Scope&, Output, int64_t, const Options&),
                     const std::type_identity_t<Options>& options = {},
                     const BidirectionalOptions& bidirectional = {}) {
  const Scope s = scope.SubScope(bidirectional.name);
  const auto half = options.initial_state.begin() + options.initial_state.size() / 2;
  Options forward = options, backward = options;
  forward.name = absl::StrCat("forward_", options.name);
  forward.initial_state.assign(options.initial_state.begin(), half);
  backward.name = absl::StrCat("backward_", options.name);
  backward.initial_state.assign(half, options.initial_state.end());
  backward.go_backwards = !options.go_backwards;
  forward.zero_output_for_mask = backward.zero_output_for_mask = options.return_sequences;
  const Output y = layer(s, x, units, forward);
  return internal::MergeDirections(s, y, layer(s, x, units, backward), options.return_sequences,
                                   bidirectional);
}

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_RECURRENT_H_
