// SPDX-License-Identifier: Apache-2.0
//
// Tests forms of variables and constants: each is made once, is never stale, and is freed with the
// last step that uses it. A result is compared with that of a step that is fed the variable's
// value, which computes the same bits without forms.
#include "framework/runtime/forms.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/session/session_options.h"
#include "framework/session/step_plans.h"
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

const Shape kImages({2, 8, 8, 16});
constexpr int64_t kFilterChannels = 128;  // more than a block of oneDNN
const Shape kFilter({3, 3, 16, kFilterChannels});
const std::vector<int64_t> kStrides = {1, 1, 1, 1};

std::string BytesOf(const Tensor& t) {
  return std::string(reinterpret_cast<const char*>(t.raw()), t.bytes());
}

class FormsTest : public testing::TestWithParam<int> {  // the number of replicas
 protected:
  FormsTest() {
    images_ = ops::Placeholder(root_, DT_FLOAT, {-1, 8, 8, 16});
    filter_ = CreateVariable(root_, "filter", kFilter, initializers::GlorotUniform());
    result_ = ops::Conv2D(root_, images_, filter_.value, kStrides, "SAME");
    fed_filter_ = ops::Placeholder(root_, DT_FLOAT, kFilter);
    expected_ = ops::Conv2D(root_, images_, fed_filter_, kStrides, "SAME");
    double_ = ops::AssignAddVariableOp(root_, filter_.handle, filter_.value);
  }
  void SetUp() override { CreateSession({}); }
  void CreateSession(const SessionOptions& session_options) {
    TestSessionOptions options{.replicas = GetParam(), .session = session_options};
    options.session.compile.kernels.allow_winograd = false;  // it rounds differently from expected_
    auto session = CreateTestSession(graph_, options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    Random random(1);
    input_ = RandomTensor(DT_FLOAT, kImages, &random);
  }

  Tensor RandomFilter(uint64_t seed) {
    Random random(seed);
    return RandomTensor(DT_FLOAT, kFilter, &random);
  }
  Tensor Evaluate(const Tensor& images) {
    return session_->Run({{images_, images}}, {result_}).value()[0];
  }
  Tensor ExpectedFor(const Tensor& images) {
    const Tensor filter = session_->ReadVariable("filter").value();
    return session_->Run({{images_, images}, {fed_filter_, filter}}, {expected_}).value()[0];
  }

  // Every replica has its own copy of the filter, because `double_` writes it.
  static int num_copies() { return GetParam(); }
  void ExpectCurrent(const Tensor& images) {
    EXPECT_TRUE(BytesOf(Evaluate(images)) == BytesOf(ExpectedFor(images)));
  }

  Graph graph_;
  Scope root_{&graph_};
  Output images_, result_, fed_filter_, expected_;
  Variable filter_;
  Operation double_;
  std::unique_ptr<Session> session_;
  Tensor input_;
};
INSTANTIATE_TEST_SUITE_P(, FormsTest, testing::Values(1, 2),
                         [](const auto& info) { return absl::StrCat(info.param, "Replicas"); });

TEST_P(FormsTest, FormIsMadeOnceForAllRuns) {
  for (int i = 0; i < 5; ++i) ExpectCurrent(input_);
  EXPECT_EQ(session_->forms().num_made(), num_copies());
  EXPECT_GE(session_->forms().bytes(), kFilter.num_elements() * 4);
}

TEST_P(FormsTest, AssignedVariableIsReadInNewForm) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    ASSERT_EQ(session_->AssignVariable("filter", RandomFilter(seed)), absl::OkStatus());
    ExpectCurrent(input_);
  }
  EXPECT_EQ(session_->forms().num_made(), 3 * num_copies());
}

TEST_P(FormsTest, VariableThatStepWroteIsReadInNewForm) {
  ExpectCurrent(input_);
  ASSERT_TRUE(session_->Run({}, {}, {double_}).ok());
  ExpectCurrent(input_);
}

