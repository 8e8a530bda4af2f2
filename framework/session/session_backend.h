// SPDX-License-Identifier: Apache-2.0
//
// SessionBackend: the dependencies that higher layers inject into a session: devices, kernels, the
// compiler, and a function that connects the replicas. Strategies create it.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_BACKEND_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_BACKEND_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/pass.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/device.h"
#include "framework/runtime/replica_team.h"
#include "framework/runtime/topology.h"
#include "framework/session/step_compiler.h"
#include "framework/workers/connection.h"

namespace mirrorflow {

struct SessionBackend {
  std::vector<std::unique_ptr<Device>> devices;  // one for each local replica
  const OpRegistry* ops = nullptr;
  const KernelRegistry* kernels = nullptr;  // for the devices and the host
  std::vector<PassMaker> passes = {};       // the user's passes, for the first half of the compiler
  CompileProgramFn compile = nullptr;
  CompilePlanFn compile_plan = nullptr;
  Topology topology;  // this worker's ranks in it are the local replicas
  // If true, the ranks of a memory domain form a local team (Communicator::team) and can share
  // updates.
  bool has_teams = false;
  LinkCosts link = {};  // between memory domains
  CoreSharers core_sharers;
  std::shared_ptr<WorkerGroup> workers = nullptr;  // null if this is the only worker
  ConnectFn connect;
  HangPolicy hang_policy = {};
  // Returns zeroed memory that all workers in this worker's memory domain share under `name`. The
  // function is null if workers share no memory.
  using ShareMemoryFn = std::function<absl::StatusOr<std::shared_ptr<std::byte>>(
      size_t bytes, absl::string_view name, WorkerGroup& workers, MonotonicTime deadline)>;
  ShareMemoryFn share_memory;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_BACKEND_H_
