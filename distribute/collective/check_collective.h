// SPDX-License-Identifier: Apache-2.0
//
// What every communicator asks of a collective, by itself and against another rank's, and the words
// in which it is reported.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_

#include <string>

#include "absl/status/status.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// InvalidArgument unless one rank of `world_size` can run `collective`: counts, root, dtype,
// reduction, and memory where there are elements.
absl::Status CheckCollective(const Collective& collective, int rank, int world_size);

// Whether two ranks mean the same collective: all that must not differ between them, which leaves
// out their memory and the fields that the kind does not use. Both passed CheckCollective.
bool SameCollective(const Collective& a, const Collective& b);

// `all-reduce 'gradients/0' of 100 float (sum)`, `all-gather 'x' of [3,0] int32`,
// `broadcast 'w' of 10 double (root 2)`, `barrier 'start'`.
std::string CollectiveToString(const Collective& collective);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_CHECK_COLLECTIVE_H_
