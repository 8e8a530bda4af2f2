// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/interpreter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/identity.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

Tensor Matrix(float value) { return Tensor::Of<float>(Shape({1, 1}), {value}); }

float ValueOf(const Tensor& tensor) { return tensor.scalar<float>(); }

class InterpreterTest : public ::testing::Test {
 protected:
  Output Placeholder(absl::string_view name) {
    return ops::Placeholder(root_.WithName(name), DT_FLOAT, Shape({1, 1}));
  }
  Output Const(float value) { return ops::Const(root_, Matrix(value)); }
  Output Times(absl::string_view name, Output a, Output b) {
    return ops::MatMul(root_.WithName(name), a, b);
  }
  Output Variable(absl::string_view name) {
    return ops::VarHandleOp(root_.WithName(name), DT_FLOAT, Shape({1, 1}));
  }
  Scope After(std::vector<Operation> operations) {
    return root_.WithControlDependencies(operations);
  }
  Interpreter Make(const InterpreterOptions& options = {}) {
    absl::StatusOr<Interpreter> interpreter = Interpreter::Create(graph_, CpuKernels(), options);
    EXPECT_TRUE(interpreter.ok()) << interpreter.status();
    return *std::move(interpreter);
  }
  // Runs a step and returns the scalars that it fetches.
  std::vector<float> Run(Interpreter* interpreter, std::vector<Output> fetches,
                         std::vector<Operation> targets = {},
                         std::vector<std::pair<Output, Tensor>> feeds = {}) {
    absl::StatusOr<std::vector<Tensor>> results = interpreter->Run(feeds, fetches, targets);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<float> values;
    if (results.ok())
      std::transform(results->begin(), results->end(), std::back_inserter(values), ValueOf);
    return values;
  }

  Graph graph_;
  Scope root_{&graph_};
};

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// Replaces IsError(), because tests/support depends on this folder.
testing::Matcher<const absl::Status&> Fails(absl::StatusCode code, const std::string& place,
                                            const std::string& token = "") {
  return testing::AllOf(
      testing::Property("code", &absl::Status::code, code),
      testing::Property("message", &absl::Status::message,
                        testing::AllOf(testing::HasSubstr(place), testing::HasSubstr(token))));
}

TEST_F(InterpreterTest, ComputesFetchesFromFeeds) {
  const Output x = Placeholder("x");
  const Output y = Times("y", x, Const(3));
  Interpreter interpreter = Make();
  EXPECT_EQ(Run(&interpreter, {y, x}, {}, {{x, Matrix(5)}}), std::vector<float>({15, 5}));
  EXPECT_EQ(Run(&interpreter, {y}, {}, {{x, Matrix(7)}}), std::vector<float>({21}));
}

TEST_F(InterpreterTest, UsesDefaultOfUnfedPlaceholder) {
  const Output x = ops::PlaceholderWithDefault(root_.WithName("x"), Const(3), Shape({-1, 1}));
  const Output y = Times("y", x, Const(2));
  Interpreter interpreter = Make();
  EXPECT_THAT(Run(&interpreter, {y}), ElementsAre(6));
  EXPECT_THAT(Run(&interpreter, {y}, {}, {{x, Matrix(5)}}), ElementsAre(10));
  EXPECT_THAT(interpreter.Run({{x, Tensor::Scalar<float>(1)}}, {y}).status(),
              Fails(kInvalid, "feed of PlaceholderWithDefault(x)"));
}

TEST_F(InterpreterTest, RunsOnlyNeededNodes) {
  const Output x = Placeholder("x"), unused = Placeholder("unused");
  const Output broken = Times("broken", unused, unused);
  const Output y = Times("y", x, x), z = Times("z", broken, y);
  Interpreter interpreter = Make();
  EXPECT_EQ(Run(&interpreter, {y}, {}, {{x, Matrix(5)}}), std::vector<float>({25}));
  // The inputs of a fed value are not needed, wherever the value is in the graph.
  EXPECT_EQ(Run(&interpreter, {z}, {}, {{broken, Matrix(2)}, {y, Matrix(4)}}),
            std::vector<float>({8}));
  EXPECT_THAT(interpreter.Run({{x, Matrix(5)}}, {z}).status(),
              Fails(kInvalid, "Placeholder(unused)", "must be fed"));
}

TEST_F(InterpreterTest, RunsTheTargetsControlInputs) {
  const Output v = Variable("v");
  const Operation both = ops::Group(root_, {ops::AssignVariableOp(root_, v, Const(2))});
  Interpreter interpreter = Make();
  Run(&interpreter, {}, {both});
  EXPECT_EQ(ValueOf(interpreter.variables()["v"]), 2);
}

