// SPDX-License-Identifier: Apache-2.0
//
// Tests gradients of loops. For loops written by TensorFlow, both TensorFlow's gradient graph
// (tests/references/make_loop_graphs.py) and Mirrorflow's gradient must give TensorFlow's results.
// For loops built with Mirrorflow, the gradient must equal the gradient of the unrolled loop.
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "framework/graph/gradients.h"
#include "framework/graph/graph_file.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/support/is_error.h"
#include "tests/support/literals.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

absl::StatusOr<std::vector<Tensor>> RunOnce(const Graph& graph, const Outputs& feeds,
                                            const std::vector<Tensor>& values,
                                            const Outputs& fetches, int replicas) {
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, {.replicas = replicas}));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare(feeds, fetches, {}));
  std::vector<Tensor> results;
  for (int run = 0; run < 2; ++run) {  // the second run starts from the state after the first
    MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run(values));
    results.clear();
    for (size_t i = 0; i < fetches.size(); ++i) {
      MF_ASSIGN_OR_RETURN(Tensor copy, out[i].Clone());
      results.push_back(std::move(copy));
    }
  }
  return results;
}

// --- Loops written by TensorFlow --------------------------------------------------------------

struct Case {
  const char* name;
  bool has_forward;  // whether NAME_forward.pb has the loop without TensorFlow's gradient
  int replicas;
};

class ForeignLoopTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string path = absl::StrCat("tests/references/loops/", GetParam().name);
    std::ifstream file(path + ".txt");
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
      if (words.size() < 3 || words[0] == "#") continue;
      auto value = ParseTensorLiteral(words[2]);
      ASSERT_TRUE(value.ok()) << value.status();
      (words[0] == "feed" ? feeds_ : values_)[words[1]] = *std::move(value);
    }
    ASSERT_EQ(feeds_.size(), 2u);
    ASSERT_EQ(values_.size(), 3u);
    Read(".pb");
  }

  void Read(const std::string& ending) {
    const std::string path = absl::StrCat("tests/references/loops/", GetParam().name, ending);
    auto graph = ReadGraphFile(path, AllOps());
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
  }

  Output Value(const std::string& name) const { return graph_.FindNode(name)->output(0); }

  void ExpectValues(const Outputs& fetches) {
    const auto got = RunOnce(graph_, {Value("x0"), Value("x1")}, {feeds_["x0"], feeds_["x1"]},
                             fetches, GetParam().replicas);
    ASSERT_TRUE(got.ok()) << got.status();
    const char* names[] = {"y", "dx0", "dx1"};
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(Difference(values_[names[i]], (*got)[i], {.relative = 1e-5, .absolute = 1e-5}), "")
          << names[i];
    }
  }

  Graph graph_;
  std::map<std::string, Tensor> feeds_, values_;
};

TEST_P(ForeignLoopTest, TensorFlowGradientGraphMatchesTensorFlow) {
  ExpectValues({Value("y"), Value("dx0"), Value("dx1")});
}

TEST_P(ForeignLoopTest, OwnGradientMatchesTensorFlow) {
  if (GetParam().has_forward) Read("_forward.pb");
  const auto dx = Gradients(AllOps(), Scope(&graph_), {Value("y")}, {Value("x0"), Value("x1")});
  ASSERT_TRUE(dx.ok()) << dx.status();
  ExpectValues({Value("y"), (*dx)[0], (*dx)[1]});
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* name : {"counted", "counted_with_maximum", "bounded", "scan", "backward_scan"}) {
    for (int replicas : {1, 3}) cases.push_back({name, false, replicas});
  }
  for (const char* name :
       {"branching", "first_branch", "second_branch", "nested", "loop_in_branch", "deep"}) {
    for (int replicas : {1, 3}) cases.push_back({name, true, replicas});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Loops, ForeignLoopTest, testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrCat(info.param.name, "_on_", info.param.replicas);
});

// --- Loops built with Mirrorflow -------------------------------------------------------------

constexpr Tolerance kTolerance{.relative = 1e-11, .absolute = 1e-12};

Output Integer(const Scope& scope, int32_t value) {
  return ops::Const(scope, Tensor::Scalar<int32_t>(value));
}

