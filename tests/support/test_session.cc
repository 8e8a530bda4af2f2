// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_session.h"

#include <utility>
#include <vector>

#include "distribute/all_kernels.h"
#include "distribute/collective/in_process.h"
#include "distribute/pipeline.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/registry.h"

namespace mirrorflow {

const KernelRegistry& TestKernels() { return AllKernels(); }

absl::StatusOr<std::unique_ptr<Session>> CreateTestSession(const Graph& graph,
                                                           const TestSessionOptions& options) {
  SessionBackend backend;
  for (int i = 0; i < options.replicas; ++i) {
    backend.devices.push_back(options.queued ? CreateQueuedDevice(i, options.queued_device)
                                             : CreateCpuDevice(i));
    if (options.wrap_device) {
      backend.devices.back() = options.wrap_device(std::move(backend.devices.back()));
    }
  }
  backend.ops = &AllOps();
  backend.kernels = &TestKernels();
  backend.compile = CompileProgram;
  backend.world_size = options.replicas;
  backend.ranks_share_memory = true;
  backend.connect = [options]() -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
    MF_ASSIGN_OR_RETURN(
        auto communicators,
        CreateInProcessCommunicators(options.replicas, {.timeout = options.collective_timeout}));
    for (std::unique_ptr<Communicator>& communicator : communicators) {
      if (options.wrap_communicator) {
        communicator = options.wrap_communicator(std::move(communicator));
      }
    }
    return communicators;
  };
  SessionOptions session = options.session;
  session.pin_threads = false;
  session.compile.verify = true;
  session.compile.check_plan = true;
  return Session::Create(graph, std::move(backend), session);
}

}  // namespace mirrorflow
