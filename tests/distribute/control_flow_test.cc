// SPDX-License-Identifier: Apache-2.0
//
// Tests branches and loops under a strategy: values keep their sharding, functions write variables,
// and unsupported programs are reported as errors.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/gradients.h"
#include "framework/graph/graph_def.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/loops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

constexpr Tolerance kTolerance{.relative = 1e-9, .absolute = 1e-12};

Output Number(const Scope& scope, double value) {
  return ops::ScalarConst(scope, DT_DOUBLE, value);
}

Variable MakeVariable(const Scope& scope, const std::string& name, const Tensor& initial) {
  return CreateVariable(
      scope, name, initial.shape(),
      [initial](const Scope& s, const Shape&, DataType) { return ops::Const(s, initial); },
      initial.dtype());
}

// A graph under construction, with helpers that run its steps on sessions and in the interpreter.
class ControlFlowTest : public testing::Test {
 protected:
  // Runs two steps on 1 to 3 replicas, on the CPU device and on the queued device. Expects every
  // fetch and every variable to equal the interpreter's.
  void ExpectAsInterpreted(const Outputs& fetches, const std::vector<Operation>& targets = {}) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    for (const int replicas : {1, 2, 3}) {
      for (const bool queued : {false, true}) {
        SCOPED_TRACE(absl::StrCat(replicas, " replicas", queued ? ", queued" : ""));
        auto session = CreateTestSession(graph_, {.replicas = replicas, .queued = queued});
        ASSERT_TRUE(session.ok()) << session.status();
        auto step = (*session)->Prepare(feeds_, fetches, targets);
        ASSERT_TRUE(step.ok()) << step.status();
        auto reference = Interpreter::Create(graph_, TestKernels(), {.ops = &AllOps()});
        ASSERT_TRUE(reference.ok()) << reference.status();
        const std::vector<VariableInfo>& variables = (*session)->layout().variables();
        for (const VariableInfo& variable : variables) {
          reference->variables()[variable.name] = *(*session)->ReadVariable(variable.name);
        }
        std::vector<std::pair<Output, Tensor>> feeds;
        for (size_t i = 0; i < feeds_.size(); ++i) feeds.emplace_back(feeds_[i], values_[i]);
        for (uint64_t s = 0; s < 2; ++s) {
          const auto want = reference->Run(feeds, fetches, targets, {.step = s});
          ASSERT_TRUE(want.ok()) << want.status();
          const auto got = step->Run(values_);
          ASSERT_TRUE(got.ok()) << got.status();
          for (size_t i = 0; i < fetches.size(); ++i) {
            EXPECT_EQ(Difference((*want)[i], (*got)[i], kTolerance), "") << "fetch " << i;
          }
          for (const VariableInfo& variable : variables) {
            EXPECT_EQ(Difference(reference->variables()[variable.name],
                                 *(*session)->ReadVariable(variable.name), kTolerance),
                      "")
                << variable.name;
          }
        }
      }
    }
  }

  // Runs one step on one replica and returns the value of `fetch`.
  absl::StatusOr<Tensor> Value(const Output& fetch) {
    MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph_, {}));
    MF_ASSIGN_OR_RETURN(Step step, session->Prepare(feeds_, {fetch}, {}));
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(values_));
    return out[0].Clone();
  }

  // Returns, as text, the program that two replicas run to compute `fetch`.
  std::string ProgramText(const Output& fetch) {
    auto session = CreateTestSession(graph_, {.replicas = 2});
    if (!session.ok()) return session.status().ToString();
    auto step = (*session)->Prepare(feeds_, {fetch}, {});
    if (!step.ok()) return step.status().ToString();
    std::vector<Shape> shapes;
    for (const Tensor& value : values_) shapes.push_back(value.shape());
    const auto plans = CompileStep(*step, shapes);
    return plans.ok() ? plans->program->ToString() : plans.status().ToString();
  }

  // Prepares and runs the step. Returns the first error, or OK.
  absl::Status ErrorOf(const Outputs& fetches, const std::vector<Operation>& targets = {},
                       int replicas = 1, SessionOptions options = {}) {
    auto session = CreateTestSession(graph_, {.replicas = replicas, .session = std::move(options)});
    if (!session.ok()) return session.status();
    auto step = (*session)->Prepare(feeds_, fetches, targets);
    if (!step.ok()) return step.status();
    return step->Run(values_).status();
  }

  Output Feed(const Shape& declared, const Tensor& value) {
    feeds_.push_back(ops::Placeholder(root_, value.dtype(), declared));
    values_.push_back(value);
    return feeds_.back();
  }

  // Returns a feed whose rows are sharded over the replicas.
  Output Rows(int64_t rows, int64_t columns) {
    return Feed({kUnknownDim, columns}, RandomTensor(DT_DOUBLE, {rows, columns}, &random_));
  }

  // Builds a loop that applies `next` to the values `times` times.
  Outputs Repeat(int times, Outputs values, ops::FunctionBuilder next) {
    return CountedLoop(root_, times, std::move(values),
                       [&](const Scope& s, Args in) { return next(s, in.subspan(1)); });
  }

  Random random_{7};
  Graph graph_;
  Scope root_{&graph_};
  Outputs feeds_;
  std::vector<Tensor> values_;
};

