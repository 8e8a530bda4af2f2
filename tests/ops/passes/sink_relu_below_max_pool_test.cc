// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/sink_relu_below_max_pool.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/compilation.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

constexpr char kWindow[] = "{T=float, ksize=[1,2,2,1], strides=[1,2,2,1], padding=\"VALID\"}\n";

// Returns the step's text after the pass, which must be idempotent.
std::string Swapped(const std::string& text, const std::vector<std::string>& fetches = {"y"}) {
  const auto step =
      ParseStep(absl::StrCat("x = Placeholder() {dtype=float, shape=<1,4,4,3>}\n"
                             "dy = Placeholder() {dtype=float, shape=<1,2,2,3>}\n",
                             text),
                {.feeds = {{"x", {1, 4, 4, 3}}, {"dy", {1, 2, 2, 3}}}, .fetches = fetches});
  if (!step.ok()) return step.status().ToString();
  const absl::Status status = RunPasses((*step)->c, InferAndFold(), SinkReluBelowMaxPool());
  if (!status.ok()) return status.ToString();
  const absl::StatusOr<bool> again = SinkReluBelowMaxPool().Run((*step)->c);
  EXPECT_TRUE(again.ok() && !*again);
  return StepToText((*step)->c);
}

const std::string Forward() {
  return absl::StrCat("r = Relu(x) {T=float}\np = MaxPool(r) ", kWindow);
}

TEST(SinkReluBelowMaxPoolTest, MovesReluAfterMaxPool) {
  const std::string text = Swapped(absl::StrCat(Forward(), "y = Neg(p) {T=float}\n"));
  EXPECT_THAT(text, HasSubstr("p = MaxPool(x)"));
  EXPECT_THAT(text, HasSubstr("r_1 = Relu(p)"));
  EXPECT_THAT(text, HasSubstr("y = Neg(r_1)"));
  EXPECT_THAT(Swapped(Forward(), {"p"}), HasSubstr("Relu(p)"));
}

TEST(SinkReluBelowMaxPoolTest, SwapsGradients) {
  const std::string text = Swapped(absl::StrCat(Forward(), "g = MaxPoolGrad(r, p, dy) ", kWindow,
                                                "y = ReluGrad(g, r) {T=float}\n"),
                                   {"p", "y"});
  EXPECT_THAT(text, HasSubstr("y_1 = ReluGrad(dy, r_1)"));
  EXPECT_THAT(text, HasSubstr("g = MaxPoolGrad(x, p, y_1)"));
}

TEST(SinkReluBelowMaxPoolTest, ValuesWithOtherUsesAreNotSwapped) {
  const std::string grad = absl::StrCat(Forward(), "g = MaxPoolGrad(r, p, dy) ", kWindow);
  const struct {
    std::string text;
    std::vector<std::string> fetches;
  } kKept[] = {
      {Forward(), {"p", "r"}},
      {absl::StrCat(Forward(), "y = Neg(r) {T=float}\n"), {"p", "y"}},
      // Two pools read the Relu.
      {absl::StrCat(Forward(), "y = MaxPool(r) ", kWindow), {"p", "y"}},
      // The Relu's gradient does not come from the pool, or the pool's gradient has another use.
      {absl::StrCat(Forward(), "y = ReluGrad(x, r) {T=float}\n"), {"p", "y"}},
      {absl::StrCat(grad, "n = Neg(g) {T=float}\ny = ReluGrad(n, r) {T=float}\n"), {"p", "y"}},
      {absl::StrCat(grad, "y = ReluGrad(g, r) {T=float}\n"), {"p", "y", "g"}},
      // The gradient is that of another pool.
      {absl::StrCat(Forward(), "g = MaxPoolGrad(r, p, dy) ",
                    "{T=float, ksize=[1,1,1,1], strides=[1,2,2,1], padding=\"VALID\"}\n",
                    "y = ReluGrad(g, r) {T=float}\n"),
       {"p", "y"}},
      // Another node has a control edge from the Relu.
      {absl::StrCat(Forward(), "y = Neg(x, ^r) {T=float}\n"), {"p", "y"}},
  };
  for (const auto& kept : kKept) {
    const std::string text = Swapped(kept.text, kept.fetches);
    EXPECT_THAT(text, HasSubstr("r = Relu(x)")) << text;
    EXPECT_THAT(text, HasSubstr("p = MaxPool(r)")) << text;
  }
}

// The results are the same with and without the pass, for disjoint and overlapping windows, ties,
// windows of negative values, and NaN.
TEST(SinkReluBelowMaxPoolTest, ResultsAreUnchanged) {
  for (const int64_t stride : {1, 2}) {
    for (const char* padding : {"SAME", "VALID"}) {
      Graph graph;
      Scope root(&graph);
      const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 6, 6, 5});
      const Output relu = ops::Relu(root, ops::Identity(root, x));
      const Output y = ops::MaxPool(root, relu, {1, 2, 3, 1}, {1, stride, stride, 1}, padding);
      const auto dx = Gradients(root, {ops::Square(root, y)}, {x});
      ASSERT_TRUE(dx.ok()) << dx.status();
      const Shape shape = {4, 6, 6, 5};
      Random random(3);
      std::vector<float> pixels(shape.num_elements());
      for (float& v : pixels) v = 0.5f * static_cast<float>(random.Below(9) - 6);
      pixels[17] = std::numeric_limits<float>::quiet_NaN();
      pixels[100] = -0.0f;
      const Tensor images = Tensor::Of<float>(shape, pixels);
      auto result = [&](int replicas, bool swap) -> absl::StatusOr<std::vector<Tensor>> {
        TestSessionOptions options{.replicas = replicas};
        if (!swap) options.session.compile.disabled_passes = {"sink_relu_below_max_pool"};
        MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, options));
        const std::vector<Output> fetches = {y, (*dx)[0]};
        MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, fetches));
        MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({images}));
        MF_ASSIGN_OR_RETURN(Tensor largest, out[0].Clone());
        MF_ASSIGN_OR_RETURN(Tensor gradient, out[1].Clone());
        return std::vector<Tensor>{largest, gradient};
      };
      const auto want = result(1, false);
      ASSERT_TRUE(want.ok()) << want.status();
      for (const int replicas : {1, 3}) {
        const auto got = result(replicas, true);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(Difference((*want)[0], (*got)[0], {}), "");
        EXPECT_EQ(Difference((*want)[1], (*got)[1], {}), "");
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
