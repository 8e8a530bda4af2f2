// SPDX-License-Identifier: Apache-2.0
//
// What every communicator asks of a collective, by itself and against another rank's, and the words
// in which it is reported.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// Where the elements of `rank` begin in what is gathered or scattered.
int64_t FirstOf(int rank, absl::Span<const int64_t> counts);

// InvalidArgument unless one rank of `world_size` can run `collective`: counts, root, dtype,
// reduction, and memory where there are elements.
absl::Status CheckCollective(const Collective& collective, int rank, int world_size);

// Equal for collectives of two ranks that mean the same: of all but their memory.
uint64_t Fingerprint(const Collective& collective);

// `all-reduce 'gradients/0' of 100 float (sum)`, `all-gather 'x' of [3,0] int32`,
// `broadcast 'w' of 10 double (root 2)`, `barrier 'start'`.
std::string CollectiveToString(const Collective& collective);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