Outputs Ten(const Scope& s, Args) { return {Number(s, 10)}; }
Outputs Twenty(const Scope& s, Args) { return {Number(s, 20)}; }

TEST_F(ControlFlowTest, ThenBranchRunsForTrueNonzeroOrNonEmptyPredicate) {
  const std::pair<Tensor, double> cases[] = {
      {Tensor::Scalar<bool>(true), 10},    {Tensor::Scalar<bool>(false), 20},
      {Tensor::Scalar<int32_t>(-3), 10},   {Tensor::Scalar<int32_t>(0), 20},
      {Tensor::Scalar<float>(0.5), 10},    {Tensor::Scalar<float>(-0.0f), 20},
      {Tensor::Vector<bool>({false}), 10}, {Tensor::Of<float>({0, 3}, {}), 20},
      {Tensor::Scalar<uint8_t>(1), 10},    {Tensor::Scalar<int64_t>(1ll << 40), 10},
  };
  for (const auto& [predicate, want] : cases) {
    feeds_.clear();
    values_.clear();
    const Output fed = Feed(predicate.shape(), predicate);
    const auto got = Value(ops::If(root_, fed, {}, Ten, Twenty)[0]);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->flat<double>()[0], want) << TensorToString(predicate);
  }
}

TEST_F(ControlFlowTest, BranchAcceptsAndReturnsShardedValues) {
  const Output x = Rows(7, 3);
  const Output positive = ops::Greater(root_, ops::Max(root_, x, {0, 1}), Number(root_, 0));
  const Output scale = ops::Sum(root_, x, {0, 1});
  const Outputs y = ops::If(
      root_, positive, {x, scale},
      [](const Scope& s, Args in) {
        return Outputs{ops::Mul(s, in[0], in[1]), ops::Sum(s, in[0], {0})};
      },
      [](const Scope& s, Args in) {
        return Outputs{ops::Neg(s, in[0]), ops::Max(s, in[0], {0})};
      });
  ExpectAsInterpreted({y[0], y[1], ops::Sum(root_, y[0], {0})});
}

