// SPDX-License-Identifier: Apache-2.0
#include "train/layers/recurrent.h"

#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/matmul.h"
#include "ops/reshape.h"
#include "ops/reverse.h"
#include "ops/shape_ops.h"
#include "ops/split.h"
#include "train/layers/dropout.h"
#include "train/layers/layer_support.h"
#include "train/layers/recurrence.h"

namespace mirrorflow {
namespace layers {
namespace {

using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

bool CheckMask(const Scope& s, Output x, Output mask, absl::string_view layer) {
  const Shape expected({s.shape(x).dim(0), s.shape(x).dim(1)});
  if (!mask.valid() || (mask.dtype() == DT_BOOL && s.shape(mask).IsCompatibleWith(expected))) {
    return true;
  }
  Fail(s, layer, ": wrong mask; expected bool", expected.ToString(), ", got ",
       DataTypeName(mask.dtype()), s.shape(mask).ToString());
  return false;
}

// Returns whether the layer can be built. If not, fails the scope.
template <typename Options>
bool CheckRecurrent(const Scope& s, Output x, int64_t units, const Options& options,
                    size_t num_states) {
  const std::string& layer = options.name;
  const Outputs& initial_state = options.initial_state;
  if (!s.ok() || !CheckSize(s, layer, "units", units) || !CheckExamples(s, x, 3, layer) ||
      !CheckSize(s, layer, "sequence length", s.shape(x).dim(1)) ||
      !CheckMask(s, x, options.mask, layer)) {
    return false;
  }
  if (!initial_state.empty() && initial_state.size() != num_states) {
    Fail(s, layer, ": wrong number of initial states; expected ", num_states, ", got ",
         initial_state.size());
    return false;
  }
  const Shape expected({s.shape(x).dim(0), units});
  for (const Output& state : initial_state) {
    if (s.shape(state).IsCompatibleWith(expected)) continue;
    Fail(s, layer, ": wrong shape of an initial state; expected ", expected.ToString(), ", got ",
         s.shape(state).ToString());
    return false;
  }
  return true;
}

Outputs InitialStates(const Scope& s, Output x, int64_t units, Args given, size_t num_states) {
  if (!given.empty()) return Outputs(given.begin(), given.end());
  const Output zeros = ops::Fill(s, BatchShape(s, x, {units}), ops::ScalarConst(s, x.dtype(), 0));
  return Outputs(num_states, zeros);
}

// Returns `count` scaled dropout masks [batch, rest…], which are the same for all steps.
Outputs DropoutMasks(const Scope& s, Output x, absl::Span<const int64_t> rest, double rate,
                     int64_t count) {
  const Output ones = ops::Fill(s, BatchShape(s, x, rest), ops::ScalarConst(s, x.dtype(), 1));
  Outputs masks;
  for (int64_t i = 0; i < count; ++i) masks.push_back(Dropout(s, ones, rate));
  return masks;
}

template <typename Options>
RecurrenceOptions LoopOf(const Options& options) {
  return {.return_sequences = options.return_sequences,
          .go_backwards = options.go_backwards,
          .unroll = options.unroll,
          .mask = options.mask,
          .zero_output_for_mask = options.zero_output_for_mask,
          .starts_at_zeros = options.initial_state.empty()};
}

// A cell that computes `gates` gates of `units` columns each.
struct Cell {
  Output kernel, recurrent_kernel, bias;
  int64_t units, gates;
  Outputs masks;            // [batch, 1, in], for x: none, one for all gates, or one per gate
  Outputs recurrent_masks;  // [batch, units], for h: none, or one per gate
};

template <typename Options>
Cell CreateCell(const Scope& s, const char* name, Output x, int64_t units, int64_t gates,
                const Options& options, const Shape& bias_shape,
                const Initializer& bias_initializer) {
  const Scope cell = s.SubScope(name);
  const int64_t in = s.shape(x).dim(2), width = gates * units;
  Cell c{.units = units, .gates = gates};
  c.kernel = CreateVariable(cell, "kernel", {in, width}, options.kernel_initializer).value;
  c.recurrent_kernel =
      CreateVariable(cell, "recurrent_kernel", {units, width}, options.recurrent_initializer).value;
  if (options.use_bias) c.bias = CreateVariable(cell, "bias", bias_shape, bias_initializer).value;
  const bool by_gates = options.recurrent_dropout != 0;
  if (options.dropout != 0) {
    c.masks = DropoutMasks(s, x, {1, in}, options.dropout, by_gates ? gates : 1);
  }
  if (by_gates) {
    c.recurrent_masks = DropoutMasks(s, x, {units}, options.recurrent_dropout, gates);
  }
  return c;
}

// Computes x · kernel + bias for all steps at once: [batch, n, in] -> [batch, n, gates * units].
Output Project(const Scope& s, Output x, const Cell& cell) {
  const int64_t n = s.shape(x).dim(1), in = s.shape(x).dim(2);
  const auto product = [&](Output x, Output kernel) {
    return ops::MatMul(s, ops::Reshape(s, x, Shape({kUnknownDim, in})), kernel);
  };
  Outputs products;
  if (cell.masks.empty()) products = {product(x, cell.kernel)};
  const auto count = static_cast<int64_t>(cell.masks.size());
  const Outputs kernels = count < 2 ? Outputs{cell.kernel} : ops::Split(s, cell.kernel, count, 1);
  if (!s.ok()) return Output();
  for (int64_t i = 0; i < count; ++i) {
    products.push_back(product(ops::Mul(s, x, cell.masks[i]), kernels[i]));
  }
  Output y = products.size() == 1 ? products[0] : ops::ConcatV2(s, products, 1);
  if (cell.bias.valid()) y = ops::BiasAdd(s, y, cell.bias);
  return ops::Reshape(s, y, Shape({kUnknownDim, n, cell.gates * cell.units}));
}

// Initializes the second quarter of an LSTM bias (the forget gate) to 1, and the rest with
// `others`.
Initializer ForgetBias(const Initializer& others, int64_t units) {
  return [=](const Scope& s, const Shape&, DataType dtype) {
    return ops::ConcatV2(s,
                         {others(s.SubScope("input"), {units}, dtype),
                          initializers::Ones()(s.SubScope("forget"), {units}, dtype),
                          others(s.SubScope("others"), {2 * units}, dtype)},
                         0);
  };
}

// Returns the loop's weights for h · recurrent_kernel: the kernel or, with dropout, the gates'
// kernels, followed by their dropout masks.
Outputs RecurrentWeights(const Scope& s, const Cell& cell) {
  if (cell.recurrent_masks.empty()) return {cell.recurrent_kernel};
  Outputs weights = ops::Split(s, cell.recurrent_kernel, cell.gates, 1);
  weights.insert(weights.end(), cell.recurrent_masks.begin(), cell.recurrent_masks.end());
  return weights;
}

// Computes a step's h · recurrent_kernel for the first `count` gates.
Output Recurrent(const Scope& b, const Cell& cell, Output h, Args weights, int64_t count) {
  if (cell.recurrent_masks.empty()) return ops::MatMul(b, h, weights[0]);
  Outputs products;
  for (int64_t i = 0; i < count; ++i) {
    products.push_back(ops::MatMul(b, ops::Mul(b, h, weights[cell.gates + i]), weights[i]));
  }
  return count == 1 ? products[0] : ops::ConcatV2(b, products, 1);
}

}  // namespace

RecurrentOutputs SimpleRNNWithState(const Scope& scope, Output x, int64_t units,
                                    const SimpleRNNOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckRecurrent(s, x, units, options, 1)) return {};
  const Cell cell =
      CreateCell(s, "simple_rnn_cell", x, units, 1, options, {units}, options.bias_initializer);
  return Recur(
      s, Project(s, x, cell), InitialStates(s, x, units, options.initial_state, 1),
      RecurrentWeights(s, cell),
      [&](const Scope& b, Output in, Args states, Args weights) {
        const Output sum = ops::AddV2(b, in, Recurrent(b, cell, states[0], weights, 1));
        return Outputs{options.activation(b, sum)};
      },
      LoopOf(options));
}

RecurrentOutputs LSTMWithState(const Scope& scope, Output x, int64_t units,
                               const LSTMOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckRecurrent(s, x, units, options, 2)) return {};
  const Initializer bias = options.unit_forget_bias ? ForgetBias(options.bias_initializer, units)
                                                    : options.bias_initializer;
  const Cell cell = CreateCell(s, "lstm_cell", x, units, 4, options, {4 * units}, bias);
  return Recur(
      s, Project(s, x, cell), InitialStates(s, x, units, options.initial_state, 2),
      RecurrentWeights(s, cell),
      [&](const Scope& b, Output in, Args states, Args weights) {
        const Output sum = ops::AddV2(b, in, Recurrent(b, cell, states[0], weights, 4));
        const Outputs gates = ops::Split(b, sum, 4, 1);
        const auto open = [&](int i) { return options.recurrent_activation(b, gates[i]); };
        const Output kept = ops::Mul(b, open(1), states[1]);
        const Output added = ops::Mul(b, open(0), options.activation(b, gates[2]));
        const Output c = ops::AddV2(b, kept, added);
        return Outputs{ops::Mul(b, open(3), options.activation(b, c)), c};
      },
      LoopOf(options));
}

