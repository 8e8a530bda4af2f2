// SPDX-License-Identifier: Apache-2.0
#include "train/layers/recurrence.h"

#include <algorithm>

#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control_flow/control_flow.h"
#include "ops/control_flow/tensor_list.h"
#include "ops/reshape.h"
#include "ops/reverse.h"
#include "ops/select.h"
#include "ops/transpose.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace layers {
namespace {

using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

Output Integer(const Scope& s, int64_t value) {
  return ops::ScalarConst(s, DT_INT32, static_cast<double>(value));
}

// Returns the states after `element`. Where `kept` is false, the states do not change. If `kept` is
// invalid, it is treated as true everywhere.
Outputs Next(const Scope& s, Output element, Output kept, Args states, Args weights,
             RecurrentStep step) {
  Outputs next = step(s, element, states, weights);
  if (!kept.valid() || !s.ok()) return next;
  for (size_t i = 0; i < next.size(); ++i) next[i] = ops::SelectV2(s, kept, next[i], states[i]);
  return next;
}

Outputs Elements(const Scope& s, Output sequence, const RecurrenceOptions& options) {
  Outputs elements = ops::Unpack(s, sequence, s.shape(sequence).dim(1), {.axis = 1});
  if (options.go_backwards) std::reverse(elements.begin(), elements.end());
  return elements;
}

// Adds a copy of the step's nodes for each element. `mask` is [batch, n, 1], or invalid.
RecurrentOutputs Unrolled(const Scope& s, Output x, Output mask, Args states, Args weights,
                          RecurrentStep step, const RecurrenceOptions& options) {
  const Outputs elements = Elements(s, x, options);
  const Outputs kept = mask.valid() ? Elements(s, mask, options) : Outputs(elements.size());
  if (!s.ok()) return {};
  Outputs now(states.begin(), states.end()), results;
  for (size_t i = 0; i < elements.size(); ++i) {
    now = Next(s, elements[i], kept[i], now, weights, step);
    results.push_back(now[0]);
  }
  const Output y = options.return_sequences ? ops::Pack(s, results, {.axis = 1}) : now[0];
  return {y, now};
}

Output ListOf(const Scope& s, Output sequence) {
  return ops::TensorListFromTensor(s, ops::Transpose(s, sequence, {1, 0, 2}));
}

// Runs the steps in a loop. The loop's values are, in this order: step index, elements, results (if
// they are returned), states, mask (if valid), weights.
RecurrentOutputs Looped(const Scope& s, Output x, Output mask, Args states, Args weights,
                        RecurrentStep step, const RecurrenceOptions& options) {
  const int64_t n = s.shape(x).dim(1);
  const DataType dtype = x.dtype();
  const bool sequences = options.return_sequences;
  const size_t first_state = sequences ? 3 : 2, num_states = states.size();
  const size_t first_weight = first_state + num_states + (mask.valid() ? 1 : 0);
  Outputs values = {Integer(s, 0), ListOf(s, x)};
  if (sequences) {
    values.push_back(ops::EmptyTensorList(s, dtype, s.shape(states[0]), {.max_num_elements = n}));
  }
  values.insert(values.end(), states.begin(), states.end());
  if (mask.valid()) values.push_back(ListOf(s, mask));
  values.insert(values.end(), weights.begin(), weights.end());
  const Outputs last = ops::While(
      s, values,
      [&](const Scope& b, Args in) { return Outputs{ops::Less(b, in[0], Integer(b, n))}; },
      [&](const Scope& b, Args in) {
        const Output at = options.go_backwards ? ops::Sub(b, Integer(b, n - 1), in[0]) : in[0];
        const Output element = ops::TensorListGetItem(b, in[1], at, dtype);
        Output kept;
        if (mask.valid()) kept = ops::TensorListGetItem(b, in[first_weight - 1], at, DT_BOOL);
        const Outputs next = Next(b, element, kept, in.subspan(first_state, num_states),
                                  in.subspan(first_weight), step);
        Outputs out(in.begin(), in.end());
        out[0] = ops::AddV2(b, in[0], Integer(b, 1));
        if (sequences) out[2] = ops::TensorListPushBack(b, in[2], next[0]);
        std::copy(next.begin(), next.end(), out.begin() + first_state);
        return out;
      });
  if (!s.ok()) return {};
  const auto begin = last.begin() + first_state;
  const Outputs after(begin, begin + num_states);
  if (!sequences) return {after[0], after};
  const Output stacked = ops::TensorListStack(s, last[2], dtype, {.num_elements = n});
  return {ops::Transpose(s, stacked, {1, 0, 2}), after};
}

}  // namespace

RecurrentOutputs Recur(const Scope& scope, Output x, Args states, Args weights, RecurrentStep step,
                       const RecurrenceOptions& options) {
  if (!scope.ok()) return {};
  const auto run = [&](Output mask, Args states, RecurrentStep step) {
    return options.unroll ? Unrolled(scope, x, mask, states, weights, step, options)
                          : Looped(scope, x, mask, states, weights, step, options);
  };
  if (!options.mask.valid()) return run(Output(), states, step);
  const Output mask = ops::ExpandDims(scope, options.mask, 2);
  if (options.zero_output_for_mask && options.return_sequences) {
    RecurrentOutputs outputs = run(mask, states, step);
    const Output kept =
        options.go_backwards ? ops::ReverseV2(scope, mask, ops::VectorConst(scope, {1})) : mask;
    outputs.y = ops::SelectV2(scope, kept, outputs.y, ops::ScalarConst(scope, x.dtype(), 0));
    return outputs;
  }
  if (options.starts_at_zeros) return run(mask, states, step);
  // The result before the first step is zeros, but states[0] may not be, so the result needs a
  // separate loop value.
  Outputs extended = {ops::ZerosLike(scope, states[0])};
  extended.insert(extended.end(), states.begin(), states.end());
  RecurrentOutputs outputs =
      run(mask, extended, [&](const Scope& s, Output element, Args now, Args weights) {
        Outputs next = step(s, element, now.subspan(1), weights);
        if (s.ok()) next.insert(next.begin(), next[0]);
        return next;
      });
  if (!outputs.states.empty()) outputs.states.erase(outputs.states.begin());
  return outputs;
}

}  // namespace layers
}  // namespace mirrorflow
