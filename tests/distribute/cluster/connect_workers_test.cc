// SPDX-License-Identifier: Apache-2.0
//
// Tests sessions of several workers that find each other through the coordination service and
// exchange data over TCP, UCX or shared memory. The in-memory cluster is the reference: it runs the
// same algorithms in one process.
#include "distribute/cluster/connect_workers.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/memory_domains.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/failure.h"
#include "framework/workers/connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/all/ops.h"
#include "tests/support/certificates.h"
#include "tests/support/coordination.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/proxied_worker_group.h"
#include "tests/support/tensors.h"
#include "tests/support/test_workers.h"
#include "tools/models/classifiers.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using ::testing::Each;

constexpr int kWorkers = 2;
constexpr int kSteps = 4;

enum class Link { kSharedMemory, kUcx, kTcp, kTls };

std::string NameOf(Link link) {
  const char* const names[] = {"SharedMemory", "Ucx", "Tcp", "Tls"};
  return names[static_cast<int>(link)];
}

// A training step of a model.
struct Model {
  static absl::StatusOr<std::unique_ptr<Model>> Build(absl::string_view name, float rate = 1e-2f) {
    auto model = std::make_unique<Model>();
    const Scope root(&model->graph);
    MF_ASSIGN_OR_RETURN(model->classifier, BuildClassifier(root, name));
    model->train =
        Momentum({.learning_rate = rate, .momentum = 0.9}).Minimize(root, model->classifier.loss);
    return model;
  }

  Graph graph;
  Classifier classifier;
  Operation train;
};

std::string HashOf(const Tensor& tensor) {
  const absl::string_view bytes(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  return absl::StrCat(absl::Hex(absl::HashOf(bytes)));
}

// Returns hashes of the losses of several steps and of the final variables.
absl::StatusOr<std::string> Train(const Model& model, Session& session) {
  std::string log;
  MF_ASSIGN_OR_RETURN(Step step, session.Prepare({model.classifier.images, model.classifier.labels},
                                                 {model.classifier.loss}, {model.train}));
  Random random(9);
  for (int i = 0; i < kSteps; ++i) {
    const int64_t rows = i == kSteps - 1 ? 5 : 16;  // the last batch is shorter
    Shape shape = model.classifier.images.node->attr<Shape>("shape");
    shape.set_dim(0, rows);
    MF_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DT_INT32, Shape({rows})));
    for (int32_t& label : labels.flat<int32_t>()) label = static_cast<int32_t>(random.Below(10));
    MF_ASSIGN_OR_RETURN(const StepOutputs out,
                        step.Run({RandomTensor(DT_FLOAT, shape, &random), labels}));
    absl::StrAppend(&log, "loss ", HashOf(out[0]), "\n");
  }
  for (const std::string& name : session.VariableNames()) {
    MF_ASSIGN_OR_RETURN(const Tensor value, session.ReadVariable(name));
    absl::StrAppend(&log, name, " ", HashOf(value), "\n");
  }
  MF_RETURN_IF_ERROR(session.CheckReplicas());
  return log;
}

// Makes the workers of `options` use the coordination service and exchange data as separate
// processes do: over the network or, if they form one domain, through shared memory, which each
// worker maps at a different address.
class RealCluster {
 public:
  RealCluster(Link link, TestWorkersOptions* options) : link_(link) {
    EXPECT_EQ(options->one_domain, link == Link::kSharedMemory);
    for (const auto& client : cluster_.clients()) {
      meetings_.push_back(client->NewGroup());
      groups_.push_back(client->NewGroup());
      proxied_.push_back(std::make_shared<ProxiedWorkerGroup>(*groups_.back()));
    }
    if (link == Link::kTls) tls_ = WriteCertificate("worker", TemporaryPath("worker"));
    options->change = [this](int worker, SessionOptions*, SessionBackend* backend) {
      Change(worker, backend);
    };
  }

  // Returns all bytes that the workers have exchanged over TCP.
  std::string captured() { return proxied_[0]->captured() + proxied_[1]->captured(); }

