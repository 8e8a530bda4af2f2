// SPDX-License-Identifier: Apache-2.0
//
// Tests gradient accumulation and loss scaling.
#include "train/optimizers/gradient_accumulation.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;

// Counts one rank's collectives.
class CountingCommunicator final : public Communicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> inner, int* count)
      : inner_(std::move(inner)), count_(count) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status Start(const Collective& collective, Lane* lane) override {
    ++*count_;
    return inner_->Start(collective, lane);
  }
  absl::Status Finish(const Collective& collective, Lane* lane) override {
    return inner_->Finish(collective, lane);
  }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(std::move(why)); }

 private:
  const std::unique_ptr<Communicator> inner_;
  int* const count_;
};

// A linear regression from x [rows,3] to y [rows,2].
struct Regression {
  absl::Status Make(const Optimizer& optimizer, const MinimizeOptions& options,
                    const TestSessionOptions& session_options = {}) {
    const Scope s(&graph);
    x = ops::Placeholder(s.WithName("x"), DT_FLOAT, {-1, 3});
    y = ops::Placeholder(s.WithName("y"), DT_FLOAT, {-1, 2});
    auto start = [](const Scope& in, const Shape& shape, DataType) {
      Random random(shape.num_elements());
      return ops::Const(in, RandomTensor(DT_FLOAT, shape, &random));
    };
    const Variable w = CreateVariable(s, "w", {3, 2}, start);
    const Variable b = CreateVariable(s, "b", {2}, start);
    const Output prediction = ops::BiasAdd(s, ops::MatMul(s, x, w.value), b.value);
    const Output loss = losses::MeanSquaredError(s, prediction, y);
    const Operation train = optimizer.Minimize(s, loss, options);
    MF_ASSIGN_OR_RETURN(session, CreateTestSession(graph, session_options));
    MF_ASSIGN_OR_RETURN(step, session->Prepare({x, y}, {}, {train}));
    return absl::OkStatus();
  }
  void Run(const std::vector<Tensor>& batch) {
    const auto result = step.Run(batch);
    EXPECT_TRUE(result.ok()) << result.status();
  }
  Tensor Value(absl::string_view name) const { return *session->ReadVariable(name); }

  Graph graph;
  Output x, y;
  std::unique_ptr<Session> session;
  Step step;
};

std::vector<Tensor> RandomBatch(int64_t rows, uint64_t seed) {
  Random random(seed);
  return {RandomTensor(DT_FLOAT, Shape({rows, 3}), &random),
          RandomTensor(DT_FLOAT, Shape({rows, 2}), &random)};
}

std::vector<Tensor> Joined(const std::vector<std::vector<Tensor>>& batches) {
  std::vector<Tensor> xs, ys;
  for (const auto& batch : batches) {
    xs.push_back(batch[0]);
    ys.push_back(batch[1]);
  }
  return {ConcatenateAlong(xs, 0), ConcatenateAlong(ys, 0)};
}

void ExpectEqualVariables(const Regression& want, const Regression& got) {
  for (const char* name : {"w", "b"}) {
    EXPECT_EQ(Difference(want.Value(name), got.Value(name), {.relative = 1e-5, .absolute = 1e-6}),
              "")
        << name;
  }
}

// Runs each test on one device, on replicas that share one copy of the variables, and on devices
// with their own copies.
class AccumulationTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  TestSessionOptions Devices() const {
    return {.replicas = std::get<0>(GetParam()), .queued = std::get<1>(GetParam())};
  }
};
INSTANTIATE_TEST_SUITE_P(Replicas, AccumulationTest,
                         ::testing::Values(std::tuple(1, false), std::tuple(3, false),
                                           std::tuple(3, true)));

TEST_P(AccumulationTest, AccumulationEqualsOneBatchOfAllRows) {
  const std::pair<std::shared_ptr<Optimizer>, MinimizeOptions> cases[] = {
      {std::make_shared<Momentum>(Momentum::Options{0.3}), {}},
      {std::make_shared<Adam>(Adam::Options{0.1}), {.global_clipnorm = 0.5, .weight_decay = 0.1}},
      {std::make_shared<Nadam>(Nadam::Options{0.1}), {.use_ema = true}},
  };
  for (const auto& [optimizer, options] : cases) {
    Regression whole, parts;
    ASSERT_TRUE(whole.Make(*optimizer, options).ok());
    MinimizeOptions accumulating = options;
    accumulating.accumulate_steps = 3;
    const absl::Status made = parts.Make(*optimizer, accumulating, Devices());
    ASSERT_TRUE(made.ok()) << made;
    for (uint64_t window = 0; window < 3; ++window) {
      const std::vector<std::vector<Tensor>> batches = {RandomBatch(4, 10 * window + 1),
                                                        RandomBatch(1, 10 * window + 2),
                                                        RandomBatch(8, 10 * window + 3)};
      const Tensor before = parts.Value("w");
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(Tensor::Identical(before, parts.Value("w")));
        parts.Run(batches[i]);
      }
      whole.Run(Joined(batches));
      ExpectEqualVariables(whole, parts);
      EXPECT_FALSE(Tensor::Identical(before, parts.Value("w")));
    }
  }
}

