// SPDX-License-Identifier: Apache-2.0
#include "train/layers/recurrent.h"

#include "absl/strings/str_cat.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/matmul.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/split.h"
#include "train/layers/layer_support.h"
#include "train/layers/recurrence.h"

namespace mirrorflow {
namespace layers {
namespace {

using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

// Whether a layer can be built. If not, fails the scope.
bool CheckRecurrent(const Scope& s, Output x, int64_t units, Args initial_state, size_t num_states,
                    absl::string_view layer) {
  if (!s.ok() || !CheckSize(s, layer, "units", units) || !CheckExamples(s, x, 3, layer) ||
      !CheckSize(s, layer, "sequence length", s.shape(x).dim(1))) {
    return false;
  }
  if (!initial_state.empty() && initial_state.size() != num_states) {
    Fail(s, absl::StrCat(layer, ": expected ", num_states, " initial states, got ",
                         initial_state.size()));
    return false;
  }
  const Shape expected({s.shape(x).dim(0), units});
  for (const Output& state : initial_state) {
    if (s.shape(state).IsCompatibleWith(expected)) continue;
    Fail(s, absl::StrCat(layer, ": initial states must have shape ", expected.ToString(), ", got ",
                         s.shape(state).ToString()));
    return false;
  }
  return true;
}

Outputs InitialStates(const Scope& s, Output x, int64_t units, Args given, size_t num_states) {
  if (!given.empty()) return Outputs(given.begin(), given.end());
  const Output zeros = ops::Fill(s, BatchShape(s, x, {units}), ops::ScalarConst(s, x.dtype(), 0));
  return Outputs(num_states, zeros);
}

// x · kernel + bias for all steps at once: [batch, n, in] -> [batch, n, width].
Output Project(const Scope& s, Output x, Output kernel, Output bias) {
  const int64_t n = s.shape(x).dim(1), in = s.shape(x).dim(2);
  Output y = ops::MatMul(s, ops::Reshape(s, x, Shape({kUnknownDim, in})), kernel);
  if (bias.valid()) y = ops::BiasAdd(s, y, bias);
  return ops::Reshape(s, y, Shape({kUnknownDim, n, s.shape(kernel).dim(1)}));
}

template <typename Options>
RecurrenceOptions LoopOf(const Options& options) {
  return {.return_sequences = options.return_sequences,
          .go_backwards = options.go_backwards,
          .unroll = options.unroll};
}

RecurrentOutputs ResultsOf(RecurrenceOutputs outputs) {
  return {outputs.y, std::move(outputs.states)};
}

// The weights of a cell whose steps compute `width` columns.
struct CellVariables {
  Output kernel, recurrent_kernel, bias;
};

template <typename Options>
CellVariables CreateCell(const Scope& cell, int64_t in, int64_t units, int64_t width,
                         const Options& options, const Shape& bias_shape,
                         const Initializer& bias_initializer) {
  CellVariables v;
  v.kernel = CreateVariable(cell, "kernel", {in, width}, options.kernel_initializer).value;
  v.recurrent_kernel =
      CreateVariable(cell, "recurrent_kernel", {units, width}, options.recurrent_initializer).value;
  if (options.use_bias) v.bias = CreateVariable(cell, "bias", bias_shape, bias_initializer).value;
  return v;
}

// The bias of LSTM, whose second quarter begins with 1.
Initializer ForgetBias(const Initializer& others, int64_t units) {
  return [=](const Scope& s, const Shape&, DataType dtype) {
    return ops::ConcatV2(s,
                         {others(s.SubScope("input"), {units}, dtype),
                          initializers::Ones()(s.SubScope("forget"), {units}, dtype),
                          others(s.SubScope("others"), {2 * units}, dtype)},
                         0);
  };
}

}  // namespace

RecurrentOutputs SimpleRNNWithState(const Scope& scope, Output x, int64_t units,
                                    const SimpleRNNOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckRecurrent(s, x, units, options.initial_state, 1, options.name)) return {};
  const CellVariables cell = CreateCell(s.SubScope("simple_rnn_cell"), s.shape(x).dim(2), units,
                                        units, options, {units}, options.bias_initializer);
  return ResultsOf(Recur(
      s, Project(s, x, cell.kernel, cell.bias),
      InitialStates(s, x, units, options.initial_state, 1), {cell.recurrent_kernel},
      [&](const Scope& b, Output in, Args states, Args weights) {
        const Output sum = ops::AddV2(b, in, ops::MatMul(b, states[0], weights[0]));
        return Outputs{options.activation(b, sum)};
      },
      LoopOf(options)));
}

RecurrentOutputs LSTMWithState(const Scope& scope, Output x, int64_t units,
                               const LSTMOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckRecurrent(s, x, units, options.initial_state, 2, options.name)) return {};
  const Initializer bias = options.unit_forget_bias ? ForgetBias(options.bias_initializer, units)
                                                    : options.bias_initializer;
  const CellVariables cell = CreateCell(s.SubScope("lstm_cell"), s.shape(x).dim(2), units,
                                        4 * units, options, {4 * units}, bias);
  return ResultsOf(Recur(
      s, Project(s, x, cell.kernel, cell.bias),
      InitialStates(s, x, units, options.initial_state, 2), {cell.recurrent_kernel},
      [&](const Scope& b, Output in, Args states, Args weights) {
        const Output sum = ops::AddV2(b, in, ops::MatMul(b, states[0], weights[0]));
        const Outputs gates = ops::Split(b, sum, 4, 1);
        const auto open = [&](int i) { return options.recurrent_activation(b, gates[i]); };
        const Output kept = ops::Mul(b, open(1), states[1]);
        const Output added = ops::Mul(b, open(0), options.activation(b, gates[2]));
        const Output c = ops::AddV2(b, kept, added);
        return Outputs{ops::Mul(b, open(3), options.activation(b, c)), c};
      },
      LoopOf(options)));
}