 private:
  void Change(int worker, SessionBackend* backend) {
    ConnectOptions options = {.timeout = absl::Seconds(20),
                              .over_ucx = link_ == Link::kUcx,
                              .device = "lo",
                              .data = {.address = "127.0.0.1",
                                       .cluster = {.secret = "0123456789abcdef", .job = "test"},
                                       .tls = tls_},
                              .has_core = worker == 0};
    if (link_ == Link::kSharedMemory) {
      const auto domains =
          FormMemoryDomains(std::vector<std::string>(kWorkers, "here"), CollectiveKind::kAuto,
                            *meetings_[worker], MonotonicTime::Now() + absl::Seconds(20));
      ASSERT_TRUE(domains.ok()) << domains.status();
      EXPECT_EQ(domains->warning, "");
      EXPECT_EQ(domains->by_worker, std::vector<int>(kWorkers, 0));
      const auto memory = options.host_memory = domains->host_memory;
      for (size_t i = 0; i < backend->devices.size(); ++i) {
        backend->devices[i] = CreateCpuDevice(
            static_cast<int>(i), [memory](size_t bytes) { return memory->Allocate(bytes); });
      }
      backend->share_memory = [memory](size_t bytes, absl::string_view name, WorkerGroup& group,
                                       MonotonicTime deadline) {
        return memory->Share(bytes, name, group, deadline);
      };
    }
    backend->workers = proxied_[worker];
    backend->connect = [options](const Topology& topology, absl::Span<const int> local_ranks,
                                 WorkerGroup* workers, uint64_t incarnation,
                                 MonotonicTime deadline) {
      return ConnectWorkers(topology, local_ranks, workers, incarnation, deadline, options);
    };
  }

  const Link link_;
  TlsFiles tls_;
  CoordinatedCluster cluster_{kWorkers};
  std::vector<std::unique_ptr<WorkerGroup>> meetings_, groups_;
  std::vector<std::shared_ptr<ProxiedWorkerGroup>> proxied_;  // by worker
};

// Fails worker 1 at the end of its last broadcast, once worker 0 has finished all of them.
class UnevenFailure {
 public:
  void Arm(size_t num_broadcasts) {
    MutexLock lock(&mutex_);
    for (size_t& left : left_) left = num_broadcasts;
  }

  // Called by each worker after a broadcast.
  absl::Status Pass(int worker) {
    MutexLock lock(&mutex_);
    if (left_[worker] == 0 || --left_[worker] > 0) return absl::OkStatus();
    if (worker == 0) {
      worker_0_is_done_.NotifyAll();
      return absl::OkStatus();
    }
    return worker_0_is_done_.WaitFor(
               lock, absl::Seconds(20),
               [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return left_[0] == 0; })
               ? absl::UnavailableError("injected")
               : absl::DeadlineExceededError("worker 0 has not finished");
  }

 private:
  Mutex mutex_;
  CondVar worker_0_is_done_;
  size_t left_[kWorkers] ABSL_GUARDED_BY(mutex_) = {};  // remaining broadcasts, by worker
};

class FailingCommunicator final : public Communicator {
 public:
  FailingCommunicator(std::unique_ptr<Communicator> communicator, UnevenFailure& failure)
      : communicator_(std::move(communicator)), failure_(failure) {}

  int rank() const override { return communicator_->rank(); }
  int world_size() const override { return communicator_->world_size(); }
  void BeginStep(uint64_t step) override { communicator_->BeginStep(step); }
  void Announce(absl::Span<const Collective* const> collectives) override {
    communicator_->Announce(collectives);
  }
  absl::Status EndStep() override { return communicator_->EndStep(); }
  absl::Status Start(const Collective& collective, Lane* lane) override {
    return communicator_->Start(collective, lane);
  }
  absl::Status Finish(const Collective& collective, Lane* lane) override {
    MF_RETURN_IF_ERROR(communicator_->Finish(collective, lane));
    return std::holds_alternative<Broadcast>(collective.operation) ? failure_.Pass(rank())
                                                                   : absl::OkStatus();
  }
  absl::Status Register(std::byte* memory, size_t bytes) override {
    return communicator_->Register(memory, bytes);
  }
  absl::Status status() const override { return communicator_->status(); }
  void Abort(absl::Status why) override { communicator_->Abort(std::move(why)); }