// Builds a loop of `times` iterations, or the unrolled equivalent if `loop` is false.
Outputs Repeat(const Scope& scope, bool loop, int times, Outputs values,
               ops::FunctionBuilder next) {
  if (!loop) {
    for (int i = 0; i < times; ++i) values = next(scope, values);
    return values;
  }
  values.insert(values.begin(), Integer(scope, 0));
  Outputs results = ops::While(
      scope, values,
      [&](const Scope& s, Args in) { return Outputs{ops::Less(s, in[0], Integer(s, times))}; },
      [&](const Scope& s, Args in) {
        Outputs out = next(s, in.subspan(1));
        out.insert(out.begin(), ops::AddV2(s, in[0], Integer(s, 1)));
        return out;
      });
  results.erase(results.begin());
  return results;
}

class LoopGradientTest : public testing::Test {
 protected:
  using Program = absl::FunctionRef<Output(const Scope&, bool loop, Output x, Output w)>;

  // Expects y and its gradients to be the same for the loop and for its unrolled form, on 1 and 3
  // replicas.
  void ExpectEqualsUnrolled(Program program) {
    const std::vector<Tensor> values = {RandomTensor(DT_DOUBLE, {6, 3}, &random_),
                                        RandomTensor(DT_DOUBLE, {3, 3}, &random_)};
    std::vector<Tensor> want;
    for (const bool loop : {false, true}) {
      Graph graph;
      const Scope root(&graph);
      const Output x = ops::Placeholder(root, DT_DOUBLE, {kUnknownDim, 3});
      const Output w = ops::Placeholder(root, DT_DOUBLE, {3, 3});
      const Output y = program(root, loop, x, w);
      ASSERT_TRUE(root.ok()) << root.status();
      const auto dx = Gradients(AllOps(), root, {y}, {x, w});
      ASSERT_TRUE(dx.ok()) << dx.status();
      for (const int replicas : {1, 3}) {
        const auto got = RunOnce(graph, {x, w}, values, {y, (*dx)[0], (*dx)[1]}, replicas);
        ASSERT_TRUE(got.ok()) << got.status();
        if (want.empty()) want = *got;
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(Difference(want[i], (*got)[i], kTolerance), "") << "value " << i;
        }
      }
    }
  }

  Random random_{5};
};

Outputs Cell(const Scope& s, Args in) {
  const Output h = ops::Tanh(s, ops::AddV2(s, ops::MatMul(s, in[0], in[1]), in[2]));
  return {h, in[1], in[2]};
}

TEST_F(LoopGradientTest, EqualsGradientOfUnrolledLoop) {
  for (const int times : {1, 2, 7}) {
    SCOPED_TRACE(times);
    ExpectEqualsUnrolled([&](const Scope& s, bool loop, Output x, Output w) {
      return Repeat(s, loop, times, {x, w, x}, Cell)[0];
    });
  }
}

