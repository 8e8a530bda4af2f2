// SPDX-License-Identifier: Apache-2.0
//
// Tests two workers with one GPU each, with fakes of CUDA and NCCL: how they connect, and what
// happens if their collectives differ.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/gpu.h"
#include "ops/all/ops.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/is_error.h"
#include "tests/support/test_workers.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

// Longer than any of these tests takes, unless a wait lasts until its deadline.
constexpr absl::Duration kLong = absl::Minutes(2);

void Reset(FakeNcclOptions nccl = {}) {
  ResetFakeCuda({.num_gpus = 2});
  nccl.threads_may_change = true;
  ResetFakeNccl(nccl);
}

// Wraps a worker's communicator to change its behaviour.
using Wrap = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;

void UseGpu(int worker, SessionBackend* backend, const NcclOptions& nccl = {},
            const Wrap& wrap = nullptr) {
  backend->devices[0] = CreateGpu(worker, {.collective_memory = NcclMemory()}).value();
  backend->has_teams = false;
  for (Topology::ReplicaLocation& replica : backend->topology.replicas) {
    replica.device = absl::StrCat("GPU:", replica.worker);
  }
  backend->connect =
      [=](const Topology& topology, absl::Span<const int> ranks, WorkerGroup* workers, uint64_t,
          MonotonicTime deadline) -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
    MF_ASSIGN_OR_RETURN(auto communicators,
                        ConnectNccl(topology, ranks, {worker}, workers, deadline, nccl));
    if (wrap) communicators[0] = wrap(std::move(communicators[0]));
    return communicators;
  };
}

// A model with one layer per name. Training it runs one collective per layer and one for the loss.
struct Layers {
  Graph graph;
  Output x, loss;
  Operation train;

  explicit Layers(const std::vector<const char*>& names) {
    const Scope root(&graph);
    x = ops::Placeholder(root, DT_FLOAT, {-1, 6});
    Output y = x;
    for (const char* name : names) {
      const Output w = CreateVariable(root, name, {6, 6}, initializers::GlorotUniform()).value;
      y = ops::MatMul(root, y, w);
    }
    loss = ops::Mean(root, ops::Square(root, y), {0, 1});
    train = SGD({.learning_rate = 0.1}).Minimize(root, loss);
  }
};

std::vector<Tensor> Batch() {
  Tensor batch = Tensor::Allocate(DT_FLOAT, {4, 6}).value();
  for (int i = 0; i < 24; ++i) batch.flat<float>()[i] = 0.1f * i;
  return {batch};
}