TEST_P(FormsTest, StepThatWritesVariableReadsItWithoutForm) {
  ASSERT_EQ(session_->AssignVariable("filter", RandomFilter(1)), absl::OkStatus());
  const std::string expected = BytesOf(ExpectedFor(input_));
  const auto got = session_->Run({{images_, input_}}, {result_}, {double_});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(BytesOf((*got)[0]) == expected);
  EXPECT_EQ(session_->forms().num_made(), 0);
}

TEST_P(FormsTest, FormIsFreedWithItsLastStep) {
  SessionOptions options;
  options.max_cached_steps = 2;
  CreateSession(options);
  Evaluate(input_);
  ASSERT_GT(session_->forms().bytes(), 0);
  // Two other steps take the cache's two places.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(session_->Run({}, {}, {double_}).ok());
  ExpectedFor(input_);
  ASSERT_TRUE(session_->Run({}, {}, {double_}).ok());
  EXPECT_EQ(session_->forms().bytes(), 0);
  ExpectCurrent(input_);
}

// A server runs one step with batches of many sizes.
TEST_P(FormsTest, BatchSizesShareForms) {
  constexpr int64_t kUnits = 128;
  const Shape weights({64, kUnits});
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1, 64});
  const Variable w = CreateVariable(root_, "w", weights, initializers::GlorotUniform());
  const Output y = ops::MatMul(root_, x, w.value);
  const Output fed_w = ops::Placeholder(root_, DT_FLOAT, weights);
  const Output expected = ops::MatMul(root_, x, fed_w);
  CreateSession({});
  const Tensor value = session_->ReadVariable("w").value();
  Random random(7);
  for (int64_t rows = 1; rows <= 40; ++rows) {
    const Tensor in = RandomTensor(DT_FLOAT, {rows, 64}, &random);
    const auto got = session_->Run({{x, in}}, {y});
    ASSERT_TRUE(got.ok()) << got.status();
    const auto want = session_->Run({{x, in}, {fed_w, value}}, {expected});
    ASSERT_TRUE(want.ok()) << want.status();
    for (int64_t i = 0; i < rows * kUnits; ++i) {
      ASSERT_NEAR((*got)[0].data<float>()[i], (*want)[0].data<float>()[i], 1e-4);
    }
  }
  EXPECT_LE(session_->forms().num_made(), 4);
}

// The CPU computes this gradient as a matrix product.
TEST_P(FormsTest, GradientOfImagesIsComputedFromForm) {
  const Shape weights({1, 1, 512, 512}), images({2, 4, 4, 512});
  const Output sizes = ops::VectorConst(root_, images.dims());
  const Output dy = ops::Placeholder(root_, DT_FLOAT, {-1, 4, 4, 512});
  const Variable w = CreateVariable(root_, "w", weights, initializers::GlorotUniform());
  const Output fed_w = ops::Placeholder(root_, DT_FLOAT, weights);
  const Output result = ops::Conv2DBackpropInput(root_, sizes, w.value, dy, kStrides, "SAME");
  const Output expected = ops::Conv2DBackpropInput(root_, sizes, fed_w, dy, kStrides, "SAME");
  CreateSession({});
  Random random(8);
  const Tensor in = RandomTensor(DT_FLOAT, images, &random);
  for (int i = 0; i < 2; ++i) {
    const Tensor value = RandomTensor(DT_FLOAT, weights, &random);
    ASSERT_EQ(session_->AssignVariable("w", value), absl::OkStatus());
    const auto got = session_->Run({{dy, in}}, {result});
    ASSERT_TRUE(got.ok()) << got.status();
    const auto want = session_->Run({{dy, in}, {fed_w, value}}, {expected});
    ASSERT_TRUE(want.ok()) << want.status();
    for (int64_t k = 0; k < images.num_elements(); ++k) {
      ASSERT_NEAR((*got)[0].data<float>()[k], (*want)[0].data<float>()[k], 1e-3);
    }
  }
  EXPECT_GT(session_->forms().num_made(), 0);
}