TEST_F(ControlFlowTest, LoopOverShardedRowsNeedsNoCollective) {
  // An unrolled network has no collective before its loss. A loop should not have one either,
  // although its state starts as replicated zeros.
  const Output x = Rows(8, 4);
  const Variable w = MakeVariable(root_, "w", RandomTensor(DT_DOUBLE, {5, 5}, &random_));
  const Variable u = MakeVariable(root_, "u", RandomTensor(DT_DOUBLE, {4, 5}, &random_));
  const Output zeros = ops::Fill(root_, ops::VectorConst(root_, {8, 5}), Number(root_, 0));
  const Output h = Repeat(3, {x, zeros, w.value, u.value}, [](const Scope& s, Args in) {
    const Output next =
        ops::Tanh(s, ops::AddV2(s, ops::MatMul(s, in[0], in[3]), ops::MatMul(s, in[1], in[2])));
    return Outputs{in[0], next, in[2], in[3]};
  })[1];
  ExpectAsInterpreted({h, ops::Mean(root_, h, {0, 1})});
  const std::string program = ProgramText(h);
  EXPECT_THAT(program, HasSubstr("sharded(a0, dim 0, x1)"));
  EXPECT_THAT(program, Not(HasSubstr("AllGather")));
  EXPECT_THAT(program, Not(HasSubstr("AllReduce")));
}

TEST_F(ControlFlowTest, SumAccumulatedInLoopIsReducedOnceAfterIt) {
  const Output x = Rows(8, 3);
  const Output zeros = ops::Const(root_, Tensor::Of<double>({3}, {0, 0, 0}));
  const Output sum = Repeat(4, {x, zeros}, [](const Scope& s, Args in) {
    return Outputs{in[0], ops::AddV2(s, in[1], ops::Sum(s, in[0], {0}))};
  })[1];
  ExpectAsInterpreted({sum});
  const std::string program = ProgramText(sum);
  const size_t inside = program.find(", function 0:");
  ASSERT_NE(inside, std::string::npos);
  EXPECT_THAT(program.substr(0, inside), HasSubstr("AllReduce"));
  EXPECT_THAT(program.substr(inside), Not(HasSubstr("AllReduce")));
}

TEST_F(ControlFlowTest, CollectivesRunInsideLoopWhenEachIterationNeedsThem) {
  const Output x = Rows(5, 3);
  const Output y = Repeat(3, {x}, [](const Scope& s, Args in) {
    return Outputs{ops::Sub(s, in[0], ops::Mean(s, ops::Exp(s, in[0]), {0}))};
  })[0];
  const Output before = ops::Tanh(root_, ops::Sum(root_, x, {0}));
  const Output after = ops::Tanh(root_, ops::Sum(root_, y, {0}));
  ExpectAsInterpreted({y, before, after});
}

TEST_F(ControlFlowTest, TrainingStepsInsideLoopMatchInterpreter) {
  const Output x = Rows(6, 3), t = Rows(6, 1);
  const Variable w = MakeVariable(root_, "w", RandomTensor(DT_DOUBLE, {3, 1}, &random_));
  const Output loss = Repeat(3, {x, t, w.handle, Number(root_, 0)}, [](const Scope& s, Args in) {
    const Output weight = ops::ReadVariableOp(s, in[2]);
    const Output error = ops::Sub(s, ops::MatMul(s, in[0], weight), in[1]);
    const Output loss = ops::Mean(s, ops::Square(s, error), {0, 1});
    const auto gradient = Gradients(AllOps(), s, {loss}, {weight});
    EXPECT_TRUE(gradient.ok()) << gradient.status();
    const Output delta = ops::Mul(s, (*gradient)[0], Number(s, 0.1));
    const Operation update = ops::AssignSubVariableOp(s, in[2], delta);
    return Outputs{in[0], in[1], in[2], ops::Identity(s.WithControlDependencies({update}), loss)};
  })[3];
  ExpectAsInterpreted({loss});
}