RecurrentOutputs GRUWithState(const Scope& scope, Output x, int64_t units,
                              const GRUOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckRecurrent(s, x, units, options.initial_state, 1, options.name)) return {};
  const bool reset_after = options.reset_after, two_biases = reset_after && options.use_bias;
  CellVariables cell = CreateCell(s.SubScope("gru_cell"), s.shape(x).dim(2), units, 3 * units,
                                  options, reset_after ? Shape({2, 3 * units}) : Shape({3 * units}),
                                  options.bias_initializer);
  Outputs weights = {cell.recurrent_kernel};
  if (two_biases) {
    const Outputs biases = ops::Unpack(s, cell.bias, 2);
    cell.bias = biases[0];
    weights.push_back(biases[1]);
  }
  if (!reset_after) {
    weights = ops::SplitV(s, cell.recurrent_kernel, {2 * units, units}, 1);
  }
  return ResultsOf(Recur(
      s, Project(s, x, cell.kernel, cell.bias),
      InitialStates(s, x, units, options.initial_state, 1), weights,
      [&](const Scope& b, Output in, Args states, Args weights) {
        const Output h = states[0];
        const Outputs given = ops::Split(b, in, 3, 1);
        Output recurrent = ops::MatMul(b, h, weights[0]);
        if (two_biases) recurrent = ops::BiasAdd(b, recurrent, weights[1]);
        const Outputs parts = ops::Split(b, recurrent, reset_after ? 3 : 2, 1);
        const auto open = [&](int i) {
          return options.recurrent_activation(b, ops::AddV2(b, given[i], parts[i]));
        };
        const Output z = open(0), r = open(1);
        const Output reset =
            reset_after ? ops::Mul(b, r, parts[2]) : ops::MatMul(b, ops::Mul(b, r, h), weights[1]);
        const Output g = options.activation(b, ops::AddV2(b, given[2], reset));
        return Outputs{ops::AddV2(b, g, ops::Mul(b, z, ops::Sub(b, h, g)))};
      },
      LoopOf(options)));
}

Output SimpleRNN(const Scope& scope, Output x, int64_t units, const SimpleRNNOptions& options) {
  return SimpleRNNWithState(scope, x, units, options).y;
}
Output LSTM(const Scope& scope, Output x, int64_t units, const LSTMOptions& options) {
  return LSTMWithState(scope, x, units, options).y;
}
Output GRU(const Scope& scope, Output x, int64_t units, const GRUOptions& options) {
  return GRUWithState(scope, x, units, options).y;
}

}  // namespace layers
}  // namespace mirrorflow
