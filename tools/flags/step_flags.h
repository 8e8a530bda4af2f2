// SPDX-License-Identifier: Apache-2.0
//
// Flags that several `mirrorflow` commands share. They select the training step that `bench` and
// `explain` measure, its replicas and its trace; other commands also use --replicas and --trace.
#ifndef MIRRORFLOW_TOOLS_FLAGS_STEP_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_STEP_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/declare.h"

ABSL_DECLARE_FLAG(std::optional<int>, replicas);
ABSL_DECLARE_FLAG(std::optional<int>, threads_per_replica);
ABSL_DECLARE_FLAG(std::string, trace);
ABSL_DECLARE_FLAG(std::string, model);
ABSL_DECLARE_FLAG(int64_t, batch_size);
ABSL_DECLARE_FLAG(std::string, optimizer);
ABSL_DECLARE_FLAG(std::string, hook);
ABSL_DECLARE_FLAG(std::vector<std::string>, without);
ABSL_DECLARE_FLAG(int, workers);
ABSL_DECLARE_FLAG(std::string, transport);
ABSL_DECLARE_FLAG(std::string, json);

#endif  // MIRRORFLOW_TOOLS_FLAGS_STEP_FLAGS_H_