TEST_F(InterpreterTest, ReadsSeeOnlyWritesOrderedBeforeThem) {
  const Output v = Variable("v");
  const Operation first = ops::AssignVariableOp(root_, v, Const(2));
  const Operation second = ops::AssignAddVariableOp(After({first}), v, Const(10));
  // This read is created last: if nodes ran in id order, it would see both writes.
  const Output before = ops::ReadVariableOp(root_, v);
  const Output between = ops::ReadVariableOp(After({first}), v);
  const Output after = ops::ReadVariableOp(After({second}), v);
  // This read is ordered by a data dependency.
  const Output by_data = Times("by_data", after, Const(1));
  const Output late = ops::ReadVariableOp(After({{by_data.node}}), v);
  Interpreter interpreter = Make();
  interpreter.variables()["v"] = Matrix(1);
  EXPECT_EQ(Run(&interpreter, {before, between, after, late}), std::vector<float>({1, 2, 12, 12}));
  EXPECT_EQ(ValueOf(interpreter.variables()["v"]), 12);
}

TEST_F(InterpreterTest, CrossOrderedReadsSeeValuesFromBeforeStep) {
  // Each read depends on the write of the other variable but not on the write of its own variable.
  // No order of these four nodes runs both reads before both writes.
  const Output a = Variable("a"), b = Variable("b");
  const Operation write_a = ops::AssignVariableOp(root_, a, Const(10));
  const Operation write_b = ops::AssignVariableOp(root_, b, Const(20));
  const Output read_b = ops::ReadVariableOp(After({write_a}), b);
  const Output read_a = ops::ReadVariableOp(After({write_b}), a);
  Interpreter interpreter = Make();
  interpreter.variables() = {{"a", Matrix(1)}, {"b", Matrix(2)}};
  EXPECT_EQ(Run(&interpreter, {read_a, read_b}), std::vector<float>({1, 2}));
}

TEST_F(InterpreterTest, UnorderedUpdatesAreAllApplied) {
  const Output v = Variable("v");
  const Operation one = ops::AssignAddVariableOp(root_, v, Const(1));
  const Operation two = ops::AssignAddVariableOp(root_, v, Const(2));
  Interpreter interpreter = Make();
  interpreter.variables()["v"] = Matrix(0);
  Run(&interpreter, {}, {one, two});
  EXPECT_EQ(ValueOf(interpreter.variables()["v"]), 3);
}

TEST_F(InterpreterTest, FailedStepLeavesVariablesUnchanged) {
  const Output v = Variable("v");
  const Operation write = ops::AssignVariableOp(root_, v, Const(2));
  const Output bad = Times("bad", Placeholder("x"), Const(1));
  root_.graph().AddControlEdge(write.node, bad.node);
  Interpreter interpreter = Make();
  const Tensor before = Matrix(1);
  interpreter.variables()["v"] = before;
  EXPECT_THAT(interpreter.Run({}, {bad}, {write}).status(),
              Fails(absl::StatusCode::kInvalidArgument, "Placeholder(x)", "fed"));
  EXPECT_EQ(ValueOf(interpreter.variables()["v"]), 1);
  EXPECT_EQ(ValueOf(before), 1);
}

TEST_F(InterpreterTest, WritesDoNotModifyTheCallersTensor) {
  const Operation write = ops::AssignAddVariableOp(root_, Variable("v"), Const(2));
  Interpreter interpreter = Make();
  const Tensor before = Matrix(1);
  interpreter.variables()["v"] = before;
  Run(&interpreter, {}, {write});
  EXPECT_EQ(ValueOf(before), 1);
}

TEST_F(InterpreterTest, HandlesWithSameSharedNameAreOneVariable) {
  const Output a = ops::VarHandleOp(root_, DT_FLOAT, Shape({1, 1}), {.shared_name = "shared"});
  const Output b = ops::VarHandleOp(root_, DT_FLOAT, Shape({1, 1}), {.shared_name = "shared"});
  const Operation write = ops::AssignVariableOp(root_, a, Const(4));
  const Output read = ops::ReadVariableOp(After({write}), b);
  Interpreter interpreter = Make();
  EXPECT_EQ(Run(&interpreter, {read}), std::vector<float>({4}));
  EXPECT_EQ(ValueOf(interpreter.variables()["shared"]), 4);
}

TEST_F(InterpreterTest, InitializesOnlyVariablesWithoutValue) {
  for (const char* name : {"a", "b", "c"}) {
    const Output initial = ops::Const(root_.WithName(absl::StrCat(name, "/initial")), Matrix(3));
    const Output handle = Variable(name);
    if (*name != 'c') graph_.SetAttr(handle.node, "_initializer", initial.node->name());
  }
  Interpreter interpreter = Make();
  interpreter.variables()["a"] = Matrix(1);
  ASSERT_TRUE(interpreter.InitializeVariables().ok());
  ASSERT_EQ(interpreter.variables().size(), 2);
  EXPECT_EQ(ValueOf(interpreter.variables()["a"]), 1);
  EXPECT_EQ(ValueOf(interpreter.variables()["b"]), 3);
}

