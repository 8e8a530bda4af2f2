// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/control.h"
#include "ops/gradients.h"
#include "ops/random.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

TEST(Dropout, DropsAtGivenRateAndScalesRemainder) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {-1, 100});
  const Output y = ops::Dropout(scope, x, 0.25);
  const auto gradients = Gradients(scope, {y}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  absl::StatusOr<Interpreter> interpreter = Interpreter::Create(graph, CpuKernels());
  ASSERT_TRUE(interpreter.ok()) << interpreter.status();
  constexpr int64_t kCount = 100000;
  absl::StatusOr<Tensor> ones = Tensor::Allocate(DT_FLOAT, Shape({kCount / 100, 100}));
  std::fill_n(ones->data<float>(), kCount, 1.0f);
  const std::vector<std::pair<Output, Tensor>> feeds = {{x, *ones}};
  const auto results = interpreter->Run(feeds, {y, gradients->at(0)});
  ASSERT_TRUE(results.ok()) << results.status();
  int64_t dropped = 0;
  for (const float v : results->at(0).flat<float>()) {
    if (v == 0) {
      ++dropped;
    } else {
      ASSERT_FLOAT_EQ(v, 1 / 0.75f);
    }
  }
  EXPECT_NEAR(static_cast<double>(dropped) / kCount, 0.25, 0.01);
  // The gradient has the same mask and scale as y, so it equals y if x is 1.
  EXPECT_TRUE(Tensor::Identical(results->at(0), results->at(1)));
}

TEST(Dropout, RateZeroReturnsInput) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {3});
  EXPECT_EQ(ops::Dropout(scope, x, 0), x);
}

TEST(Dropout, RejectsRateOutsideZeroToOne) {
  for (const double rate : {-0.1, 1.0, 2.0}) {
    Graph graph;
    const Scope scope(&graph);
    const Output y = ops::Dropout(scope, ops::Placeholder(scope, DT_FLOAT, {3}), rate);
    EXPECT_FALSE(y.valid());
    EXPECT_THAT(scope.status(),
                IsError(absl::StatusCode::kInvalidArgument, "Dropout", absl::StrCat("got ", rate)));
  }
}

}  // namespace
}  // namespace mirrorflow
