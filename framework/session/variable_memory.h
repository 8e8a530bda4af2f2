// SPDX-License-Identifier: Apache-2.0
//
// Chooses the layout of a session's variables and allocates the memory that replicas share.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_MEMORY_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_MEMORY_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/session_backend.h"
#include "framework/session/session_options.h"
#include "framework/session/variable_store.h"

namespace mirrorflow {

// Returns whether replicas on these devices can share one copy of a variable if the world has
// several replicas.
bool CanShareVariables(const SessionBackend& backend, const CompileOptions& options);

// Lays out the variables of `graph` for replicas on devices with `traits`. Chooses the bucket size
// itself unless `bucket_bytes` is positive.
absl::StatusOr<VariableLayout> LayOutVariables(const Graph& graph, const World& world,
                                               const DeviceTraits& traits, int64_t bucket_bytes,
                                               bool can_share);

struct SharedRegions {
  std::vector<std::shared_ptr<std::byte>> memory;  // by region; null if not shared
  VariableStore::Sharing sharing;
};
// Allocates the regions of `layout` that the local replicas share, or attaches to those that all
// workers of the memory domain share.
absl::StatusOr<SharedRegions> AllocateSharedRegions(const VariableLayout& layout,
                                                    const SessionBackend& backend, int first_rank,
                                                    MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_MEMORY_H_
