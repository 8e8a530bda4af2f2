// SPDX-License-Identifier: Apache-2.0
//
// The results of training and inference do not depend on the number of threads per replica, to the
// last bit. There are more threads than cores, so the operating system interrupts them at any time.
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "gtest/gtest.h"
#include "tools/bench/training_case.h"

namespace mirrorflow {
namespace {

constexpr int kThreads[] = {2, 3, 4, 8};

// Returns the losses and the trained variables.
absl::StatusOr<std::vector<Tensor>> Train(const TrainingCase& training) {
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training));
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds));
    results.push_back(out[0]);
  }
  for (const VariableInfo& variable : t.session->layout().variables()) {
    MF_ASSIGN_OR_RETURN(results.emplace_back(), t.session->ReadVariable(variable.name));
  }
  return results;
}

// Returns the logits of `rows` examples.
absl::StatusOr<std::vector<Tensor>> Predict(const std::string& model, int64_t rows, int threads) {
  MF_ASSIGN_OR_RETURN(
      const auto strategy,
      OneDeviceStrategy::Create({.threads_per_replica = threads, .compile = {.check_plan = true}}));
  MF_ASSIGN_OR_RETURN(const TrainingGraph g, BuildTraining(*strategy, model));
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, NoiseBatch(g, rows));
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({g.inputs}, {g.logits}));
  MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({batch[0]}));
  return std::vector<Tensor>{out[0]};
}

// Checks that run(threads) returns the same bits for all numbers of threads.
template <typename Run>
void ExpectEqualBits(const Run run) {
  const absl::StatusOr<std::vector<Tensor>> one = run(1);
  ASSERT_TRUE(one.ok()) << one.status();
  for (const int threads : kThreads) {
    const absl::StatusOr<std::vector<Tensor>> several = run(threads);
    ASSERT_TRUE(several.ok()) << threads << " threads: " << several.status();
    ASSERT_EQ(several->size(), one->size());
    for (size_t i = 0; i < one->size(); ++i) {
      EXPECT_TRUE(Tensor::Identical((*one)[i], (*several)[i]))
          << threads << " threads, result " << i;
    }
  }
}

struct Case {
  std::string model;
  int64_t batch_size;
};

class ThreadsPerReplicaTest : public testing::TestWithParam<Case> {};

TEST_P(ThreadsPerReplicaTest, TrainingGivesEqualBits) {
  const auto& [model, batch_size] = GetParam();
  ExpectEqualBits([&](int threads) {
    return Train({.model = model, .batch_size = batch_size, .threads_per_replica = threads});
  });
}

INSTANTIATE_TEST_SUITE_P(Models, ThreadsPerReplicaTest,
                         testing::Values(Case{"mlp", 64}, Case{"mlp", 7}, Case{"cnn", 16},
                                         Case{"resnet", 4}, Case{"lstm", 2},
                                         Case{"transformer", 2}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.model + std::to_string(info.param.batch_size);
                         });

class ThreadsPerPredictionTest : public testing::TestWithParam<Case> {};

TEST_P(ThreadsPerPredictionTest, InferenceGivesEqualBits) {
  const auto& [model, rows] = GetParam();
  ExpectEqualBits([&](int threads) { return Predict(model, rows, threads); });
}

INSTANTIATE_TEST_SUITE_P(Models, ThreadsPerPredictionTest,
                         testing::Values(Case{"mlp", 1}, Case{"cnn", 1}, Case{"cnn", 5},
                                         Case{"resnet", 1}, Case{"resnet50_64", 1},
                                         Case{"transformer", 1}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.model + std::to_string(info.param.batch_size);
                         });

TEST(ThreadsPerReplica, ReplicasHaveThreadsOfTheirOwn) {
  ExpectEqualBits([&](int threads) {
    return Train({.model = "mlp", .batch_size = 16, .replicas = 2, .threads_per_replica = threads});
  });
}

}  // namespace
}  // namespace mirrorflow
