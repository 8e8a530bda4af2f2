// SPDX-License-Identifier: Apache-2.0
//
// Checks that steps compute the same results whether or not they run as CUDA graphs. A step runs as
// graphs from its second run onwards.
#include <memory>
#include <string>
#include <vector>

#include "distribute/strategy/strategy.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "tests/support/classifier_training.h"
#include "tools/models/classifiers.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

constexpr int kSteps = 4;  // compiled, captured, and launched twice

// Returns the losses of training under a strategy of class S.
template <typename S>
absl::StatusOr<std::vector<float>> Losses(const typename S::Options& options,
                                          absl::string_view model) {
  MF_ASSIGN_OR_RETURN(const auto strategy, S::Create(options));
  Graph graph;
  const Scope root(&graph);
  const auto created = strategy->scope();
  MF_ASSIGN_OR_RETURN(const Classifier classifier, BuildClassifier(root, model));
  const Operation train = Momentum({.learning_rate = 0.05}).Minimize(root, classifier.loss);
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({classifier.images, classifier.labels},
                                                  {classifier.loss}, {train}));
  const std::vector<Tensor> batch = ClassifierBatch(model, 6);
  std::vector<float> losses;
  for (int i = 0; i < kSteps; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(batch));
    losses.push_back(out[0].scalar<float>());
  }
  return losses;
}

template <typename S>
void ExpectEqualLosses(typename S::Options options, absl::string_view model) {
  options.capture_steps = false;
  const auto want = Losses<S>(options, model);
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_LT(want->back(), want->front());
  options.capture_steps = true;
  const int64_t launches = ActivityOfSteps().graph_launches;
  const auto got = Losses<S>(options, model);
  ASSERT_TRUE(got.ok()) << got.status();
  // Without this check, a step that cannot be captured would run without graphs unnoticed.
  EXPECT_GE(ActivityOfSteps().graph_launches, launches + kSteps - 1);
  EXPECT_EQ(*got, *want);  // bit for bit
}

class GraphCapture : public ::testing::TestWithParam<const char*> {};

TEST_P(GraphCapture, KeepsLossesOfOneDeviceBitForBit) {
  ExpectEqualLosses<OneDeviceStrategy>({.device = "GPU:0", .seed = 5}, GetParam());
}

TEST_P(GraphCapture, KeepsLossesOfMirroredStrategyBitForBit) {
  ExpectEqualLosses<MirroredStrategy>({.devices = {"GPU:0"}, .seed = 5}, GetParam());
}

// Each graph covers the work between two collectives.
TEST_P(GraphCapture, KeepsLossesOfTwoLogicalGpusBitForBit) {
  ExpectEqualLosses<MirroredStrategy>({.devices = {"GPU:0", "GPU:0"}, .seed = 5}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Models, GraphCapture, ::testing::Values("mlp", "cnn"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mirrorflow
