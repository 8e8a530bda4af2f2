// SPDX-License-Identifier: Apache-2.0
//
// Helpers for all communicators. They check a collective, fingerprint it so that ranks can compare
// theirs, and describe it in errors.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// Returns the index of the first element of `rank` in gathered or scattered data.
int64_t FirstOf(int rank, absl::Span<const int64_t> counts);

// Returns InvalidArgument unless `collective` is valid for `rank` in a world of `world_size` ranks.
// Checks counts, root, dtype and reduction, and that inputs and outputs with elements have memory.
absl::Status CheckCollective(const Collective& collective, int rank, int world_size);

// Return the number of elements that `rank` provides and receives.
// REQUIRES: `collective` has passed CheckCollective.
int64_t InputElements(const Collective& collective, int rank);
int64_t OutputElements(const Collective& collective, int rank);

bool IsUpdate(const Collective& collective);  // Update or ProductUpdate
// Returns the error for an update whose ranks use device memory: updates require host memory.
absl::Status NeedsHostMemory(const Collective& collective, int rank);

// Hashes everything that must agree between ranks: all fields except memory and sequence number.
uint64_t Fingerprint(const Collective& collective);

// Describes a collective: `all-reduce 'gradients/0' of 100 float (sum)`,
// `all-gather 'x' of [3,0] int32`,
// `broadcast 'w' of 10 double (root 2)`, `barrier 'start'`,
// `update 'w' of 10 float (mean)`, `update by product 'w' of [3,0] rows float`.
std::string CollectiveToString(const Collective& collective);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
