// SPDX-License-Identifier: Apache-2.0
//
// Tests files that contain ReplicaIndex. TensorFlow lacks this op, so the files define it as a
// function.
#include "ops/replica_index.h"

#include "framework/graph/graph_def.h"
#include "framework/graph/text_form.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

Graph TwiceTheIndex() {
  Graph graph;
  const Scope root(&graph);
  const Output index = ops::ReplicaIndex(root.WithName("index"));
  ops::AddV2(root.WithName("twice"), index, index);
  return graph;
}

TEST(ReplicaIndex, ExportDefinesFunctionForOneReplica) {
  const auto def = ToGraphDef(TwiceTheIndex());
  ASSERT_TRUE(def.ok()) << def.status();
  ASSERT_EQ(def->library().function_size(), 1);
  const proto::FunctionDef& function = def->library().function(0);
  EXPECT_EQ(function.signature().name(), "ReplicaIndex");
  EXPECT_EQ(function.signature().input_arg_size(), 0);
  ASSERT_EQ(function.signature().output_arg_size(), 1);
  EXPECT_EQ(function.signature().output_arg(0).name(), "index");
  EXPECT_EQ(function.signature().output_arg(0).type(), proto::DT_INT32);
  EXPECT_EQ(function.ret().at("index"), "Const:output:0");
}

TEST(ReplicaIndex, RoundTripsThroughGraphDef) {
  const auto def = ToGraphDef(TwiceTheIndex());
  ASSERT_TRUE(def.ok()) << def.status();
  const auto graph = FromGraphDef(*def, AllOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->FindNode("index")->op().name, "ReplicaIndex");
  const auto again = ToGraphDef(*graph);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), def->DebugString());

  const auto session = CreateTestSession(*graph, {.replicas = 3});
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare({}, {graph->FindNode("twice")->output(0)});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_TRUE(step->Run({}).ok());
  const auto values = step->PerReplica(0);
  ASSERT_TRUE(values.ok()) << values.status();
  for (int r = 0; r < 3; ++r) EXPECT_EQ((*values)[r].scalar<int32_t>(), 2 * r);
}

TEST(ReplicaIndex, ExportDefinesFunctionUsedInBranch) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_INT32, {});
  const Output yes = ops::Placeholder(root.WithName("yes"), DT_BOOL, {});
  const auto add = [](const Scope& scope, absl::Span<const Output> in) {
    return std::vector<Output>{ops::AddV2(scope, in[0], ops::ReplicaIndex(scope))};
  };
  const auto keep = [](const Scope& scope, absl::Span<const Output> in) {
    return std::vector<Output>{ops::Identity(scope, in[0])};
  };
  ops::If(root.WithName("if"), yes, {x}, add, keep);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto def = ToGraphDef(graph);
  ASSERT_TRUE(def.ok()) << def.status();
  EXPECT_EQ(def->library().function_size(), 3);
  const auto loaded = FromGraphDef(*def, AllOps());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(GraphToText(*loaded), GraphToText(graph));
  const auto session = CreateTestSession(*loaded, {});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto result =
      (*session)->Run({{loaded->FindNode("x")->output(0), Tensor::Scalar<int32_t>(5)},
                       {loaded->FindNode("yes")->output(0), Tensor::Scalar<bool>(true)}},
                      {loaded->FindNode("if")->output(0)});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].scalar<int32_t>(), 5);
}

}  // namespace
}  // namespace mirrorflow