TEST_P(AccumulationTest, NonFiniteLossInOneStepDropsTheWindow) {
  Regression clean, dropped;
  const MinimizeOptions options = {.accumulate_steps = 2};
  ASSERT_TRUE(clean.Make(Adam({0.1}), options, Devices()).ok());
  ASSERT_TRUE(dropped.Make(Adam({0.1}), options, Devices()).ok());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e30f}) {
    const Tensor before = dropped.Value("w");
    std::vector<Tensor> batch = RandomBatch(4, 1);
    batch[1].data<float>()[5] = bad;
    dropped.Run(batch);
    dropped.Run(RandomBatch(4, 2));
    EXPECT_TRUE(Tensor::Identical(before, dropped.Value("w")));
    for (const uint64_t seed : {3, 4}) {
      clean.Run(RandomBatch(4, seed));
      dropped.Run(RandomBatch(4, seed));
    }
    ExpectEqualVariables(clean, dropped);
  }
}

TEST(AccumulationCollectives, OnlyTheLastStepCommunicates) {
  int counts[3] = {};
  const TestSessionOptions devices = {
      .replicas = 3, .queued = true, .wrap_communicator = [&](std::unique_ptr<Communicator> c) {
        int* const count = &counts[c->rank()];
        return std::make_unique<CountingCommunicator>(std::move(c), count);
      }};
  Regression regression;
  const absl::Status made = regression.Make(Adam({0.1}), {.accumulate_steps = 3}, devices);
  ASSERT_TRUE(made.ok()) << made;
  for (int window = 0; window < 2; ++window) {
    for (int i = 0; i < 3; ++i) {
      for (int& count : counts) count = 0;
      regression.Run(RandomBatch(5, i));
      if (i < 2) {
        EXPECT_THAT(counts, ElementsAre(0, 0, 0)) << "step " << i;
      } else {
        EXPECT_THAT(counts, ElementsAre(Gt(0), Gt(0), Gt(0)));
      }
    }
  }
}

TEST(AccumulationWeight, GivenWeightReplacesTheNumberOfRows) {
  Graph graph;
  const Scope s(&graph);
  const Variable w = CreateVariable(s, "w", {}, initializers::Zeros());
  const Output x = ops::Placeholder(s.WithName("x"), DT_FLOAT, Shape());
  const Output tokens = ops::Placeholder(s.WithName("tokens"), DT_INT32, Shape());
  const Operation train = SGD({.learning_rate = 1})
                              .Minimize(s, ops::Mul(s, x, w.value),
                                        {.accumulate_steps = 2, .accumulate_weight = tokens});
  const auto session = CreateTestSession(graph, {});
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({x, tokens}, {}, {train}).value();
  ASSERT_TRUE(step.Run({Tensor::Scalar<float>(8), Tensor::Scalar<int32_t>(1)}).ok());
  ASSERT_TRUE(step.Run({Tensor::Scalar<float>(4), Tensor::Scalar<int32_t>(3)}).ok());
  EXPECT_EQ((*session)->ReadVariable("w")->scalar<float>(), -5);  // -(8 + 3 * 4) / 4
}

TEST(AccumulationOptions, OptionsOutOfRangeAreRejected) {
  const std::pair<MinimizeOptions, const char*> cases[] = {
      {{.accumulate_steps = 0}, "minimize: accumulate_steps:"},
      {{.reduce = hooks::AllReduce(), .accumulate_steps = 2}, "minimize: accumulate_steps cannot "},
      {{.loss_scale = LossScaleOptions{.initial_scale = 0}},
       "minimize: loss_scale: initial_scale: expected above 0, got 0"},
  };
  for (const auto& [options, message] : cases) {
    Regression regression;
    const absl::Status status = regression.Make(SGD(), options);
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, message));
  }
}

