// SPDX-License-Identifier: Apache-2.0
//
// A graph that ReplicatedGraph writes out for all replicas gives the strategy's results after it is
// saved and loaded, both on one device and in the reference interpreter.
#include "distribute/replicated_graph.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/graph_def.h"
#include "framework/session/step_runner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "tools/models/classifiers.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kSteps = 2;
constexpr Tolerance kDouble{.relative = 1e-8, .absolute = 1e-9};
constexpr Tolerance kFloat{.relative = 1e-4, .absolute = 1e-5};

struct Setting {
  std::vector<Tensor> values;  // the fed values
  Tolerance tolerance;
  bool interpret = true;
};

absl::StatusOr<std::string> CompareVariables(Session& want, Session& got, Interpreter* interpreter,
                                             const Tolerance& tolerance) {
  for (const VariableInfo& variable : want.layout().variables()) {
    MF_ASSIGN_OR_RETURN(const Tensor value, want.ReadVariable(variable.name));
    MF_ASSIGN_OR_RETURN(const Tensor other, got.ReadVariable(variable.name));
    std::string difference = Difference(value, other, tolerance);
    if (difference.empty() && interpreter != nullptr) {
      difference = Difference(value, interpreter->variables()[variable.name], tolerance);
    }
    if (!difference.empty()) return absl::StrCat("variable ", variable.name, ": ", difference);
  }
  return std::string();
}

// Returns the first difference, or an empty string.
absl::StatusOr<std::string> Compare(const Graph& graph, ReplicatedStep step,
                                    const Setting& setting) {
  for (const Tensor& value : setting.values) step.feed_shapes.push_back(value.shape());
  MF_ASSIGN_OR_RETURN(const Graph exported, ReplicatedGraph(graph, step));
  MF_ASSIGN_OR_RETURN(const proto::GraphDef def, ToGraphDef(exported));
  MF_ASSIGN_OR_RETURN(const Graph written_out, FromGraphDef(def, AllOps()));

  MF_ASSIGN_OR_RETURN(const auto session,
                      CreateTestSession(graph, {.replicas = step.num_replicas}));
  MF_ASSIGN_OR_RETURN(const auto one, CreateTestSession(written_out, {}));
  MF_ASSIGN_OR_RETURN(Interpreter interpreter,
                      Interpreter::Create(written_out, TestKernels(), {.ops = &AllOps()}));
  // The session draws the random initial values, and the interpreter copies them.
  for (const VariableInfo& variable : one->layout().variables()) {
    MF_ASSIGN_OR_RETURN(interpreter.variables()[variable.name], one->ReadVariable(variable.name));
  }
  Interpreter* const reference = setting.interpret ? &interpreter : nullptr;
  MF_ASSIGN_OR_RETURN(std::string difference,
                      CompareVariables(*session, *one, reference, setting.tolerance));
  if (!difference.empty()) return absl::StrCat("before the first step, ", difference);

  const auto same = [&](const Output& output) {
    return written_out.FindNode(output.node->name())->output(output.index);
  };
  std::vector<Output> feeds, fetches;
  std::vector<Operation> targets;
  std::vector<std::pair<Output, Tensor>> fed;
  for (const Output& feed : step.feeds) feeds.push_back(same(feed));
  for (const Output& fetch : step.fetches) fetches.push_back(same(fetch));
  for (const Operation& target : step.targets) {
    targets.push_back({written_out.FindNode(target.node->name())});
  }
  for (size_t i = 0; i < feeds.size(); ++i) fed.emplace_back(feeds[i], setting.values[i]);
  MF_ASSIGN_OR_RETURN(Step replicated, session->Prepare(step.feeds, step.fetches, step.targets));
  MF_ASSIGN_OR_RETURN(Step single, one->Prepare(feeds, fetches, targets));
  for (int s = 0; s < kSteps; ++s) {
    MF_ASSIGN_OR_RETURN(const StepOutputs want,
                        replicated.Run(setting.values, {.replica_rows = step.replica_rows}));
    MF_ASSIGN_OR_RETURN(const StepOutputs got, single.Run(setting.values));
    std::vector<Tensor> interpreted;
    if (reference != nullptr) {
      StepParams params;
      params.step = StreamOfRun(static_cast<uint64_t>(s), /*writes=*/session->step() > 0);
      MF_ASSIGN_OR_RETURN(interpreted, reference->Run(fed, fetches, targets, params));
    }
    for (size_t i = 0; i < want.size(); ++i) {
      difference = Difference(want[i], got[i], setting.tolerance);
      if (difference.empty() && reference != nullptr) {
        difference = Difference(want[i], interpreted[i], setting.tolerance);
      }
      if (!difference.empty()) {
        return absl::StrCat("step ", s, ", ", fetches[i].ToString(), ": ", difference);
      }
    }
    MF_ASSIGN_OR_RETURN(difference, CompareVariables(*session, *one, reference, setting.tolerance));
    if (!difference.empty()) return absl::StrCat("step ", s, ", ", difference);
  }
  return std::string();
}

