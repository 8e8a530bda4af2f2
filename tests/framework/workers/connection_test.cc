// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/connection.h"

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "distribute/collective/team_communicator.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/graph/graph.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/variable_layout.h"
#include "framework/workers/local_replicas.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/fakes/cluster/memory_worker_group.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);

// The other worker fails after both have joined but before this one connects. Connect learns of the
// failure but returns OK; only a later call can return it.
TEST(ConnectionTest, ConnectReturnsDespiteKnownFailure) {
  Topology topology;
  for (int w = 0; w < 2; ++w) topology.replicas.push_back({.worker = w, .domain = w});
  auto groups = CreateMemoryWorkerGroups(2);
  WorkerGroup& other = *groups[1];
  const std::shared_ptr<WorkerGroup> own = std::move(groups[0]);
  const absl::StatusOr<VariableLayout> layout =
      VariableLayout::Create(Graph(), /*bucket_bytes=*/64, /*replicas=*/1);
  ASSERT_TRUE(layout.ok()) << layout.status();
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(CreateCpuDevice(0));
  const std::vector<std::shared_ptr<std::byte>> own_memory(layout->regions().size());
  const int rank[] = {0};
  const auto replicas = LocalReplicas::Create(std::move(devices), rank, *layout, own_memory, {});
  ASSERT_TRUE(replicas.ok()) << replicas.status();

  bool process_would_end = false;
  std::unique_ptr<Connection> connection;
  const HangPolicy hang_policy = {.inside_step = absl::ZeroDuration(),
                                  .between_steps = absl::ZeroDuration(),
                                  .end_process = [&](const absl::Status&) {
                                    process_would_end = true;
                                    connection->Check().IgnoreError();  // ends the test's own wait
                                  }};
  connection = std::make_unique<Connection>(
      topology, own,
      [](const Topology&, absl::Span<const int>, WorkerGroup*, uint64_t,
         MonotonicTime) -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
        return CreateTeamCommunicators(1, kTimeout);
      },
      hang_policy);
  const MonotonicTime deadline = MonotonicTime::Now() + kTimeout;
  std::thread joining([&] { EXPECT_TRUE(other.Join(deadline).ok()); });
  ASSERT_EQ(connection->Join(deadline), absl::OkStatus());
  joining.join();
  const absl::Status failure = WithFailure(absl::InternalError("out of order"), {.worker = 1});
  std::promise<void> known;
  own->OnFailure([&](const absl::Status&) { known.set_value(); });
  other.ReportFailure(failure, deadline).IgnoreError();
  known.get_future().wait();

  EXPECT_EQ(connection->Connect((*replicas)->all(), deadline), absl::OkStatus());
  EXPECT_FALSE(process_would_end);
  EXPECT_EQ(connection->Check(), failure);
}

}  // namespace
}  // namespace mirrorflow