// When asked for several algorithms, the cuBLASLt fake proposes two, and only the second one runs.
// A worker that does not measure must therefore receive the choice.
TEST(GpuWorkersTest, AllWorkersUseAlgorithmsTunedByFirst) {
  Reset();
  const Layers layer({"w"});
  TestWorkersOptions options{.replicas = 1};
  options.session.compile.kernels.autotune = true;
  options.change = [](int w, SessionOptions*, SessionBackend* backend) { UseGpu(w, backend); };
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return layer.graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  std::vector<float> losses[2];
  const absl::Status trained = (*workers)->OnAll([&](int w) -> absl::Status {
    Session& session = (*workers)->session(w);
    MF_ASSIGN_OR_RETURN(Step step, session.Prepare({layer.x}, {layer.loss}, {layer.train}));
    // The last step runs on a new connection, so the workers agree again before it.
    for (int i = 0; i < 3; ++i) {
      MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run(Batch()));
      losses[w].push_back(outputs[0].flat<float>()[0]);
      if (i == 1) MF_RETURN_IF_ERROR(session.Reconnect());
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_LT(losses[0].back(), losses[0].front());
}

// A bug in one rank, which calls this function instead of Start.
using Plant = std::function<absl::Status(Communicator& rank, Collective c, Lane* lane)>;

// Plants a bug in the collectives of steps while `active` is set.
class Planted final : public Communicator {
 public:
  Planted(std::unique_ptr<Communicator> inner, Plant plant, const std::atomic<bool>& active)
      : inner_(std::move(inner)), plant_(std::move(plant)), active_(active) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  void BeginStep(uint64_t step) override { inner_->BeginStep(step); }
  void Announce(absl::Span<const Collective* const> collectives) override {
    inner_->Announce(collectives);
  }
  absl::Status Start(const Collective& c, Lane* lane) override {
    return active_ && c.sequence >= 0 ? plant_(*inner_, c, lane) : inner_->Start(c, lane);
  }
  absl::Status Finish(const Collective& c, Lane* lane) override { return inner_->Finish(c, lane); }
  bool can_be_repeated() const override { return inner_->can_be_repeated(); }
  absl::Status Register(std::byte* memory, size_t bytes) override {
    return inner_->Register(memory, bytes);
  }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(why); }

 private:
  const std::unique_ptr<Communicator> inner_;
  const Plant plant_;
  const std::atomic<bool>& active_;
};

// Returns a bug that starts the second collective of a step before the first one.
Plant Swap() {
  return [first = std::make_shared<Collective>()](Communicator& rank, const Collective& c,
                                                  Lane* lane) -> absl::Status {
    if (c.sequence == 0) {
      *first = c;
      return absl::OkStatus();
    }
    MF_RETURN_IF_ERROR(rank.Start(c, lane));
    return c.sequence == 1 ? rank.Start(*first, lane) : absl::OkStatus();
  };
}

// Returns a bug that changes the second collective of a step, which is an all-reduce.
Plant Change(const std::function<void(Collective&, AllReduce&)>& change) {
  return [change](Communicator& rank, Collective c, Lane* lane) {
    if (c.sequence == 1) change(c, std::get<AllReduce>(c.operation));
    return rank.Start(c, lane);
  };
}

// Returns a bug that starts collective `sequence` of a step `times` times.
Plant Times(int sequence, int times) {
  return [=](Communicator& rank, const Collective& c, Lane* lane) -> absl::Status {
    for (int i = 0; i < (c.sequence == sequence ? times : 1); ++i) {
      MF_RETURN_IF_ERROR(rank.Start(c, lane));
    }
    return absl::OkStatus();
  };
}

struct Mismatch {
  const char* name;
  Plant plant;           // on rank 1
  const char* ranks[2];  // what both errors say about each rank
};

std::vector<Mismatch> Mismatches() {
  return {
      {"Order", Swap(), {"collective 0 of its step", "collective 1 of its step"}},
      {"Count",
       Change([](Collective&, AllReduce& a) { --a.count; }),
       {"of 36 float (sum)", "of 35 float (sum)"}},
      {"Dtype",
       Change([](Collective& c, AllReduce&) { c.dtype = DT_INT32; }),
       {"of 36 float (sum)", "of 36 int32 (sum)"}},
      {"Reduction",
       Change([](Collective&, AllReduce& a) { a.reduction = Reduction::kMax; }),
       {"of 36 float (sum)", "of 36 float (max)"}},
      {"Missing", Times(1, 0), {"collective 1 of its step", "collective 2 of its step"}},
      {"Extra", Times(0, 2), {"collective 1 of its step", "collective 0 of its step"}},
  };
}

// (index in Mismatches(), whether the bug is planted when the step is captured rather than when it
// first runs)
using MismatchCase = std::tuple<int, bool>;
class GpuMismatchTest : public ::testing::TestWithParam<MismatchCase> {};

TEST_P(GpuMismatchTest, BothWorkersReportWhatEachRankHas) {
  const Mismatch mismatch = Mismatches()[std::get<0>(GetParam())];
  const bool when_captured = std::get<1>(GetParam());
  Reset();
  const Layers layers({"a", "b", "c"});
  std::atomic<bool> active{false};
  TestWorkersOptions options{.replicas = 1};
  options.session.bucket_bytes = 64;  // one collective per variable
  options.change = [&](int w, SessionOptions*, SessionBackend* backend) {
    UseGpu(w, backend, {.timeout = kLong, .can_be_captured = when_captured},
           [&, w](std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
             if (w == 0) return inner;
             return std::make_unique<Planted>(std::move(inner), mismatch.plant, active);
           });
  };
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return layers.graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  std::vector<Step> steps(2);
  for (int w = 0; w < 2; ++w) {
    steps[w] = (*workers)->session(w).Prepare({layers.x}, {layers.loss}, {layers.train}).value();
  }
  const auto run = [&] {
    return (*workers)->OnEach([&](int w) { return steps[w].Run(Batch()).status(); });
  };
  if (when_captured) {
    for (const absl::Status& first : run()) ASSERT_EQ(first, absl::OkStatus());
  }
  active = true;
  const MonotonicTime begin = MonotonicTime::Now();
  for (const absl::Status& status : run()) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "NCCL", "differ"));
    const std::string message(status.message());
    const size_t of_rank_0 = message.find("rank 0 has all-reduce '");
    const size_t of_rank_1 = message.find("rank 1 has all-reduce '");
    ASSERT_LT(of_rank_0, of_rank_1) << message;
    ASSERT_NE(of_rank_1, std::string::npos) << message;
    EXPECT_THAT(message.substr(of_rank_0, of_rank_1 - of_rank_0), HasSubstr(mismatch.ranks[0]));
    EXPECT_THAT(message.substr(of_rank_1), HasSubstr(mismatch.ranks[1]));
  }
  EXPECT_LT(MonotonicTime::Now() - begin, kLong / 2);
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());  // NCCL never received the mismatched collectives
  // Without the bug, training restarts from worker 0's values.
  active = false;
  for (const absl::Status& again : (*workers)->OnEach([&](int w) -> absl::Status {
         Session& session = (*workers)->session(w);
         const Tensor weights = Tensor::Of<float>({6, 6}, std::vector<float>(36, 0.1f));
         MF_RETURN_IF_ERROR(session.AssignFromWorker0(
             {"a", "b", "c"}, {{"a", weights}, {"b", weights}, {"c", weights}}));
         for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(steps[w].Run(Batch()).status());
         return absl::OkStatus();
       })) {
    EXPECT_EQ(again, absl::OkStatus());
  }
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(All, GpuMismatchTest,
                         ::testing::ValuesIn(std::vector<MismatchCase>{{0, false},
                                                                       {1, false},
                                                                       {2, false},
                                                                       {3, false},
                                                                       {4, false},
                                                                       {5, false},
                                                                       {0, true},
                                                                       {4, true}}),
                         [](const auto& info) {
                           return absl::StrCat(Mismatches()[std::get<0>(info.param)].name,
                                               std::get<1>(info.param) ? "WhenCaptured" : "");
                         });

