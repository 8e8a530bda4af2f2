// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_session.h"

#include <string>
#include <utility>
#include <vector>

#include "distribute/all_kernels.h"
#include "distribute/collective/team_communicator.h"
#include "distribute/pipeline.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/registry.h"

namespace mirrorflow {

const KernelRegistry& TestKernels() { return AllKernels(); }

namespace {

void SetCpus(const TestSessionOptions& options, SessionBackend* backend) {
  for (int i = 0; i < options.replicas; ++i) {
    backend->devices.push_back(
        options.queued ? CreateQueuedDevice(i, options.queued_device)
                       : CreateCpuDevice(i, /*allocate=*/nullptr, options.threads_per_replica));
  }
  backend->kernels = options.kernels;
  backend->has_teams = true;
  backend->connect = [timeout = options.collective_timeout](const Topology& topology,
                                                            absl::Span<const int>, WorkerGroup*,
                                                            uint64_t, MonotonicTime) {
    return CreateTeamCommunicators(topology.world_size(), timeout);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> CreateTestSession(const Graph& graph,
                                                           const TestSessionOptions& options) {
  SessionBackend backend;
  if (options.set_backend) {
    MF_RETURN_IF_ERROR(options.set_backend(options, &backend));
  } else {
    SetCpus(options, &backend);
  }
  backend.ops = options.ops;
  backend.compile = CompileProgram;
  backend.compile_plan = CompilePlan;
  backend.topology = Topology::OneWorker(std::vector<std::string>(options.replicas),
                                         /*one_domain=*/backend.has_teams);
  if (options.wrap_device) {
    for (auto& device : backend.devices) device = options.wrap_device(std::move(device));
  }
  if (options.wrap_communicator) {
    backend.connect =
        [connect = backend.connect, wrap = options.wrap_communicator](
            const Topology& topology, absl::Span<const int> ranks, WorkerGroup* workers,
            uint64_t incarnation,
            MonotonicTime deadline) -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
      MF_ASSIGN_OR_RETURN(auto communicators,
                          connect(topology, ranks, workers, incarnation, deadline));
      for (auto& communicator : communicators) communicator = wrap(std::move(communicator));
      return communicators;
    };
  }
  SessionOptions session = options.session;
  session.pin_threads = false;
  session.compile.verify = true;
  session.compile.check_plan = true;
  return Session::Create(graph, std::move(backend), session);
}

}  // namespace mirrorflow
