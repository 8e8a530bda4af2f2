// SPDX-License-Identifier: Apache-2.0
//
// Tests ops that TensorFlow lacks. Files define them as functions that consist of TensorFlow's ops,
// and reading such a file restores the ops.
#include "framework/graph/own_ops.h"

#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/graph/graph_def.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/op_checks.h"

namespace mirrorflow {
namespace {

// Returns a registry that contains only TensorFlow's ops.
const OpRegistry& TensorFlowOps() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    for (const OpDef* op : AllOps().All()) {
      if (!op->has(kOwnOp)) ops->Define(*op).Role(op->role);
    }
    return ops;
  }();
  return *registry;
}

// Writes a case's node, reads it back with only TensorFlow's ops, and returns its results.
absl::StatusOr<std::vector<Tensor>> ByFunction(const CaseNode& made) {
  MF_ASSIGN_OR_RETURN(const proto::GraphDef def, ToGraphDef(made.graph));
  MF_ASSIGN_OR_RETURN(const Graph graph, FromGraphDef(def, TensorFlowOps()));
  MF_ASSIGN_OR_RETURN(Interpreter interpreter, Interpreter::Create(graph, CpuKernels()));
  std::vector<std::pair<Output, Tensor>> feeds;
  for (int i = 0; i < made.node->num_inputs(); ++i) {
    feeds.emplace_back(graph.FindNode(made.node->input(i).node->name())->output(0), made.inputs[i]);
  }
  const Node* returned = graph.FindNode(made.node->name());
  std::vector<Output> results;
  for (int i = 0; i < returned->num_outputs(); ++i) results.push_back(returned->output(i));
  return interpreter.Run(feeds, results);
}

bool IsReduced(const OpCase& op_case) {
  for (const OpCase::Operand& operand : op_case.operands) {
    if (IsReducedFloat(operand.value.dtype())) return true;
  }
  return false;
}

// Returns a tolerance that allows for the rounding of each op in the function, which is visible in
// half precision.
Tolerance ToleranceOfFormula(const OpCase& op_case, const CaseNode& made) {
  Tolerance tolerance = ToleranceOf(*made.node, made.inputs, op_case.outputs);
  const double unit = tolerance.relative;
  double largest = 1;
  for (const Tensor& input : made.inputs) largest = std::max(largest, LargestFinite(input));
  if (!IsReduced(op_case)) return {.relative = 4 * unit, .absolute = 4 * unit * largest};
  return {.relative = 16 * unit, .absolute = 16 * unit * largest * largest};
}

TEST(OwnOps, FunctionsInFileComputeSameResults) {
  const auto cases = LoadOpCases("tests/ops/cases");
  ASSERT_TRUE(cases.ok()) << cases.status();
  int checked = 0;
  for (const OpCase& op_case : *cases) {
    if (!AllOps().Find(op_case.op)->has(kOwnOp) || op_case.outputs.empty()) continue;
    const auto made = MakeCaseNode(op_case, AllOps());
    ASSERT_TRUE(made.ok()) << op_case.ToString() << made.status();
    const auto got = ByFunction(*made);
    ASSERT_TRUE(got.ok()) << op_case.ToString() << ": " << got.status();
    ASSERT_EQ(got->size(), op_case.outputs.size()) << op_case.ToString();
    const Tolerance tolerance = ToleranceOfFormula(op_case, *made);
    for (size_t i = 0; i < got->size(); ++i) {
      EXPECT_EQ(Difference(op_case.outputs[i], (*got)[i], tolerance), "")
          << op_case.ToString() << ", output " << i;
    }
    ++checked;
  }
  EXPECT_GT(checked, 100);
}

Graph SeveralOwnOps() {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {2, 3});
  const Output y = ops::Gelu(root.WithName("usual"), x);
  const Output z = ops::Gelu(root.WithName("other"), y, {.approximate = true});
  ops::Gelu(root.WithName("again"), z, {.approximate = true});
  return graph;
}

