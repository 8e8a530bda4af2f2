// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_CHECK_REPLICAS_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_CHECK_REPLICAS_H_

#include "absl/status/status.h"
#include "framework/runtime/variable_layout.h"
#include "framework/workers/rank_exchange.h"

namespace mirrorflow {

// Compares all replicas' copies of the variables (see Session::CheckReplicas).
absl::Status CheckReplicas(const VariableLayout& layout, RankExchange& exchange);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_CHECK_REPLICAS_H_