 private:
  const std::unique_ptr<Communicator> communicator_;
  UnevenFailure& failure_;
};

absl::StatusOr<std::string> TrainOnWorkers(const Model& model, TestWorkersOptions options) {
  MF_ASSIGN_OR_RETURN(
      const auto workers,
      TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, options));
  std::vector<std::string> logs(kWorkers);
  MF_RETURN_IF_ERROR(workers->OnAll([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(logs[w], Train(model, workers->session(w)));
    return absl::OkStatus();
  }));
  EXPECT_EQ(logs[0], logs[1]);
  return logs[0];
}

class TrainTest : public testing::TestWithParam<std::tuple<const char*, Link>> {};
INSTANTIATE_TEST_SUITE_P(
    , TrainTest,
    testing::Values(std::tuple("mlp", Link::kSharedMemory), std::tuple("cnn", Link::kSharedMemory),
                    std::tuple("mlp", Link::kUcx), std::tuple("cnn", Link::kUcx),
                    std::tuple("cnn", Link::kTcp), std::tuple("mlp", Link::kTls)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "Over", NameOf(std::get<1>(info.param)));
    });

TEST_P(TrainTest, TrainingMatchesInMemoryClusterBitForBit) {
  const auto [name, link] = GetParam();
  const auto model = Model::Build(name);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const int replicas : {1, 2}) {
    SCOPED_TRACE(absl::StrCat(replicas, " replicas per worker"));
    TestWorkersOptions options{
        .workers = kWorkers, .replicas = replicas, .one_domain = link == Link::kSharedMemory};
    const auto want = TrainOnWorkers(**model, options);
    ASSERT_TRUE(want.ok()) << want.status();
    const RealCluster real(link, &options);
    const auto got = TrainOnWorkers(**model, options);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, *want);
  }
}

class CaptureTest : public testing::TestWithParam<Link> {};
INSTANTIATE_TEST_SUITE_P(, CaptureTest, testing::Values(Link::kTcp, Link::kTls),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(CaptureTest, ShowsNoFloatsIfEncrypted) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 4000});
  const Output sum = ops::Sum(root, x, {0});
  TestWorkersOptions options{.workers = kWorkers, .replicas = 1};
  RealCluster real(GetParam(), &options);
  const auto workers = TestWorkers::Create([&](int) -> const Graph& { return graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  Random random(3);
  const Tensor rows = RandomTensor(DT_FLOAT, Shape({2, 4000}), &random);
  std::vector<Tensor> sums(kWorkers);
  const absl::Status status = (*workers)->OnAll([&](int w) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Step step, (*workers)->session(w).Prepare({x}, {sum}, {}));
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({rows}));
    sums[w] = out[0];
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  // Each worker has sent its row to the other worker, or shards of its row and of the sums.
  const std::string captured = real.captured();
  const auto bytes = [](const Tensor& tensor) {
    return absl::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  };
  const size_t row = bytes(sums[0]).size();
  int pairs = 0, readable = 0;
  for (size_t at = 0; at + 8 <= row; at += 80) {
    ++pairs;
    readable += absl::StrContains(captured, bytes(sums[0]).substr(at, 8)) ||
                absl::StrContains(captured, bytes(rows).substr(at, 8)) ||
                absl::StrContains(captured, bytes(rows).substr(row + at, 8));
  }
  EXPECT_EQ(readable, GetParam() == Link::kTls ? 0 : pairs);
}