// A scalar variable w, which starts at 1, and the loss factor * Σ x * half(w), computed in half
// precision.
struct HalfLine {
  absl::Status Make(const Optimizer& optimizer, const MinimizeOptions& options, double factor,
                    int replicas = 1) {
    const Scope s(&graph);
    x = ops::Placeholder(s.WithName("x"), DT_HALF, {-1});
    const Variable w = CreateVariable(s, "w", {}, initializers::Ones());
    const Output products = ops::Mul(s, x, ops::Cast(s, w.value, DT_HALF));
    const Output sum = ops::Sum(s, ops::Cast(s, products, DT_FLOAT), {0});
    const Output loss = ops::Mul(s, sum, ops::ScalarConst(s, DT_FLOAT, factor));
    const Operation train = optimizer.Minimize(s, loss, options);
    MF_ASSIGN_OR_RETURN(session, CreateTestSession(graph, {.replicas = replicas}));
    MF_ASSIGN_OR_RETURN(step, session->Prepare({x}, {}, {train}));
    return absl::OkStatus();
  }
  // Runs a step on half-precision inputs with these bits.
  void Run(const std::vector<uint16_t>& bits) {
    Tensor batch = Tensor::Allocate(DT_HALF, Shape({static_cast<int64_t>(bits.size())})).value();
    std::copy(bits.begin(), bits.end(), reinterpret_cast<uint16_t*>(batch.raw()));
    const auto result = step.Run({batch});
    EXPECT_TRUE(result.ok()) << result.status();
  }
  float w() const { return session->ReadVariable("w")->scalar<float>(); }
  float scale() const { return session->ReadVariable("loss_scale/dynamic_scale")->scalar<float>(); }

  Graph graph;
  Output x;
  std::unique_ptr<Session> session;
  Step step;
};

constexpr uint16_t kOne = 0x3c00, kLarge = 0x7bff;  // 65504, the largest half

class LossScaleTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Replicas, LossScaleTest, ::testing::Values(1, 2));

TEST_P(LossScaleTest, KeepsGradientsThatHalfCannotRepresent) {
  for (const bool scaled : {false, true}) {
    HalfLine line;
    MinimizeOptions options;
    if (scaled) options.loss_scale.emplace();
    ASSERT_TRUE(line.Make(SGD({.learning_rate = 1e8}), options, 1e-9, GetParam()).ok());
    line.Run({kOne, kOne});
    EXPECT_NEAR(line.w(), scaled ? 0.8 : 1, 1e-3);
  }
}

TEST_P(LossScaleTest, ScaleGrowsAfterFiniteStepsAndHalvesAfterANonFiniteOne) {
  HalfLine line;
  const MinimizeOptions options = {
      .loss_scale = LossScaleOptions{.initial_scale = 4, .dynamic_growth_steps = 3}};
  ASSERT_TRUE(line.Make(Momentum({.learning_rate = 0.125}), options, 1, GetParam()).ok());
  for (const float want : {4, 4, 8, 8, 8}) {
    line.Run({0, 0});
    EXPECT_EQ(line.scale(), want);
  }
  // The loss is finite, but the half-precision gradient is not.
  line.Run({kLarge, 0});
  EXPECT_EQ(line.w(), 1);
  EXPECT_EQ(line.session->ReadVariable("train/w/momentum")->scalar<float>(), 0);
  for (const float want : {4, 4, 8}) {
    line.Run({0, kOne});
    EXPECT_EQ(line.scale(), want);
  }
}

TEST(LossScaleAccumulation, ScaleAdaptsOnlyInTheLastStep) {
  HalfLine line;
  const MinimizeOptions options = {
      .accumulate_steps = 2,
      .loss_scale = LossScaleOptions{.initial_scale = 4, .dynamic_growth_steps = 1}};
  ASSERT_TRUE(line.Make(SGD({.learning_rate = 0.25}), options, 1).ok());
  line.Run({kOne});
  EXPECT_EQ(line.scale(), 4);
  EXPECT_EQ(line.w(), 1);
  line.Run({kOne});
  EXPECT_EQ(line.scale(), 8);
  EXPECT_EQ(line.w(), 0.75);
  line.Run({kLarge});
  line.Run({kOne});
  EXPECT_EQ(line.scale(), 4);
  EXPECT_EQ(line.w(), 0.75);
}

}  // namespace
}  // namespace mirrorflow
