// SPDX-License-Identifier: Apache-2.0
//
// Sessions on any devices, for tests: what a strategy makes, with every check on.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TEST_SESSION_H_
#define MIRRORFLOW_TESTS_SUPPORT_TEST_SESSION_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/session/session.h"
#include "tests/support/queued_device.h"

namespace mirrorflow {

struct TestSessionOptions {
  int replicas = 1;
  bool queued = false;  // on queued devices
  QueuedDeviceOptions queued_device = {};
  absl::Duration collective_timeout = absl::Seconds(60);
  SessionOptions session = {};
  // Sets devices, kernels and `connect` to others than those of CPUs.
  std::function<absl::Status(const TestSessionOptions&, SessionBackend*)> set_backend = nullptr;
  // Plant bugs: called for each device and each communicator, in the order of the replicas.
  std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> wrap_device = nullptr;
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> wrap_communicator =
      nullptr;
};

// The verifier runs after every pass and CheckPlan on every plan.
absl::StatusOr<std::unique_ptr<Session>> CreateTestSession(const Graph& graph,
                                                           const TestSessionOptions& options);

// The kernels of a session: those of the CPU, and of the nodes that passes insert.
const KernelRegistry& TestKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TEST_SESSION_H_
