// SPDX-License-Identifier: Apache-2.0
//
// Trains from images to a test accuracy, on a GPU and on the CPU. The dataset is read from
// $FASHION_MNIST_DIR, or from where Debian installs it. A part of the dataset is enough.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "mirrorflow_debug.h"
#include "tools/models/classifiers.h"

namespace mirrorflow {
namespace {

constexpr int64_t kBatch = 100;
constexpr int kMaxCpuReplicas = 8;

struct TrainingPlan {
  const char* model;
  int64_t epochs;
  double least_accuracy;  // below this, the model has learned nothing
};

absl::StatusOr<double> Accuracy(const Strategy& strategy, Step step, const Dataset& test) {
  DistributedDataset input = strategy.Distribute(test.Batch(1000));
  double right = 0, rows = 0;
  for (DistributedBatch batch; input.Next(&batch);) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(batch));
    const double count = static_cast<double>(batch.num_rows());
    right += out[0].scalar<float>() * count;
    rows += count;
  }
  MF_RETURN_IF_ERROR(input.status());
  return rows > 0 ? right / rows : 0;
}

// Returns the test accuracy of `plan` on these devices. Initial values and batches are the same
// on all devices.
absl::StatusOr<double> Train(const TrainingPlan& plan, const std::vector<std::string>& devices) {
  FashionMnist::Options data{.shape_images = std::string(plan.model) != "mlp"};
  MF_ASSIGN_OR_RETURN(const Dataset images, FashionMnist::Open(data));
  data.split = Split::kTest;
  MF_ASSIGN_OR_RETURN(const Dataset test, FashionMnist::Open(data));
  const Dataset batches = images.Shuffle(/*seed=*/1).Batch(kBatch);
  MF_RETURN_IF_ERROR(batches.status());

  MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create({.devices = devices, .seed = 1}));
  Graph graph;
  const Scope root(&graph);
  const auto mirrored = strategy->scope();
  MF_ASSIGN_OR_RETURN(const Classifier model, BuildClassifier(root, plan.model));
  // The learning rate ends near 0, because at a constant rate the last steps account for about a
  // percent of accuracy.
  const LearningRate rate =
      schedules::OneCycle({.max_learning_rate = 0.03,
                           .total_steps = plan.epochs * batches.size().value(),
                           .div_factor = 1000});
  const Operation train = Momentum({.learning_rate = rate}).Minimize(root, model.loss);
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step,
                      session->Prepare({model.images, model.labels}, {model.loss}, {train}));
  for (int64_t epoch = 0; epoch < plan.epochs; ++epoch) {
    DistributedDataset input = strategy->Distribute(batches, epoch);
    for (DistributedBatch batch; input.Next(&batch);) {
      MF_RETURN_IF_ERROR(step.Run(batch).status());
    }
    MF_RETURN_IF_ERROR(input.status());
  }
  MF_ASSIGN_OR_RETURN(const Step tested,
                      session->Prepare({model.images, model.labels}, {model.accuracy}));
  return Accuracy(*strategy, tested, test);
}

class FashionMnistTraining : public ::testing::TestWithParam<TrainingPlan> {};

TEST_P(FashionMnistTraining, ReachesAccuracyOfCpu) {
  // Rounding errors grow from step to step: runs with two different numbers of CPU replicas
  // differed by up to 0.005.
  constexpr double kTolerance = 0.015;
  std::vector<std::string> cpus;
  for (int i = 0; i < std::min(NumUsableCores(), kMaxCpuReplicas); ++i) {
    cpus.push_back("CPU:" + std::to_string(i));
  }
  const auto gpu = Train(GetParam(), {"GPU:0"});
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  const auto cpu = Train(GetParam(), cpus);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  RecordProperty("accuracy_gpu", std::to_string(*gpu));
  RecordProperty("accuracy_cpu", std::to_string(*cpu));
  EXPECT_GE(*cpu, GetParam().least_accuracy);
  EXPECT_NEAR(*gpu, *cpu, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Models, FashionMnistTraining,
                         ::testing::Values(TrainingPlan{"mlp", 3, 0.78},
                                           TrainingPlan{"cnn", 2, 0.78}),
                         [](const auto& info) { return info.param.model; });

}  // namespace
}  // namespace mirrorflow
