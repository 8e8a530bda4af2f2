// SPDX-License-Identifier: Apache-2.0
//
// Implements the loop of recurrent layers over the steps of a sequence.
#ifndef MIRRORFLOW_TRAIN_LAYERS_RECURRENCE_H_
#define MIRRORFLOW_TRAIN_LAYERS_RECURRENCE_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/layers/recurrent.h"

namespace mirrorflow {
namespace layers {

// Returns the states after a step, given the states before it. The first state is also the step's
// result.
using RecurrentStep = absl::FunctionRef<std::vector<Output>(const Scope& scope, Output x,
                                                            absl::Span<const Output> states,
                                                            absl::Span<const Output> weights)>;

struct RecurrenceOptions {
  bool return_sequences = false;
  bool go_backwards = false;
  bool unroll = false;  // add a copy of the step for each element, instead of a loop
  // bool [batch, n]. Where it is false, the states do not change, and the step repeats the previous
  // result, or returns zeros if there is none.
  Output mask = {};
  bool zero_output_for_mask = false;  // with return_sequences, masked results are zeros
  bool starts_at_zeros = false;       // states[0] is zeros, like the result before the first step
};

// Runs `step` for each element of x [batch, n, width]; n must be known. The results are in step
// order.
RecurrentOutputs Recur(const Scope& scope, Output x, absl::Span<const Output> states,
                       absl::Span<const Output> weights, RecurrentStep step,
                       const RecurrenceOptions& options);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_RECURRENCE_H_