TEST_F(InterpreterTest, MissingInitializerIsErrorThatNamesVariable) {
  graph_.SetAttr(Variable("v").node, "_initializer", "nowhere");
  EXPECT_THAT(Make().InitializeVariables(), Fails(kInvalid, "VarHandleOp(v)", "nowhere"));
}

TEST_F(InterpreterTest, ReadFailsIfVariableHasNoValueOrWrongShape) {
  const Output read = ops::ReadVariableOp(root_.WithName("read"), Variable("v"));
  Interpreter interpreter = Make();
  EXPECT_THAT(interpreter.Run({}, {read}).status(),
              Fails(absl::StatusCode::kFailedPrecondition, "'v' has no value"));
  interpreter.variables()["v"] = Tensor::Scalar(1.0f);
  EXPECT_THAT(interpreter.Run({}, {read}).status(),
              Fails(kInvalid, "[1,1], got float of shape []"));
}

TEST_F(InterpreterTest, FailsOnInvalidFeedsAndFetches) {
  const Output x = Placeholder("x"), v = Variable("v");
  Interpreter interpreter = Make();
  EXPECT_THAT(interpreter.Run({{x, Tensor::Scalar(1.0f)}}, {}).status(),
              Fails(kInvalid, "Placeholder(x): ", "[1,1], got float of shape []"));
  EXPECT_THAT(interpreter.Run({{x, Tensor::Of<int32_t>(Shape({1, 1}), {1})}}, {}).status(),
              Fails(kInvalid, "got int32"));
  EXPECT_THAT(interpreter.Run({}, {v}).status(), Fails(kInvalid, "a handle"));
  EXPECT_THAT(interpreter.Run({}, {Output()}).status(), Fails(kInvalid, "invalid"));
  EXPECT_THAT(interpreter.Run({}, {Placeholder("new")}).status(), Fails(kInvalid, "'new': not in"));
}

TEST_F(InterpreterTest, ErrorNamesFailedNode) {
  // The mismatch is unknown until x is fed.
  const Output x = ops::Placeholder(root_, DT_FLOAT, Shape({-1, -1}));
  const Output product = Times("product", x, x);
  EXPECT_THAT(Make().Run({{x, Tensor::Of<float>(Shape({1, 2}), {1, 2})}}, {product}).status(),
              Fails(kInvalid, "MatMul(product)"));
}

TEST_F(InterpreterTest, ComputesInDoublePrecisionOnRequest) {
  const Output x = Placeholder("x"), v = Variable("v");
  const float third = 1.0f / 3.0f;
  const Output y = Times("y", Times("product", x, Const(third)), ops::ReadVariableOp(root_, v));
  const Operation write = ops::AssignVariableOp(root_, v, y);
  Interpreter interpreter = Make({.in_double = true});
  interpreter.variables()["v"] = Matrix(third);
  const auto result = interpreter.Run({{x, Matrix(third)}}, {y}, {write});
  ASSERT_TRUE(result.ok()) << result.status();
  const double exact = double{third} * double{third} * double{third};
  EXPECT_EQ((*result)[0].scalar<double>(), exact);
  EXPECT_EQ(interpreter.variables()["v"].scalar<double>(), exact);
  EXPECT_NE(exact, double{third * third * third});
  // Feeds may also be double.
  const auto again = interpreter.Run({{x, Tensor::Of<double>(Shape({1, 1}), {0.5})}}, {y});
  ASSERT_TRUE(again.ok()) << again.status();
}

TEST_F(InterpreterTest, RandomOpsDrawTheSameNumbersInDoublePrecision) {
  const Output random =
      ops::RandomUniform(root_, ops::VectorConst(root_, {2, 3}), DT_FLOAT, {.seed = 3});
  const StepParams params = {.step = 5};
  const auto in_float = Make().Run({}, {random}, {}, params);
  const auto in_double = Make({.in_double = true}).Run({}, {random}, {}, params);
  const auto next_step = Make().Run({}, {random}, {}, {.step = 6});
  ASSERT_TRUE(in_float.ok() && in_double.ok() && next_step.ok());
  const absl::Span<const float> numbers = (*in_float)[0].flat<float>();
  EXPECT_THAT((*in_double)[0].flat<double>(), ::testing::ElementsAreArray(numbers));
  EXPECT_THAT((*next_step)[0].flat<float>(), ::testing::Not(::testing::ElementsAreArray(numbers)));
}

TEST_F(InterpreterTest, FollowsHandleThroughView) {
  const Output handle = ops::Identity(root_, Variable("v"));
  const Operation write = ops::AssignVariableOp(root_, handle, Const(4));
  Interpreter interpreter = Make();
  Run(&interpreter, {}, {write});
  EXPECT_EQ(ValueOf(interpreter.variables()["v"]), 4);
}

}  // namespace
}  // namespace mirrorflow
