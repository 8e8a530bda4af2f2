// SPDX-License-Identifier: Apache-2.0
//
// Recurrent layers over sequences [batch, n, in]; n must be known. By default, they return the
// result of the last step, y [batch, units]. With return_sequences, they return the results of all
// steps, y [batch, n, units]. The functions named …WithState also return the states after the last
// step, for example as the initial states of another layer.
//
// Padding:  steps where `mask`, bool [batch, n], is false are skipped: the states do not change,
//           and the previous result is repeated (zeros if there is none). With
//           zero_output_for_mask and return_sequences, the results of skipped steps are zeros.
//           masking.h creates masks.
// Dropout:  in training, `dropout` is the dropout rate of x, and `recurrent_dropout` that of the
//           state that is multiplied by the recurrent kernel. An example keeps the same dropout
//           mask in all steps. As in Keras, all gates use the same dropout mask for x, unless
//           recurrent_dropout is also set: then each gate has its own masks for x and for the
//           state.
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
  bool go_backwards = false;  // whether to start with the last element; y is also in that order
  bool unroll = false;        // whether to add a copy of the step per element, instead of a loop
  std::vector<Output> initial_state = {};  // h [batch, units]; if empty, zeros
  Output mask = {};                        // see Padding above
  bool zero_output_for_mask = false;       // see Padding above
  std::string name = "simple_rnn";
};

// SimpleRNN: h' = activation(x · kernel + h · recurrent_kernel + bias); the result is h'.
// Variables: kernel [in, units], recurrent_kernel [units, units] and bias [units], in the scope
//            `simple_rnn_cell`.
// Errors:    InvalidArgument if n or `in` is unknown, if n or `units` is less than 1, for a wrong
//            number or shape of initial states, for a mask of another dtype or shape, and for
//            dropout rates outside [0, 1).
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
  bool unit_forget_bias = true;  // whether the bias of the forget gate starts at 1
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool go_backwards = false;
  bool unroll = false;
  std::vector<Output> initial_state = {};  // h, c, each [batch, units]; if empty, zeros
  Output mask = {};
  bool zero_output_for_mask = false;
  std::string name = "lstm";
};

// LSTM: the columns of x · kernel + h · recurrent_kernel + bias are the gates i, f, g, o, in this
//       order; recurrent_activation is applied to i, f and o, and activation to g. Then
//       c' = f * c + i * g and h' = o * activation(c'); the result is h'.
// Variables: kernel [in, 4 * units], recurrent_kernel [units, 4 * units] and bias [4 * units], in
//            the scope `lstm_cell`. The states are h and c.
// Errors:    as for SimpleRNN.
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
  // If true, the reset gate r scales h · recurrent_kernel + bias[1], as in cuDNN. If false, it
  // scales h.
  bool reset_after = true;
  std::vector<Output> initial_state = {};  // h [batch, units]; if empty, zeros
  Output mask = {};
  bool zero_output_for_mask = false;
  std::string name = "gru";
};

// GRU: the columns of x · kernel + h · recurrent_kernel + bias are the gates z, r, g, in this
//      order; recurrent_activation is applied to z and r, and activation to g. r scales the
//      recurrent part of g (see reset_after). Then h' = z * h + (1 - z) * g; the result is h'.
// Variables: kernel [in, 3 * units], recurrent_kernel [units, 3 * units] and bias, in the scope
//            `gru_cell`. The bias is [2, 3 * units], one row for x and one for h, or [3 * units] if
//            reset_after is false.
// Errors:    as for SimpleRNN.
// Source:    Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014; Keras'
//            defaults.
Output GRU(const Scope& scope, Output x, int64_t units, const GRUOptions& options = {});
RecurrentOutputs GRUWithState(const Scope& scope, Output x, int64_t units,
                              const GRUOptions& options = {});

struct BidirectionalOptions {
  // How to combine the results of both directions: "concat" along the last dimension, or
  // element-wise "sum", "mul" (product) or "ave" (mean).
  std::string merge_mode = "concat";
  std::string name = "bidirectional";
};

namespace internal {

// Merges the results of both directions. `backward` is in the step order of the backward layer. If
// `sequences` is true, both are sequences, and `backward` is reversed first.
Output MergeDirections(const Scope& scope, Output forward, Output backward, bool sequences,
                       const BidirectionalOptions& options);

}  // namespace internal

// Bidirectional: runs one recurrent layer forwards over a sequence, and a second one, with its own
//                variables, backwards:
//   Bidirectional(scope, x, 64, layers::LSTM, {.return_sequences = true})
// Shapes:    y [batch, 2 * units], or [batch, n, 2 * units] with return_sequences, in the order of
//            x. With merge modes other than "concat", the last dimension is `units`.
// Variables: those of the layers `forward_NAME` and `backward_NAME`, where NAME is options.name.
// States:    the first half of initial_state is for the forward layer, the second half for the
//            backward layer.
// Masks:     as in Keras, zero_output_for_mask has the value of return_sequences in both layers;
//            the option's own value is ignored.
// Errors:    those of the layer, and InvalidArgument for any other merge mode.
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
