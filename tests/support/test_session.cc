// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_session.h"

#include "distribute/collective/collective_ops.h"
#include "distribute/collective/in_process.h"
#include "distribute/pipeline.h"
#include "kernels/cpu/all_kernels.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/registry.h"

namespace mirrorflow {

const KernelRegistry& TestKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    RegisterCpuKernels(*kernels);
    RegisterCollectiveKernelsCpu(*kernels);
    return kernels;
  }();
  return *registry;
}

absl::StatusOr<std::unique_ptr<Session>> CreateTestSession(const Graph& graph,
                                                           const TestSessionOptions& options) {
  SessionBackend backend;
  for (int i = 0; i < options.replicas; ++i) {
    backend.devices.push_back(options.queued ? CreateQueuedDevice(i, options.queued_device)
                                             : CreateCpuDevice(i));
  }
  backend.ops = &AllOps();
  backend.kernels = &TestKernels();
  backend.compile = CompileProgram;
  backend.world_size = options.replicas;
  backend.connect = [replicas = options.replicas, timeout = options.collective_timeout] {
    return CreateInProcessCommunicators(replicas, {.timeout = timeout});
  };
  SessionOptions session = options.session;
  session.pin_threads = false;
  session.compile.verify = true;
  session.compile.check_plan = true;
  return Session::Create(graph, std::move(backend), session);
}

}  // namespace mirrorflow
