// SPDX-License-Identifier: Apache-2.0
//
// Test sessions on any devices: like a strategy's sessions, with every check enabled.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TEST_SESSION_H_
#define MIRRORFLOW_TESTS_SUPPORT_TEST_SESSION_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/session/session.h"
#include "framework/session/session_backend.h"
#include "ops/registry.h"
#include "tests/support/queued_device.h"

namespace mirrorflow {

// Returns the kernels of a test session: the CPU kernels, and those for nodes that passes insert.
const KernelRegistry& TestKernels();

struct TestSessionOptions {
  int replicas = 1;
  int threads_per_replica = 1;  // on CPUs; queued devices have one thread
  bool queued = false;          // whether to use queued devices
  QueuedDeviceOptions queued_device = {};
  absl::Duration collective_timeout = absl::Seconds(60);
  SessionOptions session = {};
  // The library's ops, and possibly more. `kernels` is not used if set_backend is set.
  const OpRegistry* ops = &AllOps();
  const KernelRegistry* kernels = &TestKernels();
  // Sets devices, kernels and `connect`; the defaults are for CPUs.
  std::function<absl::Status(const TestSessionOptions&, SessionBackend*)> set_backend = nullptr;
  // Wrappers that plant bugs. Called for each device and each communicator, in replica order.
  std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> wrap_device = nullptr;
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> wrap_communicator =
      nullptr;
};

// Creates a session that runs the verifier after every pass and CheckPlan on every plan.
absl::StatusOr<std::unique_ptr<Session>> CreateTestSession(const Graph& graph,
                                                           const TestSessionOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TEST_SESSION_H_