TEST_F(LoopGradientTest, PassesThroughLoopWithZeroIterations) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_DOUBLE, {kUnknownDim, 3});
  const Output w = ops::Placeholder(root, DT_DOUBLE, {3, 3});
  const Output y = Repeat(root, true, 0, {x, w, x}, Cell)[0];
  const auto dx = Gradients(AllOps(), root, {y}, {x, w});
  ASSERT_TRUE(dx.ok()) << dx.status();
  const std::vector<Tensor> values = {RandomTensor(DT_DOUBLE, {2, 3}, &random_),
                                      RandomTensor(DT_DOUBLE, {3, 3}, &random_)};
  const auto got = RunOnce(graph, {x, w}, values, {y, (*dx)[0], (*dx)[1]}, 1);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(Difference(values[0], (*got)[0], kTolerance), "");
  const Tensor ones = Tensor::Of<double>({2, 3}, {1, 1, 1, 1, 1, 1});
  const Tensor zeros = Tensor::Of<double>({3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(Difference(ones, (*got)[1], kTolerance), "");
  EXPECT_EQ(Difference(zeros, (*got)[2], kTolerance), "");
}

TEST_F(LoopGradientTest, FlowsThroughSeveralResultsAndPermutedValues) {
  ExpectEqualsUnrolled([](const Scope& s, bool loop, Output x, Output w) {
    const Outputs out = Repeat(s, loop, 5, {x, ops::Sin(s, x), w}, [](const Scope& s, Args in) {
      return Outputs{in[1], ops::Mul(s, in[0], ops::MatMul(s, in[1], in[2])), in[2]};
    });
    return ops::AddV2(s, out[0], ops::Square(s, out[1]));
  });
}

TEST_F(LoopGradientTest, FlowsThroughNestedLoops) {
  ExpectEqualsUnrolled([](const Scope& s, bool loop, Output x, Output w) {
    return Repeat(s, loop, 3, {x, w, x}, [&](const Scope& s, Args in) {
      Outputs out = Repeat(s, loop, 2, {in[0], in[1], in[2]}, Cell);
      return Outputs{ops::Sin(s, out[0]), in[1], in[2]};
    })[0];
  });
}

TEST_F(LoopGradientTest, FlowsThroughListsReadAndWrittenInLoop) {
  ExpectEqualsUnrolled([](const Scope& s, bool loop, Output x, Output w) {
    const Output rows = ops::Pack(s, {x, ops::Sin(s, x), ops::Square(s, x), x});
    const Output read = ops::TensorListFromTensor(s, rows);
    const Output written =
        ops::TensorListReserve(s, DT_DOUBLE, ops::VectorConst(s, {-1, 3}), Integer(s, 4));
    const Outputs out =
        Repeat(s, loop, 4, {Integer(s, 0), x, w, read, written}, [](const Scope& s, Args in) {
          const Output item = ops::TensorListGetItem(s, in[3], in[0], DT_DOUBLE);
          const Output h = ops::Tanh(s, ops::Mul(s, item, ops::MatMul(s, in[1], in[2])));
          return Outputs{ops::AddV2(s, in[0], Integer(s, 1)), h, in[2], in[3],
                         ops::TensorListSetItem(s, in[4], in[0], ops::Square(s, h))};
        });
    const Output stacked = ops::TensorListStack(s, out[4], DT_DOUBLE);
    const Output weights = ops::Const(s, Tensor::Of<double>({4, 1, 1}, {1, -2, 3, 0.5}));
    return ops::Sum(s, ops::Mul(s, stacked, weights), {0});
  });
}

TEST_F(LoopGradientTest, FlowsThroughListPassedToBranch) {
  ExpectEqualsUnrolled([](const Scope& s, bool branches, Output x, Output w) {
    const Output list = ops::TensorListFromTensor(s, ops::Pack(s, {x, ops::Sin(s, x)}));
    const auto taken = [](const Scope& s, Args in) {
      const Output first = ops::TensorListGetItem(s, in[0], Integer(s, 0), DT_DOUBLE);
      const Output product = ops::Mul(s, first, ops::MatMul(s, first, in[1]));
      return Outputs{ops::TensorListSetItem(s, in[0], Integer(s, 1), product), first};
    };
    const auto other = [](const Scope& s, Args in) {
      return Outputs{in[0], ops::TensorListGetItem(s, in[0], Integer(s, 1), DT_DOUBLE)};
    };
    const Output none = ops::Const(s, Tensor::Scalar<double>(1e9));
    const Output few = ops::Less(s, ops::Max(s, x, {0, 1}), none);
    const Outputs out =
        branches ? ops::If(s, few, {list, w}, taken, other) : taken(s, Outputs{list, w});
    const Output stacked = ops::TensorListStack(s, out[0], DT_DOUBLE, {.num_elements = 2});
    const Output weights = ops::Const(s, Tensor::Of<double>({2, 1, 1}, {1, -2}));
    const Output sum = ops::Reshape(s, stacked, Shape({2, 6, 3}));
    return ops::AddV2(s, ops::Sum(s, ops::Mul(s, sum, weights), {0}), out[1]);
  });
}

// A loop that reads a variable, with or without a known bound on its iterations.
struct VariableLoop {
  Graph graph;
  Output x, loss, gradient;
};

void Build(bool bounded, VariableLoop* v) {
  const Scope root(&v->graph);
  const Variable w = CreateVariable(
      root, "w", {2, 2},
      [](const Scope& s, const Shape&, DataType) {
        return ops::Const(s, Tensor::Of<float>({2, 2}, {0.5f, -0.25f, 0.125f, 1.0f}));
      },
      DT_FLOAT);
  v->x = ops::Placeholder(root, DT_FLOAT, {kUnknownDim, 2});
  const Outputs out = ops::While(
      root.WithName("steps"), {Integer(root, 0), v->x, w.handle},
      [&](const Scope& s, Args in) {
        const Output small = ops::Less(s, ops::Sum(s, ops::Square(s, in[1]), {0, 1}),
                                       ops::ScalarConst(s, DT_FLOAT, 100));
        if (!bounded) return Outputs{small};
        return Outputs{ops::LogicalAnd(s, ops::Less(s, in[0], Integer(s, 4)), small)};
      },
      [](const Scope& s, Args in) {
        const Output h = ops::MatMul(s, in[1], ops::ReadVariableOp(s, in[2]));
        return Outputs{ops::AddV2(s, in[0], Integer(s, 1)), ops::AddV2(s, h, in[1]), in[2]};
      });
  v->loss = ops::Sum(root, out[1], {0, 1});
  const auto gradients = Gradients(AllOps(), root, {v->loss}, {w.handle});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  v->gradient = (*gradients)[0];
}

TEST(LoopOverVariableTest, GradientWithoutIterationBoundIsRejected) {
  VariableLoop loop;
  Build(/*bounded=*/false, &loop);
  const Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  const auto got = RunOnce(loop.graph, {loop.x}, {x}, {loop.gradient}, 1);
  EXPECT_THAT(got.status(),
              IsError(absl::StatusCode::kUnimplemented, "steps_history", "maximum_iterations"));
  EXPECT_TRUE(RunOnce(loop.graph, {loop.x}, {x}, {loop.loss}, 1).ok());
}

int Count(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(LoopOverVariableTest, MaximumIterationsBoundGradient) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Const(root, Tensor::Scalar<float>(3));
  const Output limit = ops::Placeholder(root.WithName("limit"), DT_FLOAT, {});
  const Output y = ops::While(
      root, {x, limit}, [](const Scope& s, Args in) { return Outputs{ops::Less(s, in[0], in[1])}; },
      [](const Scope& s, Args in) {
        return Outputs{ops::Mul(s, in[0], in[0]), in[1]};
      },
      {.maximum_iterations = 5})[0];
  const auto dx = Gradients(AllOps(), root, {y}, {x});
  ASSERT_TRUE(dx.ok()) << dx.status();
  const auto got = RunOnce(graph, {limit}, {Tensor::Scalar<float>(50)}, {y, (*dx)[0]}, 2);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<float>(), 81);   // x^4
  EXPECT_EQ((*got)[1].scalar<float>(), 108);  // 4 x^3
}

TEST(LoopOverVariableTest, GradientRunsForwardOnceAndReducesOnceAfterLoop) {
  VariableLoop loop;
  Build(/*bounded=*/true, &loop);
  auto session = CreateTestSession(loop.graph, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare({loop.x}, {loop.loss, loop.gradient}, {});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto plans = CompileStep(*step, {Shape({4, 2})});
  ASSERT_TRUE(plans.ok()) << plans.status();
  const Compilation& c = plans->program->state;
  int loops = 0, reduced = 0;
  for (const Node* node : c.graph.Nodes()) {
    loops += node->op().role == OpRole::kLoop;
    reduced += node->op().role == OpRole::kCollective ? node->num_outputs() : 0;
  }
  EXPECT_EQ(loops, 2) << plans->program->ToString();
  EXPECT_EQ(reduced, 2) << plans->program->ToString();
  for (const auto& [id, bodies] : c.bodies) {
    // The condition reduces sharded values; the bodies need no collective.
    EXPECT_TRUE(bodies[1]->collectives.empty()) << plans->program->ToString();
  }
  EXPECT_EQ(Count(plans->program->ToString(), "variant"), 0);
}

}  // namespace
}  // namespace mirrorflow