TEST_F(ControlFlowTest, VariableWrittenInBranchIsSeenByLaterReads) {
  const Output x = Rows(4, 2);
  const Variable count = MakeVariable(root_, "count", Tensor::Scalar<double>(1));
  const Output is_even =
      ops::Equal(root_, ops::FloorMod(root_, count.value, Number(root_, 2)), Number(root_, 0));
  const Output result = ops::If(
      root_, is_even, {x, count.handle},
      [](const Scope& s, Args in) {
        const Operation add = ops::AssignAddVariableOp(s, in[1], Number(s, 1));
        const Scope after = s.WithControlDependencies({add});
        const Operation twice = ops::AssignVariableOp(
            after, in[1], ops::Mul(after, ops::ReadVariableOp(after, in[1]), Number(s, 2)));
        return Outputs{
            ops::Mul(s, in[0], ops::ReadVariableOp(s.WithControlDependencies({twice}), in[1]))};
      },
      [](const Scope& s, Args in) {
        ops::AssignSubVariableOp(s, in[1], Number(s, 3));
        return Outputs{in[0]};
      })[0];
  const Output after =
      ops::ReadVariableOp(root_.WithControlDependencies({{result.node}}), count.handle);
  ExpectAsInterpreted({result, after, count.value});
}

TEST_F(ControlFlowTest, BranchesNestedInLoopsInBranchesMatchInterpreter) {
  const Output x = Rows(5, 2);
  const Output yes = ops::Const(root_, Tensor::Scalar<bool>(true));
  const Outputs y = ops::If(
      root_, yes, {x},
      [](const Scope& s, Args in) {
        const Outputs loop = ops::While(
            s, {Integer(s, 0), in[0]},
            [](const Scope& c, Args v) { return Outputs{ops::Less(c, v[0], Integer(c, 5))}; },
            [](const Scope& b, Args v) {
              const Output odd = ops::FloorMod(b, v[0], Integer(b, 2));
              const Output next = ops::If(
                  b, odd, {v[1]}, [](const Scope& t, Args u) { return Outputs{ops::Sin(t, u[0])}; },
                  [](const Scope& t, Args u) {
                    return Outputs{ops::Sub(t, u[0], ops::Mean(t, u[0], {0}))};
                  })[0];
              return Outputs{ops::AddV2(b, v[0], Integer(b, 1)), next};
            });
        return Outputs{loop[1]};
      },
      [](const Scope& s, Args in) { return Outputs{ops::Neg(s, in[0])}; });
  ExpectAsInterpreted({y[0]});
}

TEST_F(ControlFlowTest, LoopPermutesItsValues) {
  const Output x = Rows(5, 2), y = Rows(5, 2), z = Rows(5, 2);
  const Outputs out = Repeat(4, {x, y, z}, [](const Scope&, Args in) {
    return Outputs{in[1], in[2], in[0]};
  });
  ExpectAsInterpreted({out[0], out[1], out[2]});
}

TEST_F(ControlFlowTest, EachIterationDrawsDifferentRandomNumbers) {
  const Output shape = ops::VectorConst(root_, {2});
  const Outputs out =
      Repeat(2,
             {ops::Const(root_, Tensor::Of<double>({2}, {0, 0})),
              ops::Const(root_, Tensor::Of<double>({2}, {0, 0}))},
             [](const Scope& s, Args in) {
               return Outputs{in[1], ops::RandomUniform(s, ops::VectorConst(s, {2}), DT_DOUBLE)};
             });
  ASSERT_TRUE(shape.valid());
  const auto first = Value(out[0]);
  const auto second = Value(out[1]);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_NE(Difference(*first, *second, {}), "");
}