// Returns a random row count for each replica, with the sum `batch`.
std::vector<int64_t> RandomRows(int64_t batch, int replicas, Random& random) {
  std::vector<int64_t> rows;
  for (int r = 0; r + 1 < replicas; ++r) {
    rows.push_back(random.Below(batch + 1));
    batch -= rows.back();
  }
  rows.push_back(batch);
  return rows;
}

void ExpectProgramsMatch(uint64_t programs, bool communicates) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    const int num_ops = 4 + static_cast<int>(seed % 12);
    const auto program =
        MakeRandomProgram(seed, {.num_ops = num_ops, .communicates = communicates});
    ASSERT_TRUE(program.ok()) << program.status();
    Random random(seed);
    const int replicas = static_cast<int>(1 + seed % 3);
    const std::vector<int64_t> rows = RandomRows(program->batch, replicas, random);
    const auto difference = Compare(
        program->graph, {program->feeds, {}, program->fetches, program->targets, replicas, rows},
        {program->values, kDouble});
    if (absl::IsUnimplemented(difference.status())) {
      // Only programs with branches and loops are unsupported.
      ASSERT_THAT(difference.status(), IsError(absl::StatusCode::kUnimplemented, "branch"))
          << "seed " << seed;
      continue;
    }
    ++compared;
    ASSERT_TRUE(difference.ok()) << "seed " << seed << ": " << difference.status();
    ASSERT_EQ(*difference, "") << "seed " << seed << ", rows " << absl::StrJoin(rows, ",");
  }
  EXPECT_GT(compared, static_cast<int>(programs / 2));
}

TEST(ReplicatedGraph, RandomProgramsMatchStrategy) {
  ExpectProgramsMatch(NumRandomPrograms(1000), /*communicates=*/false);
}

TEST(ReplicatedGraph, RandomProgramsThatCommunicateMatchStrategy) {
  ExpectProgramsMatch(NumRandomPrograms(300), /*communicates=*/true);
}

class ReplicatedModel
    : public testing::TestWithParam<std::pair<const char*, std::vector<int64_t>>> {};

TEST_P(ReplicatedModel, TrainingMatchesStrategy) {
  const auto& [name, rows] = GetParam();
  int64_t batch = 0;
  for (const int64_t share : rows) batch += share;
  Graph graph;
  const Scope root(&graph);
  const auto model = BuildClassifier(root, name);
  ASSERT_TRUE(model.ok()) << model.status();
  const Operation train = Momentum({.learning_rate = 0.05}).Minimize(root, model->loss);
  Random random(7);
  Shape shape = model->images.node->attr<Shape>("shape");
  shape.set_dim(0, batch);
  const auto difference = Compare(graph,
                                  {{model->images, model->labels},
                                   {},
                                   {model->loss},
                                   {train},
                                   static_cast<int>(rows.size()),
                                   rows},
                                  {{RandomTensor(DT_FLOAT, shape, &random),
                                    RandomTensor(DT_INT32, Shape({batch}), &random, /*limit=*/10)},
                                   kFloat,
                                   /*interpret=*/absl::string_view(name) != "resnet"});
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_EQ(*difference, "");
}