// Rank 1 skips the last collective and considers its step done.
TEST(GpuWorkersTest, WorkerThatSkipsLastCollectiveIsNamedInItsNextStep) {
  Reset();
  const Layers layers({"a", "b"});
  std::atomic<bool> active{true};
  TestWorkersOptions options{.replicas = 1};
  options.session.bucket_bytes = 64;
  options.change = [&](int w, SessionOptions*, SessionBackend* backend) {
    UseGpu(w, backend, {.timeout = kLong},
           [&, w](std::unique_ptr<Communicator> inner) -> std::unique_ptr<Communicator> {
             if (w == 0) return inner;
             return std::make_unique<Planted>(std::move(inner), Times(2, 0), active);
           });
  };
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return layers.graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  const MonotonicTime begin = MonotonicTime::Now();
  for (const absl::Status& status : (*workers)->OnEach([&](int w) -> absl::Status {
         MF_ASSIGN_OR_RETURN(
             Step step, (*workers)->session(w).Prepare({layers.x}, {layers.loss}, {layers.train}));
         MF_RETURN_IF_ERROR(step.Run(Batch()).status());
         EXPECT_EQ(w, 1) << "rank 0 waits for the last collective";
         return step.Run(Batch()).status();
       })) {
    EXPECT_THAT(status,
                IsError(absl::StatusCode::kInvalidArgument, "NCCL", "differ", "rank 1 has ended"));
  }
  EXPECT_LT(MonotonicTime::Now() - begin, kLong / 2);
}

// Two workers that connect through NCCL, on separate threads.
class ConnectingWorkersTest : public ::testing::Test {
 protected:
  ConnectingWorkersTest() {
    for (int w = 0; w < 2; ++w) topology_.replicas.push_back({.worker = w, .domain = w});
  }