TEST_F(ControlFlowTest, GradientFlowsThroughTakenBranch) {
  for (const bool yes : {true, false}) {
    feeds_.clear();
    values_.clear();
    const Output predicate = Feed({}, Tensor::Scalar<bool>(yes));
    const Output x = Feed({2}, Tensor::Vector<double>({3, -2}));
    const Variable w = MakeVariable(root_, absl::StrCat("w", yes), Tensor::Vector<double>({5, 7}));
    const Output y = ops::If(
        root_, predicate, {x, w.handle},
        [](const Scope& s, Args in) {
          return Outputs{ops::Mul(s, ops::Square(s, in[0]), ops::ReadVariableOp(s, in[1]))};
        },
        [](const Scope& s, Args in) { return Outputs{ops::Mul(s, in[0], Number(s, 4))}; })[0];
    const auto dx = Gradients(AllOps(), root_, {y}, {x, w.handle});
    ASSERT_TRUE(dx.ok()) << dx.status();
    const auto of_x = Value((*dx)[0]), of_w = Value((*dx)[1]);
    ASSERT_TRUE(of_x.ok() && of_w.ok()) << of_x.status() << of_w.status();
    const Tensor want_x = yes ? Tensor::Vector<double>({30, -28}) : Tensor::Vector<double>({4, 4});
    const Tensor want_w = yes ? Tensor::Vector<double>({9, 4}) : Tensor::Vector<double>({0, 0});
    EXPECT_EQ(Difference(want_x, *of_x, kTolerance), "");
    EXPECT_EQ(Difference(want_w, *of_w, kTolerance), "");
  }
}

TEST_F(ControlFlowTest, GraphWithFunctionsSurvivesGraphDefRoundTrip) {
  const Output x = Rows(4, 2);
  const Variable w = MakeVariable(root_, "w", RandomTensor(DT_DOUBLE, {2, 2}, &random_));
  const Output y = Repeat(2, {x, w.handle}, [](const Scope& s, Args in) {
    return Outputs{ops::Tanh(s, ops::MatMul(s, in[0], ops::ReadVariableOp(s, in[1]))), in[1]};
  })[0];
  const auto want = Value(y);
  ASSERT_TRUE(want.ok()) << want.status();
  const auto def = graph_.ToGraphDef();
  ASSERT_TRUE(def.ok()) << def.status();
  auto read = Graph::FromGraphDef(*def, AllOps());
  ASSERT_TRUE(read.ok()) << read.status();
  const std::string name = y.node->name();
  const int index = y.index;
  const std::string feed = feeds_[0].node->name();
  graph_ = *std::move(read);
  feeds_ = {graph_.FindNode(feed)->output(0)};
  const auto got = Value(graph_.FindNode(name)->output(index));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(Difference(*want, *got, {}), "");
}

TEST_F(ControlFlowTest, MaximumIterationsEndLoopThatWouldContinue) {
  const Output limit = Feed({}, Tensor::Scalar<int32_t>(4));
  const auto double_up_to = [&](std::optional<int64_t> maximum) {
    return ops::While(
        root_, {Integer(root_, 0), limit, Number(root_, 1)},
        [](const Scope& s, Args in) { return Outputs{ops::Less(s, in[0], in[1])}; },
        [](const Scope& s, Args in) {
          return Outputs{ops::AddV2(s, in[0], Integer(s, 1)), in[1],
                         ops::Mul(s, in[2], Number(s, 2))};
        },
        {.maximum_iterations = maximum})[2];
  };
  const Output unlimited = double_up_to(std::nullopt), low = double_up_to(3),
               high = double_up_to(100), none = double_up_to(0);
  ExpectAsInterpreted({unlimited, low, high, none});
  const std::pair<Output, double> kWant[] = {{unlimited, 16}, {low, 8}, {high, 16}, {none, 1}};
  for (const auto& [output, want] : kWant) {
    const auto got = Value(output);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->scalar<double>(), want);
  }
}

TEST_F(ControlFlowTest, NegativeMaximumIterationsIsRejected) {
  const Outputs results = ops::While(
      root_, {Number(root_, 0)},
      [](const Scope& s, Args) { return Outputs{ops::Const(s, Tensor::Scalar<bool>(true))}; },
      [](const Scope&, Args in) { return Outputs{in[0]}; }, {.maximum_iterations = -1});
  EXPECT_EQ(results.size(), 1u);
  EXPECT_THAT(graph_.status(),
              IsError(absl::StatusCode::kInvalidArgument, "While", "maximum_iterations", "got -1"));
}

