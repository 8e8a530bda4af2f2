// SPDX-License-Identifier: Apache-2.0
//
// A gradient recomputes the branch of an If and a loop within a loop. Recomputation must give the
// same values, so a gradient through a branch or loop that writes a variable or draws random
// numbers is rejected with an error. Also, graphs from files must not keep the compiler busy
// forever.
#include <string>
#include <vector>

#include "framework/graph/gradients.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/support/is_error.h"
#include "tests/support/loops.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

class RecomputationTest : public testing::Test {
 protected:
  static Output Number(const Scope& s, float value) { return ops::ScalarConst(s, DT_FLOAT, value); }
  static Outputs Same(const Scope&, Args in) { return {in[0]}; }
  // Multiplies x by a random number.
  static Outputs Noisy(const Scope& s, Args in) {
    const Output random =
        ops::RandomUniform(s, ops::VectorConst(s, absl::Span<const int64_t>()), DT_FLOAT);
    return {ops::Mul(s, in[0], random)};
  }
  static Outputs NoisyOrNot(const Scope& s, Args in) {
    return {ops::If(s, ops::Greater(s, in[0], Number(s, 0)), {in[0]}, Noisy, Same)[0]};
  }

  // Builds a loop that applies `next` to the values `times` times.
  static Outputs Repeat(const Scope& scope, int times, Outputs values, ops::FunctionBuilder next) {
    return CountedLoop(scope, times, std::move(values),
                       [&](const Scope& s, Args in) { return next(s, in.subspan(1)); });
  }

  absl::Status GradientError(const Output& y) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return Gradients(AllOps(), root_, {y}, {x_}).status();
  }

  Graph graph_;
  Scope root_{&graph_};
  Output x_ = ops::Placeholder(root_, DT_FLOAT, {});
  Output yes_ = ops::Placeholder(root_, DT_BOOL, {});
};

TEST_F(RecomputationTest, GradientOfBranchThatDrawsRandomNumbersIsRejected) {
  EXPECT_THAT(
      GradientError(ops::If(root_, yes_, {x_}, Noisy, Same)[0]),
      IsError(absl::StatusCode::kUnimplemented, "then_branch", "random numbers", "RandomUniform("));
}

TEST_F(RecomputationTest, GradientOfBranchWithRandomInnerBranchIsRejected) {
  EXPECT_THAT(GradientError(ops::If(root_, yes_, {x_}, NoisyOrNot, Same)[0]),
              IsError(absl::StatusCode::kUnimplemented, "RandomUniform("));
}

TEST_F(RecomputationTest, LoopThatDrawsRandomNumbersHasOnlyOneGradient) {
  const Output y = Repeat(root_, 3, {x_}, Noisy)[0];
  EXPECT_EQ(GradientError(y), absl::OkStatus());
  EXPECT_THAT(GradientError(ops::Square(root_, y)),
              IsError(absl::StatusCode::kUnimplemented, "second gradient", "a loop"));
}

TEST_F(RecomputationTest, GradientOfRandomNestedLoopIsRejected) {
  for (const bool in_branch : {false, true}) {
    const Output y = Repeat(root_, 2, {x_}, [&](const Scope& s, Args in) {
      return Outputs{Repeat(s, 2, {in[0]}, in_branch ? NoisyOrNot : Noisy)[0]};
    })[0];
    EXPECT_THAT(GradientError(y), IsError(absl::StatusCode::kUnimplemented, "random numbers"))
        << in_branch;
  }
}

TEST_F(RecomputationTest, GradientOfLoopWhoseBranchWritesVariableIsRejected) {
  const Output v = ops::VarHandleOp(root_, DT_FLOAT, {}, {.shared_name = "v"});
  const Output y = Repeat(root_, 3, {x_, v}, [](const Scope& s, Args in) {
    const Output read = ops::ReadVariableOp(s, in[1]);
    const auto add = [](const Scope& t, Args args) {
      const Operation write = ops::AssignAddVariableOp(t, args[1], Number(t, 1));
      return Outputs{ops::Identity(t.WithControlDependencies({{write}}), args[0])};
    };
    const Output x = ops::If(s, ops::Greater(s, in[0], Number(s, 0)), {in[0], in[1]}, add, Same)[0];
    return Outputs{ops::Mul(s, x, read), in[1]};
  })[0];
  EXPECT_THAT(GradientError(y),
              IsError(absl::StatusCode::kUnimplemented, "body writes", "AssignAddVariableOp("));
}

// Each condition is used twice by the next one, so there are 2^60 paths through 60 nodes.
TEST_F(RecomputationTest, SearchForLoopBoundTerminates) {
  const Output list = ops::EmptyTensorList(root_, DT_FLOAT, {});
  const Outputs values = ops::While(
      root_, {Integer(root_, 0), list, x_},
      [](const Scope& s, Args in) {
        Output continues = ops::Less(s, in[0], Integer(s, 3));
        for (int i = 0; i < 60; ++i) continues = ops::LogicalAnd(s, continues, continues);
        return Outputs{continues};
      },
      [](const Scope& s, Args in) {
        return Outputs{ops::AddV2(s, in[0], Integer(s, 1)),
                       ops::TensorListPushBack(s, in[1], in[2]), in[2]};
      });
  const Output element = ops::TensorListGetItem(root_, values[1], Integer(root_, 2), DT_FLOAT);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  auto session = *CreateTestSession(graph_, {});
  Step step = *session->Prepare({x_}, {element});
  const std::vector<Tensor> fed = {Tensor::Scalar(1.0f)};
  const auto out = step.Run(fed);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].flat<float>()[0], 1);
}

}  // namespace
}  // namespace mirrorflow
