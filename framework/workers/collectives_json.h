// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_COLLECTIVES_JSON_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_COLLECTIVES_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "framework/runtime/run_progress.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

// The latest collectives of `worker`, as a JSON array for an error file: of each one its step,
// sequence, name, whether it has finished here, and the ranks that had not started it when
// `failure` was noticed, as far as that is known.
std::string CollectivesJson(const RunProgress& progress, const Topology& topology, int worker,
                            const absl::Status& failure);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_COLLECTIVES_JSON_H_