TEST_F(ControlFlowTest, EndlessLoopStopsAtStepTimeout) {
  const Output x = ops::While(
      root_, {Integer(root_, 0)},
      [](const Scope& s, Args) { return Outputs{ops::Const(s, Tensor::Scalar<bool>(true))}; },
      [](const Scope& s, Args in) { return Outputs{ops::AddV2(s, in[0], Integer(s, 1))}; })[0];
  EXPECT_THAT(ErrorOf({x}, {}, 1, {.step_timeout = absl::Milliseconds(50)}),
              IsError(absl::StatusCode::kDeadlineExceeded, "StatelessWhile(", "deadline passed"));
}

TEST_F(ControlFlowTest, FailureInLoopNamesNodeAndLeavesVariablesUnchanged) {
  const Output labels = Feed({kUnknownDim}, Tensor::Vector<int32_t>({0, 1, 9, 1}));
  const Tensor initial = RandomTensor(DT_DOUBLE, {3, 2}, &random_);
  const Variable table = MakeVariable(root_, "table", initial);
  const Output rows = Repeat(2, {labels, table.handle}, [](const Scope& s, Args in) {
    const Output value = ops::ReadVariableOp(s, in[1]);
    const Output rows = ops::GatherV2(s, value, in[0], ops::ScalarConst(s, DT_INT32, 0));
    const Output sum = ops::Sum(s, rows, {0, 1});
    const Operation add = ops::AssignVariableOp(s, in[1], ops::AddV2(s, value, sum));
    return Outputs{ops::Identity(s.WithControlDependencies({add}), in[0]), in[1]};
  })[0];
  for (const int replicas : {1, 2}) {
    auto session = CreateTestSession(graph_, {.replicas = replicas});
    ASSERT_TRUE(session.ok()) << session.status();
    auto step = (*session)->Prepare(feeds_, {rows}, {});
    ASSERT_TRUE(step.ok()) << step.status();
    const auto out = step->Run(values_);
    EXPECT_THAT(out.status(), IsError(absl::StatusCode::kInvalidArgument, "While(", "/body/", "9"));
    const auto left = (*session)->ReadVariable("table");
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_EQ(Difference(initial, *left, {}), "");
  }
}

TEST_F(ControlFlowTest, ShapesThatDependOnControlFlowAreRejected) {
  const Output grows = Repeat(2, {Number(root_, 1)}, [](const Scope& s, Args in) {
    return Outputs{ops::Pack(s, {in[0], in[0]})};
  })[0];
  EXPECT_THAT(ErrorOf({grows}), IsError(absl::StatusCode::kUnimplemented, "how often"));
  const Output either = ops::If(
      root_, Feed({}, Tensor::Scalar<bool>(true)), {Number(root_, 1)},
      [](const Scope&, Args in) { return Outputs{in[0]}; },
      [](const Scope& s, Args in) {
        return Outputs{ops::Pack(s, {in[0], in[0]})};
      })[0];
  EXPECT_THAT(ErrorOf({either}), IsError(absl::StatusCode::kUnimplemented, "which branch"));
}

TEST_F(ControlFlowTest, OptimizerOpInBranchIsRejected) {
  const Variable w = MakeVariable(root_, "w", Tensor::Scalar<double>(1));
  const Output y = ops::If(
      root_, Feed({}, Tensor::Scalar<bool>(true)), {w.handle},
      [](const Scope& s, Args in) {
        ops::ResourceApplyGradientDescent(s, in[0], Number(s, 1), Number(s, 1));
        return Outputs{Number(s, 0)};
      },
      Twenty)[0];
  EXPECT_THAT(ErrorOf({y}), IsError(absl::StatusCode::kUnimplemented,
                                    "ResourceApplyGradientDescent(", "AssignVariableOp"));
}

TEST_F(ControlFlowTest, VariableCreatedInFunctionIsRejected) {
  const Output y = ops::If(
      root_, Feed({}, Tensor::Scalar<bool>(true)), {},
      [](const Scope& s, Args) {
        const Output own = ops::VarHandleOp(s.WithName("own"), DT_DOUBLE, {});
        return Outputs{ops::ReadVariableOp(s, own)};
      },
      Twenty)[0];
  EXPECT_THAT(ErrorOf({y}), IsError(absl::StatusCode::kUnimplemented, "variables", "passed"));
}