class ConnectWorkersTest : public testing::TestWithParam<Link> {};
INSTANTIATE_TEST_SUITE_P(, ConnectWorkersTest,
                         testing::Values(Link::kSharedMemory, Link::kUcx, Link::kTls),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(ConnectWorkersTest, WorkersThatDifferAreNamedBeforeFirstStep) {
  const auto model = Model::Build("mlp"), other = Model::Build("mlp", 0.5f);
  ASSERT_TRUE(model.ok() && other.ok()) << model.status() << other.status();
  TestWorkersOptions options{
      .workers = kWorkers, .replicas = 1, .one_domain = GetParam() == Link::kSharedMemory};
  const RealCluster real(GetParam(), &options);
  const auto workers = TestWorkers::Create(
      [&](int w) -> const Graph& { return (w == 0 ? *model : *other)->graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  for (const absl::Status& status : (*workers)->OnEach([&](int w) {
         return Train(w == 0 ? **model : **other, (*workers)->session(w)).status();
       })) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "workers differ"));
    EXPECT_EQ(FailureOf(status)->worker, 1);
  }
}

TEST_P(ConnectWorkersTest, WorkersReconnect) {
  const auto model = Model::Build("mlp");
  ASSERT_TRUE(model.ok()) << model.status();
  TestWorkersOptions options{
      .workers = kWorkers, .replicas = 2, .one_domain = GetParam() == Link::kSharedMemory};
  const RealCluster real(GetParam(), &options);
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return (*model)->graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  const auto incarnation = [&] { return (*workers)->session(0).connection().incarnation(); };
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = incarnation();
    const absl::Status status = (*workers)->OnAll([&](int w) -> absl::Status {
      Session& session = (*workers)->session(w);
      MF_RETURN_IF_ERROR(Train(**model, session).status());
      return session.Reconnect();
    });
    EXPECT_EQ(status, absl::OkStatus()) << "round " << round;
    EXPECT_GT(incarnation(), before);
  }
}

// Worker 0 has taken its initial values, but worker 1 has not.
TEST_P(ConnectWorkersTest, WorkersReconnectAfterSomeHaveTakenInitialValues) {
  const auto model = Model::Build("mlp");
  ASSERT_TRUE(model.ok()) << model.status();
  for (const bool compares_first : {false, true}) {
    SCOPED_TRACE(compares_first);
    TestWorkersOptions options{
        .workers = kWorkers, .replicas = 1, .one_domain = GetParam() == Link::kSharedMemory};
    const auto want = TrainOnWorkers(**model, options);
    ASSERT_TRUE(want.ok()) << want.status();
    const RealCluster real(GetParam(), &options);
    UnevenFailure failure;
    options.change = [&failure, change = options.change](int worker, SessionOptions* session,
                                                         SessionBackend* backend) {
      change(worker, session, backend);
      backend->connect =
          [&failure, connect = backend->connect](
              auto&&... arguments) -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
        MF_ASSIGN_OR_RETURN(auto communicators, connect(arguments...));
        for (auto& communicator : communicators) {
          communicator = std::make_unique<FailingCommunicator>(std::move(communicator), failure);
        }
        return communicators;
      };
    };
    const auto workers =
        TestWorkers::Create([&](int) -> const Graph& { return (*model)->graph; }, options);
    ASSERT_TRUE(workers.ok()) << workers.status();
    failure.Arm((*workers)->session(0).VariableNames().size());
    EXPECT_THAT(
        (*workers)->OnEach([&](int w) { return Train(**model, (*workers)->session(w)).status(); }),
        Each(IsError(absl::StatusCode::kUnavailable, "injected")));
    std::vector<std::string> logs(kWorkers);
    EXPECT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
      Session& session = (*workers)->session(w);
      MF_RETURN_IF_ERROR(session.Reconnect());
      session.SetStep(0);  // only worker 0 has begun the step
      if (compares_first) MF_RETURN_IF_ERROR(session.CheckReplicas());
      MF_ASSIGN_OR_RETURN(logs[w], Train(**model, session));
      return absl::OkStatus();
    }),
              absl::OkStatus());
    EXPECT_EQ(logs[0], *want);
    EXPECT_EQ(logs[1], *want);
  }
}

}  // namespace
}  // namespace mirrorflow
