// SPDX-License-Identifier: Apache-2.0
#include "ops/operators.h"

#include <functional>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

// Returns the value of an expression with two scalar operands.
template <typename T>
T ValueOf(T x, T y, const std::function<Output(Output, Output)>& expression) {
  Graph graph;
  const Scope scope(&graph);
  const Output result =
      expression(ops::Const(scope, Tensor::Scalar<T>(x)), ops::Const(scope, Tensor::Scalar<T>(y)));
  const auto session = CreateTestSession(graph, {});
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return T();
  const auto values = (*session)->Run({}, {result});
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? (*values)[0].template scalar<T>() : T();
}

TEST(Operators, ComputeWithOutputs) {
  const auto of = [](const auto& expression) { return ValueOf<float>(7, 2, expression); };
  EXPECT_EQ(of([](Output x, Output y) { return x + y; }), 9);
  EXPECT_EQ(of([](Output x, Output y) { return x - y; }), 5);
  EXPECT_EQ(of([](Output x, Output y) { return x * y; }), 14);
  EXPECT_EQ(of([](Output x, Output y) { return x / y; }), 3.5);
  EXPECT_EQ(of([](Output x, Output) { return -x; }), -7);
  EXPECT_EQ(of([](Output x, Output y) { return (x - y) * (x + y) / y; }), 22.5);
}

TEST(Operators, ComputeWithNumbersOnEitherSide) {
  const auto of = [](const auto& expression) { return ValueOf<double>(7, 2, expression); };
  EXPECT_EQ(of([](Output x, Output) { return x + 0.5; }), 7.5);
  EXPECT_EQ(of([](Output x, Output) { return x - 1; }), 6);
  EXPECT_EQ(of([](Output x, Output) { return x * 0.5; }), 3.5);
  EXPECT_EQ(of([](Output x, Output) { return x / 4; }), 1.75);
  EXPECT_EQ(of([](Output, Output y) { return 0.5 + y; }), 2.5);
  EXPECT_EQ(of([](Output, Output y) { return 1 - y; }), -1);
  EXPECT_EQ(of([](Output, Output y) { return 3 * y; }), 6);
  EXPECT_EQ(of([](Output, Output y) { return 1 / y; }), 0.5);
}

TEST(Operators, IntegersAreDividedTowardsZero) {
  EXPECT_EQ(ValueOf<int32_t>(-7, 2, [](Output x, Output y) { return x / y; }), -3);
  EXPECT_EQ(ValueOf<int32_t>(-7, 2, [](Output x, Output) { return x * 3 + 1; }), -20);
}

TEST(Operators, GraphRecordsErrorsAndReturnsInvalidOutputs) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope.WithName("x"), DT_FLOAT, {2});
  const Output y = ops::Placeholder(scope.WithName("y"), DT_FLOAT, {3});
  const Output sum = x + y;
  EXPECT_FALSE(sum.valid());
  EXPECT_FALSE((1 - sum * 2 + x).valid());
  EXPECT_FALSE((-sum).valid());
  EXPECT_THAT(graph.status(), IsError(absl::StatusCode::kInvalidArgument, "[2]"));
}

TEST(Operators, OutputsOfTwoGraphsAreRejected) {
  Graph graph, other;
  const Output x = ops::Placeholder(Scope(&graph), DT_FLOAT, {2});
  const Output y = ops::Placeholder(Scope(&other).WithName("y"), DT_FLOAT, {2});
  EXPECT_FALSE((x + y).valid());
  EXPECT_THAT(graph.status(), IsError(absl::StatusCode::kInvalidArgument, "another graph"));
  EXPECT_TRUE(other.status().ok());
}

TEST(Operators, FollowMovedAndClonedGraphs) {
  Graph first;
  ops::Placeholder(Scope(&first).WithName("x"), DT_FLOAT, {2});
  Graph clone = first.Clone();
  Graph moved = std::move(first);
  for (Graph* const graph : {&clone, &moved}) {
    const Output x = graph->FindNode("x")->output(0);
    EXPECT_EQ(&x.node->graph(), graph);
    EXPECT_TRUE(graph->Owns((x + x).node));
  }
  Graph assigned;
  assigned = std::move(moved);
  EXPECT_TRUE(assigned.Owns((2 * assigned.FindNode("x")->output(0)).node));
}

}  // namespace
}  // namespace mirrorflow
