// SPDX-License-Identifier: Apache-2.0
//
// Defines a collective as a single-device function of TensorFlow ops that maps the inputs of all
// ranks to the outputs of all ranks. Graphs with explicit replicas call it.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_FUNCTIONS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_FUNCTIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// Adds the function to `caller`'s library and returns a reference to it, such as
// `AllReduce_sum_2_…`. Its arguments are the inputs of `collective` on replica 0, then on replica
// 1, …, with the dtypes and shapes of `inputs`, which are outputs in `caller`; its results are in
// the same order. `rows` holds each replica's row count on the collective's axis, if it has one.
absl::StatusOr<FunctionRef> DefineCollective(const Node& collective,
                                             absl::Span<const Output> inputs,
                                             absl::Span<const int64_t> rows, int num_replicas,
                                             Graph& caller);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_FUNCTIONS_H_
