// SPDX-License-Identifier: Apache-2.0
//
// With several workers, each variable takes the initial value of rank 0 at most once: before the
// first step, unless it has been assigned by then, for example from a checkpoint.
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/files.h"
#include "tests/support/test_workers.h"
#include "train/checkpoint/checkpoint_manager.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int kWorkers = 3;

// Counts the broadcasts of rank 0, by name.
class CountingCommunicator final : public Communicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> inner, std::map<std::string, int>* broadcasts)
      : inner_(std::move(inner)), broadcasts_(broadcasts) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  void BeginStep(uint64_t step) override { inner_->BeginStep(step); }
  absl::Status EndStep() override { return inner_->EndStep(); }
  absl::Status Start(const Collective& collective, Lane* lane) override {
    if (std::holds_alternative<Broadcast>(collective.operation)) {
      ++(*broadcasts_)[std::string(collective.name)];
    }
    return inner_->Start(collective, lane);
  }
  absl::Status Finish(const Collective& collective, Lane* lane) override {
    return inner_->Finish(collective, lane);
  }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(std::move(why)); }

 private:
  const std::unique_ptr<Communicator> inner_;
  std::map<std::string, int>* const broadcasts_;
};

// One worker's model. Its initial values differ from those of other workers, as on a processor that
// rounds differently.
struct Model {
  explicit Model(int worker) {
    const Scope root(&graph);
    x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
    const Initializer initial = initializers::Constant(1 + worker);
    const Variable a = CreateVariable(root, "a", {2, 3}, initial);
    const Variable b = CreateVariable(root, "b", {3, 1}, initial);
    const Output y = ops::MatMul(root, ops::MatMul(root, x, a.value), b.value);
    const Output loss = ops::Mean(root, ops::Square(root, y), {0, 1});
    train = GradientDescent({.learning_rate = 0}).Minimize(root, loss);
  }
  absl::Status Train(Session& session) const {
    MF_ASSIGN_OR_RETURN(Step step, session.Prepare({x}, {}, {train}));
    for (int i = 0; i < 2; ++i) {
      MF_RETURN_IF_ERROR(step.Run({Tensor::Of<float>({2, 2}, {1, 2, 3, 4})}).status());
    }
    return absl::OkStatus();
  }

  Graph graph;
  Output x;
  Operation train;
};

class InitialValuesTest : public testing::TestWithParam<bool> {
 protected:
  InitialValuesTest() {
    for (int w = 0; w < kWorkers; ++w) models_.emplace_back(w);
  }
  // Restarts all workers with new sessions.
  void Start() {
    workers_ = nullptr;
    broadcasts_.clear();
    TestWorkersOptions options{.workers = kWorkers, .one_domain = GetParam()};
    options.change = [&](int, SessionOptions*, SessionBackend* backend) {
      backend->connect = [this, connect = backend->connect](
                             const Topology& topology, absl::Span<const int> ranks,
                             WorkerGroup* group, uint64_t incarnation, MonotonicTime deadline)
          -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
        MF_ASSIGN_OR_RETURN(auto communicators,
                            connect(topology, ranks, group, incarnation, deadline));
        for (auto& communicator : communicators) {
          if (communicator->rank() != 0) continue;
          communicator =
              std::make_unique<CountingCommunicator>(std::move(communicator), &broadcasts_);
        }
        return communicators;
      };
    };
    auto workers =
        TestWorkers::Create([&](int w) -> const Graph& { return models_[w].graph; }, options);
    ASSERT_TRUE(workers.ok()) << workers.status();
    workers_ = *std::move(workers);
  }
  absl::Status Train() {
    return workers_->OnAll([&](int w) { return models_[w].Train(workers_->session(w)); });
  }
  // Returns the first element of a variable on each worker.
  std::vector<float> Values(absl::string_view name) {
    std::vector<float> values;
    for (int w = 0; w < kWorkers; ++w) {
      values.push_back(workers_->session(w).ReadVariable(name)->flat<float>()[0]);
    }
    return values;
  }

  std::deque<Model> models_;
  std::map<std::string, int> broadcasts_;
  std::unique_ptr<TestWorkers> workers_;
};

INSTANTIATE_TEST_SUITE_P(, InitialValuesTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "OneDomain" : "DomainEach"; });

TEST_P(InitialValuesTest, FirstStepTakesEachVariableOnceFromRank0) {
  Start();
  EXPECT_THAT(broadcasts_, IsEmpty());
  ASSERT_EQ(Train(), absl::OkStatus());
  EXPECT_THAT(broadcasts_, UnorderedElementsAre(Pair("a", 1), Pair("b", 1)));
  EXPECT_THAT(Values("a"), Each(1));
  EXPECT_THAT(Values("b"), Each(1));
}

TEST_P(InitialValuesTest, CheckReplicasTakesInitialValues) {
  Start();
  EXPECT_EQ(workers_->OnAll([&](int w) { return workers_->session(w).CheckReplicas(); }),
            absl::OkStatus());
  EXPECT_THAT(broadcasts_, UnorderedElementsAre(Pair("a", 1), Pair("b", 1)));
}

TEST_P(InitialValuesTest, AssignedVariablesTakeNoInitialValues) {
  Start();
  const std::map<std::string, Tensor> values = {
      {"a", Tensor::Of<float>({2, 3}, {7, 7, 7, 7, 7, 7})}};
  ASSERT_EQ(workers_->OnAll([&](int w) { return workers_->session(w).AssignVariables(values); }),
            absl::OkStatus());
  ASSERT_EQ(Train(), absl::OkStatus());
  EXPECT_THAT(broadcasts_, UnorderedElementsAre(Pair("b", 1)));
  EXPECT_THAT(Values("a"), Each(7));
  EXPECT_THAT(Values("b"), Each(1));
}

TEST_P(InitialValuesTest, ResumedTrainingSendsEachVariableOnce) {
  const std::string directory = TemporaryPath("initial_values");
  std::filesystem::remove_all(directory);
  const auto run = [&](float expected) {
    return workers_->OnAll([&](int w) -> absl::Status {
      Session& session = workers_->session(w);
      MF_ASSIGN_OR_RETURN(const auto checkpoints,
                          CheckpointManager::Create(session, {.directory = directory}));
      MF_ASSIGN_OR_RETURN(const TrainingPosition start, checkpoints->Restore());
      MF_RETURN_IF_ERROR(models_[w].Train(session));
      for (const char* name : {"a", "b"}) {
        MF_ASSIGN_OR_RETURN(const Tensor value, session.ReadVariable(name));
        EXPECT_EQ(value.flat<float>()[0], expected);
      }
      MF_RETURN_IF_ERROR(
          session.AssignVariables({{"a", Tensor::Of<float>({2, 3}, {5, 5, 5, 5, 5, 5})},
                                   {"b", Tensor::Of<float>({3, 1}, {5, 5, 5})}}));
      MF_RETURN_IF_ERROR(checkpoints->Save({.step = start.step + 2}));
      return checkpoints->WaitForSave();
    });
  };
  for (const float expected : {1, 5}) {
    Start();
    ASSERT_EQ(run(expected), absl::OkStatus());
    EXPECT_THAT(broadcasts_, UnorderedElementsAre(Pair("a", 1), Pair("b", 1)));
  }
}

}  // namespace
}  // namespace mirrorflow