TEST_F(ControlFlowTest, BranchThatReturnsVariableIsRejected) {
  const Variable a = MakeVariable(root_, "a", Tensor::Scalar<double>(1));
  const Variable b = MakeVariable(root_, "b", Tensor::Scalar<double>(2));
  const Output chosen = ops::If(
      root_, Feed({}, Tensor::Scalar<bool>(true)), {a.handle, b.handle},
      [](const Scope&, Args in) { return Outputs{in[0]}; },
      [](const Scope&, Args in) { return Outputs{in[1]}; })[0];
  const Output read =
      ops::Build(root_, "ReadVariableOp").Input(chosen).Attr("dtype", DT_DOUBLE).One();
  EXPECT_THAT(ErrorOf({read}), IsError(absl::StatusCode::kUnimplemented, "variables", "step runs"));
}

TEST_F(ControlFlowTest, PerReplicaValueIsRejectedAsLoopInput) {
  const Output x = Rows(4, 2);
  const Output y = Repeat(2, {ops::Cast(root_, ops::ReplicaIndex(root_), DT_DOUBLE)},
                          [](const Scope& s, Args in) { return Outputs{ops::Tanh(s, in[0])}; })[0];
  EXPECT_THAT(ErrorOf({x, y}, {}, 2), IsError(absl::StatusCode::kUnimplemented, "differs"));
}

// Every replica computes with its own part, which the branches reduce in different ways.
TEST_F(ControlFlowTest, BranchesTakeAndReturnPartsOfReplicas) {
  const Output x = Rows(4, 2);
  const Output part = ops::LocalPart(root_, ops::Sum(root_, x, {0}));
  for (const bool taken : {false, true}) {
    const Outputs y = ops::If(
        root_, Feed({}, Tensor::Scalar<bool>(taken)), {part, Number(root_, 2)},
        [](const Scope& s, Args in) {
          return Outputs{ops::Mul(s, in[0], in[1]), ops::AllReduce(s, in[0])};
        },
        [](const Scope& s, Args in) {
          const Output sum = ops::AllReduce(s, ops::Mul(s, in[0], in[1]));
          return Outputs{ops::LocalPart(s, ops::ZerosLike(s, sum)), sum};
        });
    ExpectAsInterpreted({ops::AllReduce(root_, y[0]), y[1]});
  }
}

// Function i calls function i + 1 in both branches, so a small file expands to 2^levels calls.
TEST_F(ControlFlowTest, ExponentiallyNestedFunctionsAreRejected) {
  const Output x = Feed({}, Tensor::Scalar(1.0));
  auto level = [](auto& self, const Scope& s, const Output& x, int depth) -> Output {
    if (depth == 0) return ops::Neg(s, x);
    const auto inner = [&](const Scope& t, Args in) {
      return Outputs{self(self, t, in[0], depth - 1)};
    };
    const Output yes = ops::Greater(s, x, Number(s, 0));
    const Output y =
        ops::If(s, yes, {x}, inner, [](const Scope&, Args in) { return Outputs{in[0]}; })[0];
    // Both branches call the function that was built for the first one.
    if (y.valid()) {
      s.graph().SetAttr(y.node, "else_branch", y.node->attr<FunctionRef>("then_branch"));
    }
    return y;
  };
  const Output many = level(level, root_, x, 16);
  EXPECT_THAT(ErrorOf({many}), IsError(absl::StatusCode::kResourceExhausted, "many functions"));
  const Output endless = level(level, root_, x, 60);
  EXPECT_THAT(ErrorOf({endless}), IsError(absl::StatusCode::kResourceExhausted, "too large"));
}

