// SPDX-License-Identifier: Apache-2.0
//
// Runs the conformance suites on the GPU communicators, with fakes of CUDA and NCCL.
#include <algorithm>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "distribute/collective/device_copy/device_copy_communicator.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/fake_nccl.h"

namespace mirrorflow {
namespace {

// A rank with its own lane. Each call, even one that fails, returns only after the work that it
// enqueued has ended, because the suite then frees the collective's memory.
class Waiting final : public Communicator {
 public:
  Waiting(std::unique_ptr<Device> device, std::unique_ptr<Communicator> inner)
      : device_(std::move(device)), inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status Start(const Collective& c, Lane*) override {
    const absl::Status started = inner_->Start(c, &lane());
    if (!started.ok()) WaitForLane();
    return started;
  }
  absl::Status Finish(const Collective& c, Lane*) override {
    const absl::Status finished = inner_->Finish(c, &lane());
    WaitForLane();
    return finished.ok() ? inner_->status() : finished;
  }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(why); }

 private:
  Lane& lane() { return device_->lane(LaneKind::kCommunicate); }

  void WaitForLane() {
    const std::byte from[1] = {};
    std::byte to[1];
    EXPECT_EQ(lane().Read(from, to, 1, MonotonicTime::InfiniteFuture()), absl::OkStatus());
  }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Communicator> inner_;
};

absl::StatusOr<Communicators> OnDevices(absl::StatusOr<Communicators> connected) {
  if (!connected.ok()) return connected;
  for (size_t r = 0; r < connected->size(); ++r) {
    const int rank = static_cast<int>(r);
    MF_ASSIGN_OR_RETURN(auto device, CreateCudaDevice(rank, rank));
    (*connected)[r] = std::make_unique<Waiting>(std::move(device), std::move((*connected)[r]));
  }
  return connected;
}

void Reset(int num_gpus) {
  ResetFakeCuda({.num_gpus = num_gpus});
  ResetFakeNccl();
}

Topology WorkersOf(int world_size, int num_workers) {
  Topology topology;
  for (int rank = 0; rank < world_size; ++rank) {
    topology.replicas.push_back({.worker = rank * num_workers / world_size, .domain = rank});
  }
  return topology;
}

const ConformanceCase kNccl = {
    "Nccl", [](int world_size, absl::Duration timeout) {
      Reset(world_size);
      std::vector<int> ranks(world_size);
      std::iota(ranks.begin(), ranks.end(), 0);
      return OnDevices(ConnectNccl(WorkersOf(world_size, 1), ranks, ranks, /*workers=*/nullptr,
                                   MonotonicTime::Now() + timeout, {.timeout = timeout}));
    }};

// Keeps alive a rank's worker group, which its communicator uses.
class WithWorkerGroup final : public Communicator {
 public:
  WithWorkerGroup(std::shared_ptr<WorkerGroup> group, std::unique_ptr<Communicator> inner)
      : group_(std::move(group)), inner_(std::move(inner)) {}
  ~WithWorkerGroup() override {
    // The suite destroys the ranks one after the other, so they cannot wait for one another.
    group_->ReportFailure(absl::CancelledError("the test is over"), MonotonicTime::InfiniteFuture())
        .IgnoreError();
  }
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status Start(const Collective& c, Lane* lane) override { return inner_->Start(c, lane); }
  absl::Status Finish(const Collective& c, Lane* lane) override { return inner_->Finish(c, lane); }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(why); }

 private:
  const std::shared_ptr<WorkerGroup> group_;
  const std::unique_ptr<Communicator> inner_;
};

// Creates two workers in one process that share only NCCL's unique id. Normally, a session reports
// a worker's failure to the other worker through its worker group; here, no session exists.
absl::StatusOr<Communicators> ConnectTwoWorkers(int world_size, absl::Duration timeout) {
  Reset(world_size);
  const int num_workers = std::min(world_size, 2);
  const Topology topology = WorkersOf(world_size, num_workers);
  std::vector<std::shared_ptr<WorkerGroup>> groups;
  for (auto& group : CreateMemoryWorkerGroups(num_workers)) groups.push_back(std::move(group));
  std::vector<absl::StatusOr<Communicators>> connected(num_workers);
  std::vector<std::thread> threads;
  for (int w = 0; w < num_workers; ++w) {
    threads.emplace_back([&, w] {
      const std::vector<int> ranks = topology.RanksOfWorker(w);
      connected[w] = ConnectNccl(topology, ranks, ranks, groups[w].get(),
                                 MonotonicTime::Now() + timeout, {.timeout = timeout});
    });
  }
  for (std::thread& thread : threads) thread.join();
  Communicators all;
  for (int w = 0; w < num_workers; ++w) {
    MF_RETURN_IF_ERROR(connected[w].status());
    for (auto& communicator : *connected[w]) {
      all.push_back(std::make_unique<WithWorkerGroup>(groups[w], std::move(communicator)));
    }
  }
  return OnDevices(std::move(all));
}
const ConformanceCase kNcclTwoWorkers = {"NcclTwoWorkers", ConnectTwoWorkers};

const ConformanceCase kDeviceCopy = {
    "DeviceCopy", [](int world_size, absl::Duration timeout) {
      Reset(world_size);
      return OnDevices(CreateDeviceCopyCommunicators(world_size, 0, timeout));
    }};

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorConformance, testing::ValuesIn(AtEveryWorldSize(kNccl)),
                         ConformanceCaseName);
INSTANTIATE_TEST_SUITE_P(NcclTwoWorkers, CommunicatorConformance,
                         testing::ValuesIn(AtEveryWorldSize(kNcclTwoWorkers)), ConformanceCaseName);
// Returns the cases with at most 4 ranks. More ranks would take too long: with R ranks, each step
// of a collective takes R × R stream waits.
std::vector<ConformanceCase> Small(const std::vector<ConformanceCase>& all) {
  std::vector<ConformanceCase> cases;
  for (const ConformanceCase& c : all) {
    if (c.world_size <= 4) cases.push_back(c);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(DeviceCopy, CommunicatorConformance,
                         testing::ValuesIn(Small(AtEveryWorldSize(kDeviceCopy))),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorAborts,
                         testing::ValuesIn(Small(AtEveryWorldSizeAboveOne(kNccl))),
                         ConformanceCaseName);
// CommunicatorFailures is not instantiated. With device copy, a rank's Start returns only after all
// ranks have arrived, which the suite does not allow for. With NCCL, ranks of different workers
// wait only in their worker group; session_test and workers_test cover mismatched collectives.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorFailures);

}  // namespace
}  // namespace mirrorflow
