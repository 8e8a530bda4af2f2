// SPDX-License-Identifier: Apache-2.0
//
// A collective as a function of one device: what all ranks put in and what all ranks get, in ops
// that TensorFlow has. What a graph with explicit replicas calls.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_FUNCTIONS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_FUNCTIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// Puts the function into the library of `caller` and returns what to call it by, such as
// `AllReduce_sum_2_…`. Arguments: the inputs of `collective` on replica 0, then on replica 1, …, as
// the outputs `inputs` of `caller` are; results likewise. `rows`: the rows of each replica on the
// collective's axis, if it has one.
absl::StatusOr<FunctionRef> DefineCollective(const Node& collective,
                                             absl::Span<const Output> inputs,
                                             absl::Span<const int64_t> rows, int num_replicas,
                                             Graph& caller);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_COLLECTIVE_FUNCTIONS_H_