TEST(OwnOps, SameAttributesShareOneFunction) {
  const auto def = ToGraphDef(SeveralOwnOps());
  ASSERT_TRUE(def.ok()) << def.status();
  std::vector<std::string> names;
  for (const auto& function : def->library().function()) {
    names.push_back(function.signature().name());
    // TensorFlow loads SavedModels whose functions have this attribute, but rejects unknown
    // attributes.
    EXPECT_EQ(function.attr().at("_implements").s(), "mirrorflow.Gelu");
    EXPECT_EQ(function.attr().size(), 1);
  }
  ASSERT_EQ(names.size(), 2);
  EXPECT_EQ(names[0], "Gelu");  // TensorFlow finds the function by the op's name
  EXPECT_EQ(names[1].substr(0, 5), "Gelu_");
}

TEST(OwnOps, RoundTripThroughGraphDef) {
  const Graph graph = SeveralOwnOps();
  const auto def = ToGraphDef(graph);
  ASSERT_TRUE(def.ok()) << def.status();
  const auto read = FromGraphDef(*def, AllOps());
  ASSERT_TRUE(read.ok()) << read.status();
  for (const Node* node : graph.Nodes()) {
    const Node* same = read->FindNode(node->name());
    ASSERT_NE(same, nullptr) << node->name();
    EXPECT_EQ(same->DebugString(), node->DebugString());
  }
  const auto again = ToGraphDef(*read);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), def->DebugString());
}

// Otherwise, a user's function with the same name would be mistaken for the op.
TEST(OwnOps, ForeignFunctionWithSameNameIsRejected) {
  auto def = ToGraphDef(SeveralOwnOps());
  ASSERT_TRUE(def.ok()) << def.status();
  for (const absl::string_view implements : {"", "Gelu"}) {
    for (auto& function : *def->mutable_library()->mutable_function()) {
      if (function.signature().name() != "Gelu") continue;
      function.mutable_attr()->clear();
      if (implements.empty()) continue;
      (*function.mutable_attr())["_implements"].set_s(std::string(implements));
    }
    const absl::Status refused = FromGraphDef(*def, AllOps()).status();
    EXPECT_THAT(refused, IsError(absl::StatusCode::kInvalidArgument, "function 'Gelu'"));
  }
}

// The library must also contain the functions of ops that are used inside other functions.
TEST(OwnOps, FunctionsAreWrittenForOpsInBranches) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {});
  const Output yes = ops::Placeholder(root.WithName("yes"), DT_BOOL, {});
  const auto gelu = [](bool approximate) {
    return [=](const Scope& scope, absl::Span<const Output> in) {
      return std::vector<Output>{ops::Gelu(scope, in[0], {.approximate = approximate})};
    };
  };
  ops::If(root.WithName("if"), yes, {x}, gelu(true), gelu(false));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto def = ToGraphDef(graph);
  ASSERT_TRUE(def.ok()) << def.status();
  EXPECT_EQ(def->library().function_size(), 4);
  for (const OpRegistry* ops : {&AllOps(), &TensorFlowOps()}) {
    const auto read = FromGraphDef(*def, *ops);
    ASSERT_TRUE(read.ok()) << read.status();
    auto interpreter = Interpreter::Create(*read, CpuKernels(), {.ops = ops});
    ASSERT_TRUE(interpreter.ok()) << interpreter.status();
    for (const bool approximate : {true, false}) {
      const auto got =
          interpreter->Run({{read->FindNode("x")->output(0), Tensor::Scalar<float>(1)},
                            {read->FindNode("yes")->output(0), Tensor::Scalar<bool>(approximate)}},
                           {read->FindNode("if")->output(0)});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_NEAR((*got)[0].scalar<float>(), approximate ? 0.841192 : 0.841345, 1e-6);
    }
  }
}

}  // namespace
}  // namespace mirrorflow
