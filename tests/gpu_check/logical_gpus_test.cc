// SPDX-License-Identifier: Apache-2.0
//
// Compares random programs on logical GPUs with the reference interpreter, and training on logical
// GPUs with training on the CPU.
#include "tests/support/logical_gpus.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/classifier_training.h"
#include "tests/support/compare_with_reference.h"
#include "tests/support/random_graph.h"

namespace mirrorflow {
namespace {

class LogicalGpus : public ::testing::TestWithParam<int> {};

TEST_P(LogicalGpus, RandomProgramsMatchReferenceInterpreter) {
  constexpr uint64_t kPrograms = 15;
  const int replicas = GetParam();
  const uint64_t first = 1000 * static_cast<uint64_t>(replicas);
  for (uint64_t seed = first; seed < first + kPrograms; ++seed) {
    const auto program = MakeRandomProgram(seed, {.num_ops = 4 + static_cast<int>(seed % 12)});
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    ProgramSetting setting;
    setting.session.replicas = replicas;
    setting.session.set_backend = SetLogicalGpus;
    setting.session.session.bucket_bytes = seed % 2 == 0 ? 64 : 1 << 20;
    const auto difference = CompareWithReference(*program, setting);
    ASSERT_TRUE(difference.ok()) << "seed " << seed << ": " << difference.status();
    EXPECT_EQ(*difference, "") << "seed " << seed;
  }
  RecordProperty("programs", static_cast<int>(kPrograms));
}

INSTANTIATE_TEST_SUITE_P(Counts, LogicalGpus, ::testing::Values(1, 2, 4));

class StrategyEquality : public ::testing::TestWithParam<const char*> {};

// Returns the losses of steps on these devices. An error fails the test and returns no losses.
std::vector<float> Losses(absl::string_view model, const std::vector<std::string>& devices) {
  constexpr int kSteps = 5;
  const std::vector<Tensor> batch = ClassifierBatch(model, 13);  // does not divide evenly
  const auto training = MakeClassifierTraining(model, devices);
  EXPECT_TRUE(training.ok()) << training.status();
  std::vector<float> losses;
  for (int i = 0; training.ok() && i < kSteps; ++i) {
    const auto loss = RunStep(**training, batch);
    EXPECT_TRUE(loss.ok()) << loss.status();
    if (!loss.ok()) return {};
    losses.push_back(*loss);
  }
  return losses;
}

TEST_P(StrategyEquality, LossesOnLogicalGpusMatchCpu) {
  // Products are summed in a different order. cuDNN may compute convolutions with Winograd
  // transforms, whose rounding errors are about ten times as large (Lavin and Gray, "Fast
  // algorithms for convolutional neural networks").
  const double tolerance = absl::string_view(GetParam()) == "mlp" ? 1e-4 : 1e-3;
  const std::vector<float> want = Losses(GetParam(), {"CPU:0"});
  ASSERT_FALSE(want.empty());
  EXPECT_LT(want.back(), want.front());
  double worst = 0;
  for (const int replicas : {1, 2, 4}) {
    const std::vector<float> got = Losses(GetParam(), std::vector<std::string>(replicas, "GPU:0"));
    ASSERT_EQ(got.size(), want.size()) << replicas;
    for (size_t i = 0; i < got.size(); ++i) {
      const double difference = std::abs(got[i] - want[i]) / want[i];
      EXPECT_LE(difference, tolerance) << "step " << i << " on " << replicas;
      worst = std::max(worst, difference);
    }
  }
  RecordProperty("largest_relative_difference", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Models, StrategyEquality, ::testing::Values("mlp", "cnn", "resnet"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mirrorflow