using Rows = std::vector<int64_t>;
INSTANTIATE_TEST_SUITE_P(
    All, ReplicatedModel,
    testing::Values(std::pair{"mlp", Rows{8}}, std::pair{"mlp", Rows{5, 3}},
                    std::pair{"mlp", Rows{2, 0, 5}}, std::pair{"cnn", Rows{3, 2}},
                    std::pair{"cnn", Rows{1, 3, 2}}, std::pair{"resnet", Rows{4, 2}},
                    std::pair{"resnet", Rows{1, 2, 2}}),
    [](const auto& info) {
      return absl::StrCat(info.param.first, "_", absl::StrJoin(info.param.second, "_"));
    });

absl::StatusOr<Graph> ReplicateForFetch(const Graph& graph, const std::string& fetch, int replicas,
                                        std::vector<int64_t> rows = {}) {
  const Output feed = graph.FindNode("x")->output(0);
  return ReplicatedGraph(
      graph,
      {{feed}, {Shape({4, 2})}, {graph.FindNode(fetch)->output(0)}, {}, replicas, std::move(rows)});
}

absl::StatusOr<Graph> SumOfSquares() {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {kUnknownDim, 2});
  const Output squares = ops::Square(root.WithName("square"), x);
  ops::Identity(root.WithName("y"), ops::Sum(root, squares, {0}));
  MF_RETURN_IF_ERROR(graph.status());
  return graph;
}

TEST(ReplicatedGraph, NodesAreCopiedPerReplicaAndCollectiveBecomesOneCall) {
  const auto graph = SumOfSquares();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto result = ReplicateForFetch(*graph, "y", 3);
  ASSERT_TRUE(result.ok()) << result.status();
  int calls = 0;
  for (const Node* node : result->Nodes()) calls += node->op().role == OpRole::kUnknown;
  EXPECT_EQ(calls, 1);
  for (const char* name : {"x", "y", "replica_0/square", "replica_1/square", "replica_2/square"}) {
    EXPECT_NE(result->FindNode(name), nullptr) << name;
  }
  EXPECT_EQ(result->FindNode("replica_3/square"), nullptr);
  EXPECT_EQ(result->FindNode("square"), nullptr);
  EXPECT_EQ(result->values().shape(result->FindNode("replica_0/square")->output(0)), Shape({2, 2}));
  EXPECT_EQ(result->values().shape(result->FindNode("replica_2/square")->output(0)), Shape({1, 2}));
  ASSERT_EQ(result->functions().functions().size(), 1u);
  EXPECT_EQ(result->functions().functions().begin()->first.rfind("AllReduce_sum_3_", 0), 0u);
}

TEST(ReplicatedGraph, OneReplicaHasAllRows) {
  const auto graph = SumOfSquares();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto result = ReplicateForFetch(*graph, "square", 1);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->values().shape(result->FindNode("square")->output(0)), Shape({4, 2}));
}

TEST(ReplicatedGraph, MissingInitialValueIsReported) {
  auto graph = SumOfSquares();
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Output handle = ops::VarHandleOp(Scope(&*graph).WithName("w"), DT_FLOAT, {2});
  graph->SetAttr(handle.node, "_initializer", std::string("nothing:0"));
  EXPECT_THAT(ReplicateForFetch(*graph, "y", 2).status(),
              IsError(absl::StatusCode::kNotFound, "variable w", "'nothing:0'"));
}

TEST(ReplicatedGraph, InvalidReplicaRowsAreReported) {
  const auto graph = SumOfSquares();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(ReplicateForFetch(*graph, "y", 2, {1, 2}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "replica_rows", "sum 4", "got 1,2"));
  EXPECT_THAT(ReplicateForFetch(*graph, "y", 2, {4}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "replica_rows", "got 4"));
  EXPECT_THAT(ReplicateForFetch(*graph, "y", 0).status(),
              IsError(absl::StatusCode::kInvalidArgument, "num_replicas", "at least 1", "got 0"));
}

}  // namespace
}  // namespace mirrorflow