// A branch with a constant predicate is replaced by the nodes of its function. Those nodes also
// count towards the limit.
TEST_F(ControlFlowTest, ExponentiallyNestedConstantBranchesAreRejected) {
  auto level = [](auto& self, const Scope& s, const Output& x, int depth) -> Output {
    if (depth == 0) return ops::Neg(s, x);
    const auto inner = [&](const Scope& t, Args in) {
      return Outputs{self(self, t, in[0], depth - 1)};
    };
    const auto same = [](const Scope&, Args in) { return Outputs{in[0]}; };
    const Output yes = ops::Const(s, Tensor::Scalar<bool>(true));
    const Output y = ops::If(s, yes, {x}, inner, same)[0];
    const Output again = ops::If(s, yes, {y}, same, same)[0];
    if (again.valid()) {
      s.graph().SetAttr(again.node, "then_branch", y.node->attr<FunctionRef>("then_branch"));
    }
    return again;
  };
  const Output x = Feed({}, Tensor::Scalar(1.0));
  EXPECT_EQ(ErrorOf({level(level, root_, x, 4)}), absl::OkStatus());
  EXPECT_THAT(ErrorOf({level(level, root_, x, 16)}),
              IsError(absl::StatusCode::kResourceExhausted, "many functions"));
}

TEST_F(ControlFlowTest, TooDeeplyNestedBranchesAreRejected) {
  const Output x = Feed({}, Tensor::Scalar(1.0));
  auto level = [](auto& self, const Scope& s, const Output& x, int depth) -> Output {
    if (depth == 0) return ops::Neg(s, x);
    const Output yes = ops::Greater(s, x, Number(s, 0));
    return ops::If(
        s, yes, {x},
        [&](const Scope& t, Args in) { return Outputs{self(self, t, in[0], depth - 1)}; },
        [](const Scope&, Args in) { return Outputs{in[0]}; })[0];
  };
  EXPECT_THAT(ErrorOf({level(level, root_, x, 65)}),
              IsError(absl::StatusCode::kResourceExhausted, "too deep"));
  EXPECT_EQ(ErrorOf({level(level, root_, x, 64)}), absl::OkStatus());
}

TEST_F(ControlFlowTest, TooDeeplyNestedConstantBranchesAreRejected) {
  auto level = [](auto& self, const Scope& s, const Output& x, int depth) -> Output {
    if (depth == 0) return ops::Neg(s, x);
    return ops::If(
        s, ops::Const(s, Tensor::Scalar<bool>(true)), {x},
        [&](const Scope& t, Args in) { return Outputs{self(self, t, in[0], depth - 1)}; },
        [](const Scope&, Args in) { return Outputs{in[0]}; })[0];
  };
  const Output x = Feed({}, Tensor::Scalar(1.0));
  EXPECT_THAT(ErrorOf({level(level, root_, x, 65)}),
              IsError(absl::StatusCode::kResourceExhausted, "too deep"));
  EXPECT_EQ(ErrorOf({level(level, root_, x, 64)}), absl::OkStatus());
}

TEST_F(ControlFlowTest, BuilderReportsInvalidResultsOfFunction) {
  const Output x = Number(root_, 1);
  {
    Graph graph;
    const Scope scope(&graph);
    ops::If(scope, ops::Const(scope, Tensor::Scalar<bool>(true)), {}, Ten,
            [](const Scope& s, Args) { return Outputs{Integer(s, 1)}; });
    EXPECT_THAT(graph.status(), IsError(absl::StatusCode::kInvalidArgument, "dtypes"));
  }
  {
    Graph graph;
    const Scope scope(&graph);
    ops::If(scope, ops::Const(scope, Tensor::Scalar<bool>(true)), {}, Ten,
            [&](const Scope&, Args) { return Outputs{x}; });
    EXPECT_THAT(graph.status(), IsError(absl::StatusCode::kInvalidArgument, "inputs"));
  }
}

}  // namespace
}  // namespace mirrorflow
