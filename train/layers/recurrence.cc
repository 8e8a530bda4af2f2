// SPDX-License-Identifier: Apache-2.0
#include "train/layers/recurrence.h"

#include <algorithm>

#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control_flow/control_flow.h"
#include "ops/control_flow/tensor_list.h"
#include "ops/transpose.h"

namespace mirrorflow {
namespace layers {
namespace {

using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

Output Integer(const Scope& s, int64_t value) {
  return ops::ScalarConst(s, DT_INT32, static_cast<double>(value));
}

RecurrenceOutputs Unrolled(const Scope& s, Output x, Args states, Args weights, RecurrentStep step,
                           const RecurrenceOptions& options) {
  Outputs elements = ops::Unpack(s, x, s.shape(x).dim(1), {.axis = 1});
  if (options.go_backwards) std::reverse(elements.begin(), elements.end());
  Outputs now(states.begin(), states.end()), results;
  for (const Output& element : elements) {
    now = step(s, element, now, weights);
    results.push_back(now[0]);
  }
  const Output y = options.return_sequences ? ops::Pack(s, results, {.axis = 1}) : now[0];
  return {y, now};
}

// The values of the loop: the number of the step, the elements, the results if they are returned,
// the states, the weights.
RecurrenceOutputs Looped(const Scope& s, Output x, Args states, Args weights, RecurrentStep step,
                         const RecurrenceOptions& options) {
  const int64_t n = s.shape(x).dim(1);
  const DataType dtype = x.dtype();
  const bool sequences = options.return_sequences;
  const size_t first_state = sequences ? 3 : 2, num_states = states.size();
  Outputs values = {Integer(s, 0), ops::TensorListFromTensor(s, ops::Transpose(s, x, {1, 0, 2}))};
  if (sequences) {
    values.push_back(ops::EmptyTensorList(s, dtype, s.shape(states[0]), {.max_num_elements = n}));
  }
  values.insert(values.end(), states.begin(), states.end());
  values.insert(values.end(), weights.begin(), weights.end());
  const Outputs last = ops::While(
      s, values,
      [&](const Scope& b, Args in) { return Outputs{ops::Less(b, in[0], Integer(b, n))}; },
      [&](const Scope& b, Args in) {
        const Output at = options.go_backwards ? ops::Sub(b, Integer(b, n - 1), in[0]) : in[0];
        const Output element = ops::TensorListGetItem(b, in[1], at, dtype);
        const Outputs next = step(b, element, in.subspan(first_state, num_states),
                                  in.subspan(first_state + num_states));
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

RecurrenceOutputs Recur(const Scope& scope, Output x, Args states, Args weights, RecurrentStep step,
                        const RecurrenceOptions& options) {
  if (!scope.ok()) return {};
  return options.unroll ? Unrolled(scope, x, states, weights, step, options)
                        : Looped(scope, x, states, weights, step, options);
}

}  // namespace layers
}  // namespace mirrorflow