RecurrentOutputs GRUWithState(const Scope& scope, Output x, int64_t units,
                              const GRUOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckRecurrent(s, x, units, options, 1)) return {};
  const bool reset_after = options.reset_after, two_biases = reset_after && options.use_bias;
  Cell cell = CreateCell(s, "gru_cell", x, units, 3, options,
                         reset_after ? Shape({2, 3 * units}) : Shape({3 * units}),
                         options.bias_initializer);
  const bool dropout = !cell.recurrent_masks.empty();
  Outputs weights = RecurrentWeights(s, cell);
  if (!reset_after && !dropout) {
    weights = ops::SplitV(s, cell.recurrent_kernel, {2 * units, units}, 1);
  }
  if (two_biases) {
    const Outputs biases = ops::Unpack(s, cell.bias, 2);
    cell.bias = biases[0];
    weights.push_back(biases[1]);
  }
  // Scales h by r before the product with g's kernel.
  const auto reset_before = [&](const Scope& b, Output h, Output r, Args weights) {
    if (dropout) h = ops::Mul(b, h, weights[cell.gates + 2]);
    return ops::MatMul(b, ops::Mul(b, r, h), weights[dropout ? 2 : 1]);
  };
  return Recur(
      s, Project(s, x, cell), InitialStates(s, x, units, options.initial_state, 1), weights,
      [&](const Scope& b, Output in, Args states, Args weights) {
        const Output h = states[0];
        const int64_t products = reset_after ? 3 : 2;
        const Outputs given = ops::Split(b, in, 3, 1);
        Output recurrent = Recurrent(b, cell, h, weights, products);
        if (two_biases) recurrent = ops::BiasAdd(b, recurrent, weights.back());
        const Outputs parts = ops::Split(b, recurrent, products, 1);
        const auto open = [&](int i) {
          return options.recurrent_activation(b, ops::AddV2(b, given[i], parts[i]));
        };
        const Output z = open(0), r = open(1);
        const Output reset =
            reset_after ? ops::Mul(b, r, parts[2]) : reset_before(b, h, r, weights);
        const Output g = options.activation(b, ops::AddV2(b, given[2], reset));
        return Outputs{ops::AddV2(b, g, ops::Mul(b, z, ops::Sub(b, h, g)))};
      },
      LoopOf(options));
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

Output internal::MergeDirections(const Scope& scope, Output forward, Output backward,
                                 bool sequences, const BidirectionalOptions& options) {
  if (!scope.ok()) return Output();
  if (sequences) backward = ops::ReverseV2(scope, backward, ops::VectorConst(scope, {1}));
  if (options.merge_mode == "concat") {
    return ops::ConcatV2(scope, {forward, backward}, scope.shape(forward).rank() - 1);
  }
  if (options.merge_mode == "sum") return ops::AddV2(scope, forward, backward);
  if (options.merge_mode == "mul") return ops::Mul(scope, forward, backward);
  if (options.merge_mode == "ave") {
    const Output sum = ops::AddV2(scope, forward, backward);
    return ops::Mul(scope, sum, ops::ScalarConst(scope, sum.dtype(), 0.5));
  }
  return Fail(scope, options.name, ": unknown merge_mode; expected concat, sum, mul or ave, got ",
              options.merge_mode);
}

}  // namespace layers
}  // namespace mirrorflow
