// SPDX-License-Identifier: Apache-2.0
//
// A warm step allocates no memory, causes no page fault and takes no lock. The counters cover the
// whole process, so this test must be the only one in its process.
#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "tools/bench/hot_path_counter.h"
#include "tools/models/classifiers.h"

namespace mirrorflow {
namespace {

constexpr int kWarmUp = 3;
constexpr int kSteps = 20;
constexpr int kRounds = 3;

class HotPath : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(HotPath, WarmStepAllocatesNothingFaultsNoPageAndTakesNoLock) {
  const auto& [name, replicas] = GetParam();
  auto strategy = MirroredStrategy::Create({.num_cpu_replicas = replicas}).value();
  Graph graph;
  Scope root(&graph);
  Classifier model;
  Operation train;
  {
    auto mirrored = strategy->scope();
    model = BuildClassifier(root, name).value();
    train = Adam({}).Minimize(root, model.loss, {.global_clipnorm = 1});
  }
  auto session = strategy->NewSession(graph).value();
  Step step = session->Prepare({model.images, model.labels}, {model.loss}, {train}).value();
  const std::vector<int64_t> sizes =
      name == "mlp" ? std::vector<int64_t>{31, 784} : std::vector<int64_t>{31, 28, 28, 1};
  Tensor images = Tensor::Allocate(DT_FLOAT, Shape(sizes)).value();
  Tensor labels = Tensor::Allocate(DT_INT32, Shape({31})).value();
  int i = 0;
  for (float& x : images.flat<float>()) x = static_cast<float>(i++ % 17) / 17;
  for (int32_t& y : labels.flat<int32_t>()) y = i++ % 10;
  const std::vector<Tensor> feeds = {images, labels};

  for (int s = 0; s < kWarmUp; ++s) ASSERT_TRUE(step.Run(feeds).ok());
  int64_t least_page_faults = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < kRounds; ++round) {
    const HotPathCounts before = CountHotPath();
    bool ok = true;
    for (int s = 0; s < kSteps; ++s) ok = step.Run(feeds).ok() && ok;
    const HotPathCounts spent = CountHotPath() - before;
    EXPECT_TRUE(ok);
    // oneDNN allocates small objects in each primitive call, and its API offers no way around it.
    EXPECT_EQ(spent.allocations, spent.onednn_allocations);
    // Without AVX-512, oneDNN's matrix products look up their code under a lock.
    EXPECT_EQ(spent.locks, spent.onednn_locks);
    least_page_faults = std::min(least_page_faults, spent.page_faults);
  }
  // The first sleep of a replica can fault in a page of code, so only the best round counts.
  EXPECT_EQ(least_page_faults, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, HotPath,
                         testing::Combine(testing::Values("mlp", "cnn", "resnet"),
                                          testing::Values(1, 2, 3)));

TEST(HotPathCounter, CountsAllocationsLocksAndPageFaults) {
  constexpr int64_t kBytes = 1 << 22;
  std::mutex mutex;
  const HotPathCounts before = CountHotPath();
  {
    std::lock_guard<std::mutex> lock(mutex);
    const std::vector<char> pages(kBytes, 1);
    EXPECT_EQ(pages.back(), 1);
  }
  const HotPathCounts spent = CountHotPath() - before;
  EXPECT_EQ(spent.allocations, 1);
  EXPECT_EQ(spent.onednn_allocations, 0);
  EXPECT_EQ(spent.locks, 1);
  EXPECT_EQ(spent.onednn_locks, 0);
  EXPECT_GE(spent.page_faults, 1);
}

}  // namespace
}  // namespace mirrorflow
