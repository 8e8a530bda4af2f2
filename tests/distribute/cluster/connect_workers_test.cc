// SPDX-License-Identifier: Apache-2.0
//
// Sessions of several workers that meet through the coordination service and exchange data over
// UCX or through shared memory. The in-memory cluster is the reference: it runs the same algorithms
// in one process.
#include "distribute/cluster/connect_workers.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distribute/cluster/memory_domains.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/support/coordination.h"
#include "tests/support/tensors.h"
#include "tests/support/test_workers.h"
#include "tools/models/classifiers.h"
#include "train/optimizer.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

constexpr int kWorkers = 2;
constexpr int kSteps = 4;

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

// Hashes of the losses of some steps and of the variables after them.
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

// Lets the workers of `options` use the coordination service, and exchange data as separate
// processes do: over UCX or, if they are one domain, through shared memory, which each of them has
// mapped at addresses of its own.
class RealCluster {
 public:
  explicit RealCluster(TestWorkersOptions* options) : one_domain_(options->one_domain) {
    for (const auto& client : cluster_.clients()) {
      meetings_.push_back(client->NewGroup());
      groups_.push_back(client->NewGroup());
    }
    options->change = [this](int worker, SessionOptions*, SessionBackend* backend) {
      Change(worker, backend);
    };
  }

 private:
  void Change(int worker, SessionBackend* backend) {
    ConnectOptions options = {.timeout = absl::Seconds(20), .device = "lo"};
    if (one_domain_) {
      const auto domains =
          FormMemoryDomains(std::vector<std::string>(kWorkers, "here"), CollectiveKind::kAuto,
                            *meetings_[worker], absl::Now() + absl::Seconds(20));
      ASSERT_TRUE(domains.ok()) << domains.status();
      EXPECT_EQ(domains->warning, "");
      EXPECT_EQ(domains->by_worker, std::vector<int>(kWorkers, 0));
      const auto memory = options.host_memory = domains->host_memory;
      for (size_t i = 0; i < backend->devices.size(); ++i) {
        backend->devices[i] = CreateCpuDevice(
            static_cast<int>(i), [memory](size_t bytes) { return memory->Allocate(bytes); });
      }
      backend->share_memory = [memory](size_t bytes, absl::string_view name, WorkerGroup& group,
                                       absl::Time deadline) {
        return memory->Share(bytes, name, group, deadline);
      };
    }
    backend->workers = groups_[worker].get();
    backend->connect = [options](const Topology& topology, absl::Span<const int> local_ranks,
                                 WorkerGroup* workers, uint64_t incarnation, absl::Time deadline) {
      return ConnectWorkers(topology, local_ranks, workers, incarnation, deadline, options);
    };
  }

  const bool one_domain_;
  CoordinatedCluster cluster_{kWorkers};
  std::vector<std::unique_ptr<WorkerGroup>> meetings_, groups_;
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

class TrainTest : public testing::TestWithParam<std::tuple<const char*, bool>> {};
INSTANTIATE_TEST_SUITE_P(, TrainTest,
                         testing::Combine(testing::Values("mlp", "cnn"), testing::Bool()),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), std::get<1>(info.param)
                                                                            ? "OverSharedMemory"
                                                                            : "OverUcx");
                         });

TEST_P(TrainTest, TrainingMatchesInMemoryClusterBitForBit) {
  const auto [name, one_domain] = GetParam();
  const auto model = Model::Build(name);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const int replicas : {1, 2}) {
    SCOPED_TRACE(absl::StrCat(replicas, " replicas per worker"));
    TestWorkersOptions options{.workers = kWorkers, .replicas = replicas, .one_domain = one_domain};
    const auto want = TrainOnWorkers(**model, options);
    ASSERT_TRUE(want.ok()) << want.status();
    const RealCluster real(&options);
    const auto got = TrainOnWorkers(**model, options);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, *want);
  }
}

class ConnectWorkersTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, ConnectWorkersTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "SharedMemory" : "Ucx");
});

TEST_P(ConnectWorkersTest, WorkersThatDifferAreNamedBeforeTheFirstStep) {
  const auto model = Model::Build("mlp"), other = Model::Build("mlp", 0.5f);
  ASSERT_TRUE(model.ok() && other.ok()) << model.status() << other.status();
  TestWorkersOptions options{.workers = kWorkers, .replicas = 1, .one_domain = GetParam()};
  const RealCluster real(&options);
  const auto workers = TestWorkers::Create(
      [&](int w) -> const Graph& { return (w == 0 ? *model : *other)->graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  for (const absl::Status& status : (*workers)->OnEach([&](int w) {
         return Train(w == 0 ? **model : **other, (*workers)->session(w)).status();
       })) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("workers differ"));
    EXPECT_EQ(FailureOf(status)->worker, 1);
  }
}

TEST_P(ConnectWorkersTest, WorkersReconnect) {
  const auto model = Model::Build("mlp");
  ASSERT_TRUE(model.ok()) << model.status();
  TestWorkersOptions options{.workers = kWorkers, .replicas = 2, .one_domain = GetParam()};
  const RealCluster real(&options);
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return (*model)->graph; }, options);
  ASSERT_TRUE(workers.ok()) << workers.status();
  const auto incarnation = [&] {
    return (*workers)->session(0).state().connection().incarnation();
  };
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

}  // namespace
}  // namespace mirrorflow