// With mixed precision, inference steps read bfloat16 copies of the weights, which take half the
// memory.
TEST_P(FormsTest, WeightsAreConvertedToBfloat16OncePerWrite) {
  const Shape weights({64, 128});
  const Output x = ops::Placeholder(root_, DT_FLOAT, {-1, 64});
  const Variable w = CreateVariable(root_, "w", weights, initializers::GlorotUniform());
  const Output y = ops::MatMul(root_, x, w.value);
  const Output fed_w = ops::Placeholder(root_, DT_FLOAT, weights);
  const Output expected = ops::MatMul(root_, x, fed_w);
  TestSessionOptions options{.replicas = GetParam()};
  options.session.compile.compute_dtype = DT_BFLOAT16;
  auto session = CreateTestSession(graph_, options);
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare({x}, {y});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto plans = CompileStep(*step, {Shape({4, 64})});
  ASSERT_TRUE(plans.ok()) << plans.status();
  const Plan& plan = *plans->plans[0];
  ASSERT_EQ(plan.forms.size(), 1) << plan.ToString();
  EXPECT_THAT(plan.forms[0].name, testing::HasSubstr("Cast"));
  EXPECT_EQ(plan.forms[0].bytes, 2 * weights.num_elements());
  Random random(9);
  const Tensor in = RandomTensor(DT_FLOAT, {4, 64}, &random);
  for (int write = 1; write <= 3; ++write) {
    const Tensor value = RandomTensor(DT_FLOAT, weights, &random);
    ASSERT_EQ((*session)->AssignVariable("w", value), absl::OkStatus());
    const auto want = (*session)->Run({{x, in}, {fed_w, value}}, {expected});
    ASSERT_TRUE(want.ok()) << want.status();
    for (int run = 0; run < 2; ++run) {
      const auto got = step->Run({in});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_TRUE(BytesOf((*got)[0]) == BytesOf((*want)[0]));
    }
    EXPECT_EQ((*session)->forms().num_made(), write * num_copies());
  }
}

// Compares after each of 200 random operations.
TEST_P(FormsTest, FormsAreNeverStaleBetweenRandomWrites) {
  std::mt19937 engine(3);
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    switch (engine() % 4) {
      case 0:
        ASSERT_EQ(session_->AssignVariable("filter", RandomFilter(engine())), absl::OkStatus());
        break;
      case 1:
        ASSERT_TRUE(session_->Run({}, {}, {double_}).ok());
        ASSERT_EQ(session_->AssignVariable("filter", RandomFilter(engine())), absl::OkStatus());
        ASSERT_TRUE(session_->Run({}, {}, {double_}).ok());
        break;
      default:
        break;
    }
    const int64_t rows = 1 + static_cast<int64_t>(engine() % 3);
    const Tensor images = RandomTensor(DT_FLOAT, {rows, 8, 8, 16}, &random);
    ExpectCurrent(images);
  }
}

