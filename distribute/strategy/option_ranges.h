// SPDX-License-Identifier: Apache-2.0
//
// Checks that numeric options of strategies are in range.
//
//   MF_RETURN_IF_ERROR(CheckTimeouts({{"step_timeout", options.step_timeout}}));
//   MF_RETURN_IF_ERROR(CheckAtLeast("max_bytes", options.max_bytes, 1));
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_OPTION_RANGES_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_OPTION_RANGES_H_

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

// Returns InvalidArgument, naming the option, unless every timeout is above 0. Accepts infinity.
absl::Status CheckTimeouts(
    std::initializer_list<std::pair<absl::string_view, absl::Duration>> timeouts);

// Returns InvalidArgument, naming the option, if `value` is below `least`.
absl::Status CheckAtLeast(absl::string_view name, int64_t value, int64_t least);

// Returns InvalidArgument unless a strategy's option `threads_per_replica` is from 1 to 256.
absl::Status CheckThreadsPerReplica(int threads);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_OPTION_RANGES_H_
