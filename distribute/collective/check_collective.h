// SPDX-License-Identifier: Apache-2.0
//
// Functions that all communicators share: they check a collective, compare it with those of other
// ranks, and describe it in errors.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// The index of the first element of `rank` in gathered or scattered data.
int64_t FirstOf(int rank, absl::Span<const int64_t> counts);

// Returns InvalidArgument unless `rank` of `world_size` ranks can run `collective`. Checks counts,
// root, dtype and reduction, and that there is memory if there are elements.
absl::Status CheckCollective(const Collective& collective, int rank, int world_size);

// Number of elements that `rank` provides, and that it receives, of a collective that has passed
// CheckCollective.
int64_t InputElements(const Collective& collective, int rank);
int64_t OutputElements(const Collective& collective, int rank);

bool IsUpdate(const Collective& collective);  // Update or ProductUpdate
// The error of a communicator whose ranks are not on host memory, which updates need.
absl::Status NeedsHostMemory(const Collective& collective, int rank);

// A hash of everything that must agree between ranks: all fields except memory and sequence number.
uint64_t Fingerprint(const Collective& collective);

// `all-reduce 'gradients/0' of 100 float (sum)`, `all-gather 'x' of [3,0] int32`,
// `broadcast 'w' of 10 double (root 2)`, `barrier 'start'`,
// `update 'w' of 10 float (mean)`, `update by product 'w' of [3,0] rows float`.
std::string CollectiveToString(const Collective& collective);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