// A training step reads and writes the filter; inference reads it in a form between training steps.
class TrainingFormsTest : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  static constexpr int64_t kClasses = kFilterChannels;

  void SetUp() override {
    const Output images = ops::Placeholder(root_, DT_FLOAT, {-1, 8, 8, 16});
    const Output labels = ops::Placeholder(root_, DT_INT32, {-1});
    filter_ = CreateVariable(root_, "filter", kFilter, initializers::GlorotUniform());
    const Output fed_filter = ops::Placeholder(root_, DT_FLOAT, kFilter);
    const Output result = ops::Conv2D(root_, images, filter_.value, kStrides, "SAME");
    const Output expected = ops::Conv2D(root_, images, fed_filter, kStrides, "SAME");
    const Output loss =
        losses::SparseSoftmaxCrossEntropy(root_, ops::Mean(root_, result, {1, 2}), labels);
    const Operation train = MakeOptimizer()->Minimize(root_, loss);
    TestSessionOptions options{.replicas = std::get<0>(GetParam())};
    options.session.compile.kernels.allow_winograd =
        false;  // it rounds differently from infer_fed_
    auto session = CreateTestSession(graph_, options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    infer_ = *session_->Prepare({images}, {result});
    infer_fed_ = *session_->Prepare({images, fed_filter}, {expected});
    train_ = *session_->Prepare({images, labels}, {result}, {train});
  }
  static std::unique_ptr<Optimizer> MakeOptimizer() {
    const std::string name = std::get<1>(GetParam());
    if (name == "Momentum") return std::make_unique<Momentum>(Momentum::Options{0.1});
    if (name == "Adam") return std::make_unique<Adam>(Adam::Options{0.1});
    return std::make_unique<SGD>(SGD::Options{0.1});
  }

  Graph graph_;
  Scope root_{&graph_};
  Variable filter_;
  std::unique_ptr<Session> session_;
  Step infer_, infer_fed_, train_;
};
INSTANTIATE_TEST_SUITE_P(, TrainingFormsTest,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values("SGD", "Momentum", "Adam")),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "Replicas",
                                               std::get<1>(info.param));
                         });

TEST_P(TrainingFormsTest, FormsAreNeverStaleBetweenRandomSteps) {
  std::mt19937 engine(5);
  Random random(6);
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    const Tensor images = RandomTensor(DT_FLOAT, kImages, &random);
    const Tensor before = session_->ReadVariable("filter").value();
    const std::string old_result = BytesOf(infer_fed_.Run({images, before}).value()[0]);
    EXPECT_TRUE(BytesOf(infer_.Run({images}).value()[0]) == old_result);
    switch (engine() % 4) {
      case 0:
        ASSERT_EQ(session_->AssignVariable("filter", RandomTensor(DT_FLOAT, kFilter, &random)),
                  absl::OkStatus());
        break;
      case 1: {  // a label out of range
        const Tensor labels = Tensor::Of<int32_t>({2}, {1, kClasses});
        EXPECT_THAT(train_.Run({images, labels}).status(),
                    IsError(absl::StatusCode::kInvalidArgument, "SoftmaxCrossEntropy", "label"));
        EXPECT_TRUE(BytesOf(session_->ReadVariable("filter").value()) == BytesOf(before));
        break;
      }
      default: {
        const auto result = train_.Run({images, Tensor::Of<int32_t>({2}, {1, 2})});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_TRUE(BytesOf((*result)[0]) == old_result) << "a step reads the value before it";
        EXPECT_FALSE(BytesOf(session_->ReadVariable("filter").value()) == BytesOf(before));
      }
    }
  }
  EXPECT_GT(session_->forms().num_made(), 20);
}

// Readers on several threads see one of the two values of the variable, never a mixture.
TEST_P(FormsTest, ConcurrentReadersSeeWholeForms) {
  const Tensor values[] = {RandomFilter(1), RandomFilter(2)};
  std::vector<std::string> expected;
  for (const Tensor& value : values) {
    ASSERT_EQ(session_->AssignVariable("filter", value), absl::OkStatus());
    expected.push_back(BytesOf(ExpectedFor(input_)));
  }
  auto step = session_->Prepare({images_}, {result_});
  ASSERT_TRUE(step.ok()) << step.status();
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      Step own = *step;
      while (!ends) {
        const auto got = own.Run({input_});
        if (!got.ok()) {
          ++wrong;
          continue;
        }
        const std::string bytes = BytesOf((*got)[0]);
        if (bytes != expected[0] && bytes != expected[1]) ++wrong;
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(session_->AssignVariable("filter", values[i % 2]), absl::OkStatus());
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace mirrorflow
