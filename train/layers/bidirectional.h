// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LAYERS_BIDIRECTIONAL_H_
#define MIRRORFLOW_TRAIN_LAYERS_BIDIRECTIONAL_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

struct BidirectionalOptions {
  std::string merge_mode = "concat";  // along the last dimension; or "sum", "mul", "ave"
  std::string name = "bidirectional";
};

namespace internal {

// Merges the results of both directions; `backward` is in the order of the steps.
Output MergeDirections(const Scope& scope, Output forward, Output backward, bool sequences,
                       const BidirectionalOptions& options);

}  // namespace internal

// Bidirectional: a recurrent layer over a sequence, and another one, with its own variables, from
//                the end to the start:
//   Bidirectional(scope, x, 64, layers::LSTM, {.return_sequences = true})
// Shapes:    y [batch, 2 * units], or [batch, n, 2 * units] with return_sequences, in the order of
//            x; `units` instead of 2 * units for a merge mode other than concat.
// Variables: those of `forward_NAME` and of `backward_NAME`, where NAME is that of the layer.
// States:    the first half of the initial states is for the forward layer.
// Masks:     as in Keras, the layers have zero_output_for_mask.
// Errors:    InvalidArgument for another merge mode.
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

#endif  // MIRRORFLOW_TRAIN_LAYERS_BIDIRECTIONAL_H_