  absl::Status Connect(int worker, absl::Duration timeout) {
    const int rank[] = {worker};
    return ConnectNccl(topology_, rank, rank, groups_[worker].get(), MonotonicTime::Now() + timeout,
                       {.can_be_captured = true})
        .status();
  }

  Topology topology_;
  std::vector<std::unique_ptr<MemoryWorkerGroup>> groups_ = CreateMemoryWorkerGroups(2);
};

TEST_F(ConnectingWorkersTest, MissingWorkerIsNamed) {
  Reset();
  const absl::Status status = Connect(0, absl::Milliseconds(100));
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "missing worker 1"));
}

// Worker 1 has received the id, but its process hangs before it creates its communicator.
TEST_F(ConnectingWorkersTest, WorkerLostAfterReceivingIdFailsOtherAtDeadline) {
  Reset();
  std::thread lost([&] {
    EXPECT_EQ(groups_[1]->Get("nccl/eager", MonotonicTime::InfiniteFuture()).status(),
              absl::OkStatus());
    EXPECT_EQ(groups_[1]->Barrier("nccl/eager", MonotonicTime::InfiniteFuture()), absl::OkStatus());
  });
  const MonotonicTime begin = MonotonicTime::Now();
  const absl::Status status = Connect(0, absl::Milliseconds(500));
  lost.join();
  EXPECT_THAT(status,
              IsError(absl::StatusCode::kDeadlineExceeded, "connecting rank 0", "in progress"));
  EXPECT_LT(MonotonicTime::Now() - begin, absl::Seconds(30));
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

// The coordination service notices that the process has ended.
TEST_F(ConnectingWorkersTest, LossOfWorkerFailsOtherImmediately) {
  Reset();
  std::thread lost([&] {
    EXPECT_EQ(groups_[1]->Get("nccl/eager", MonotonicTime::InfiniteFuture()).status(),
              absl::OkStatus());
    EXPECT_EQ(groups_[1]->Barrier("nccl/eager", MonotonicTime::InfiniteFuture()), absl::OkStatus());
    groups_[1]
        ->ReportFailure(absl::UnavailableError("worker 1 has ended"),
                        MonotonicTime::InfiniteFuture())
        .IgnoreError();
  });
  const MonotonicTime begin = MonotonicTime::Now();
  const absl::Status status = Connect(0, kLong);
  lost.join();
  EXPECT_THAT(status, IsError(absl::StatusCode::kUnavailable, "worker 1 has ended"));
  EXPECT_LT(MonotonicTime::Now() - begin, kLong / 2);
}

TEST_F(ConnectingWorkersTest, FailureToConnectIsReportedToOther) {
  Reset({.unconnectable_rank = 1});
  const MonotonicTime begin = MonotonicTime::Now();
  absl::Status statuses[2];
  std::thread other([&] { statuses[1] = Connect(1, kLong); });
  statuses[0] = Connect(0, kLong);
  other.join();
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInternal, "ncclCommInitRankConfig"));
  }
  EXPECT_LT(MonotonicTime::Now() - begin, kLong / 2);
}

// NCCL may still be sending data that the other worker has not received yet.
TEST_F(ConnectingWorkersTest, WorkerThatFinishesWaitsForOther) {
  Reset();
  std::vector<std::unique_ptr<Communicator>> communicators[2];
  const auto connect = [&](int w) {
    const int rank[] = {w};
    auto connected =
        ConnectNccl(topology_, rank, rank, groups_[w].get(), MonotonicTime::Now() + kLong);
    ASSERT_TRUE(connected.ok()) << connected.status();
    communicators[w] = *std::move(connected);
  };
  std::thread first([&] {
    connect(0);
    communicators[0].clear();
  });
  connect(1);
  EXPECT_EQ(groups_[1]->Barrier("nccl/end", MonotonicTime::Now() + kLong), absl::OkStatus());
  first.join();
}

TEST_F(ConnectingWorkersTest, ForeignIdIsRejected) {
  Reset();
  ASSERT_EQ(setenv("NCCL_COMM_ID", "192.0.2.1:9", 1), 0);
  const absl::Status status = Connect(0, kLong);
  unsetenv("NCCL_COMM_ID");
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "NCCL_COMM_ID", "192.0.2.1:9"));
  EXPECT_EQ(NcclMisuse(), absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow
