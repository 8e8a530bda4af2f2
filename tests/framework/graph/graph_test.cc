// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class GraphTest : public ::testing::Test {
 protected:
  absl::StatusOr<Node*> TryAdd(absl::string_view name, absl::string_view op,
                               std::vector<Output> inputs = {}, AttrMap attrs = {},
                               std::vector<Node*> controls = {}) {
    return graph_.AddNode(name, *TestOps().Find(op), std::move(attrs), std::move(inputs),
                          std::move(controls));
  }
  Node* Add(absl::string_view name, absl::string_view op, std::vector<Output> inputs = {},
            AttrMap attrs = {}, std::vector<Node*> controls = {}) {
    absl::StatusOr<Node*> node =
        TryAdd(name, op, std::move(inputs), std::move(attrs), std::move(controls));
    EXPECT_TRUE(node.ok()) << node.status();
    return node.value_or(nullptr);
  }
  Output Float(absl::string_view name) {
    return Add(name, "Placeholder", {}, {{"dtype", DT_FLOAT}})->output(0);
  }
  Node* Square(absl::string_view name, Output x) {
    return Add(name, "Square", {x}, {{"T", DT_FLOAT}});
  }
  absl::Status AddError(absl::string_view name, absl::string_view op,
                        std::vector<Output> inputs = {}, AttrMap attrs = {}) {
    return TryAdd(name, op, std::move(inputs), std::move(attrs)).status();
  }
  void ExpectValid() { EXPECT_TRUE(VerifyGraph(graph_).ok()) << VerifyGraph(graph_); }

  Graph graph_;
};

TEST_F(GraphTest, NodeTracksInputsOutputsAndUses) {
  const Output x = Float("x");
  Node* const sum = Add("sum", "AddV2", {x, x}, {{"T", DT_FLOAT}});
  Node* const last = Add("last", "NoOp", {}, {}, {sum});
  EXPECT_EQ(sum->num_inputs(), 2);
  EXPECT_EQ(sum->output_dtype(0), DT_FLOAT);
  EXPECT_EQ(x.node->uses().size(), 2u);
  ASSERT_EQ(sum->uses().size(), 1u);
  EXPECT_EQ(sum->uses()[0].user, last);
  EXPECT_EQ(sum->uses()[0].slot, Use::kControl);
  EXPECT_EQ(last->DebugString(), "last = NoOp(^sum)");
  EXPECT_EQ(sum->DebugString(), "sum = AddV2(x, x) {T=float}");
  ExpectValid();
}

TEST_F(GraphTest, InputIndexFindsArgumentsByName) {
  const Output handle =
      Add("v", "VarHandleOp", {}, {{"dtype", DT_FLOAT}, {"shape", Shape()}})->output(0);
  const Output x = Float("x");
  Node* const update =
      Add("update", "ResourceApplyGradientDescent", {handle, x, x}, {{"T", DT_FLOAT}});
  EXPECT_EQ(update->input_index("delta"), 2);
  EXPECT_EQ(update->input_index("predicate"), -1);  // the optional input is absent
  EXPECT_EQ(update->input_index("nothing"), -1);
}

TEST_F(GraphTest, AddNodeErrorsNameNodeAndCause) {
  const Output x = Float("x");
  const AttrMap t = {{"T", DT_FLOAT}};
  EXPECT_THAT(AddError("x", "NoOp"), IsError(kInvalid, "NoOp(x)", "exists"));
  EXPECT_THAT(AddError("_x", "NoOp"), IsError(kInvalid, "illegal node name"));
  EXPECT_THAT(AddError("y", "Square"), IsError(kInvalid, "attribute 'T'", "missing"));
  EXPECT_THAT(AddError("y", "Square", {}, t), IsError(kInvalid, "expected 1 inputs", "got 0"));
  EXPECT_THAT(AddError("y", "Square", {x}, {{"T", DT_INT32}}),
              IsError(kInvalid, "input 0 (x)", "int32", "got float"));
  EXPECT_THAT(AddError("y", "Square", {Output{x.node, 1}}, t), IsError(kInvalid, "does not exist"));
  EXPECT_THAT(AddError("y", "Square", {Output()}, t), IsError(kInvalid, "invalid output"));
  EXPECT_EQ(graph_.num_nodes(), 1);
  ExpectValid();
}

TEST(IsValidNodeNameTest, FollowsTensorFlow) {
  for (const char* name : {"a", "A0", ".a", "a/b_c-d.e>f", "9"}) {
    EXPECT_TRUE(IsValidNodeName(name)) << name;
  }
  for (const char* name : {"", "_a", "/a", "-a", "a b", "a:0", "^a", "a\n", "ä"}) {
    EXPECT_FALSE(IsValidNodeName(name)) << name;
  }
}

TEST_F(GraphTest, ReplaceUsesMovesDataUsesOfOneOutputOnly) {
  const Output x = Float("x");
  Node* const split =
      Add("split", "Split", {Add("axis", "Placeholder", {}, {{"dtype", DT_INT32}})->output(0), x},
          {{"num_split", 2}, {"T", DT_FLOAT}});
  Node* const a = Square("a", split->output(0));
  Node* const b = Square("b", split->output(1));
  Node* const c = Add("c", "NoOp", {}, {}, {split});
  graph_.ReplaceUses(split->output(0), x);
  EXPECT_EQ(a->input(0), x);
  EXPECT_EQ(b->input(0), split->output(1));
  EXPECT_THAT(c->control_inputs(), ElementsAre(split));
  ExpectValid();
  graph_.ReplaceUses(split->output(1),
                     split->output(0));  // the replacement is another output of the same node
  EXPECT_EQ(b->input(0), split->output(0));
  ExpectValid();
}

TEST_F(GraphTest, ReplaceUsesMovesAllSlotsOfUser) {
  const Output x = Float("x"), y = Float("y");
  Node* const sum = Add("sum", "AddV2", {x, x}, {{"T", DT_FLOAT}});
  graph_.ReplaceUses(x, y);
  EXPECT_EQ(sum->input(0), y);
  EXPECT_EQ(sum->input(1), y);
  EXPECT_TRUE(x.node->uses().empty());
  ExpectValid();
}

TEST_F(GraphTest, ReplaceControlUsesMovesOrDropsThem) {
  Node* const a = Add("a", "NoOp");
  Node* const b = Add("b", "NoOp");
  Node* const user = Add("user", "NoOp", {}, {}, {a});
  Node* const both = Add("both", "NoOp", {}, {}, {a, b});
  graph_.ReplaceControlUses(a, b);
  EXPECT_THAT(user->control_inputs(), ElementsAre(b));
  EXPECT_THAT(both->control_inputs(), ElementsAre(b));
  ExpectValid();
  graph_.ReplaceControlUses(b, nullptr);
  EXPECT_TRUE(user->control_inputs().empty());
  ExpectValid();
}

TEST_F(GraphTest, SetInputMovesUse) {
  const Output x = Float("x"), y = Float("y");
  Node* const square = Square("square", x);
  graph_.SetInput(square, 0, y);
  EXPECT_TRUE(x.node->uses().empty());
  EXPECT_EQ(y.node->uses()[0].user, square);
  ExpectValid();
}

TEST_F(GraphTest, ControlEdgesAreUniqueAndNeverSelfLoops) {
  Node* const a = Add("a", "NoOp");
  Node* const b = Add("b", "NoOp");
  graph_.AddControlEdge(a, b);
  graph_.AddControlEdge(a, b);
  graph_.AddControlEdge(b, b);
  EXPECT_THAT(b->control_inputs(), ElementsAre(a));
  ExpectValid();
  graph_.RemoveControlEdge(a, b);
  graph_.RemoveControlEdge(a, b);  // has no effect
  EXPECT_TRUE(a->uses().empty());
  ExpectValid();
}

// Edges and uses store each other's indices, so no sequence of edits may leave a stale index.
TEST_F(GraphTest, UsesStayConsistentUnderRandomEdits) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  std::vector<Node*> nodes = {Float("x").node, Float("y").node};
  for (int edit = 0; edit < 2000; ++edit) {
    // All edges lead from older to newer nodes, which keeps the graph acyclic.
    const size_t newer = 1 + below(nodes.size() - 1);
    Node* const a = nodes[newer];
    Node* const b = nodes[below(newer)];
    switch (below(7)) {
      case 0:
      case 1:
        nodes.push_back(Add(absl::StrCat("n", edit), "AddV2", {a->output(0), b->output(0)},
                            {{"T", DT_FLOAT}}, {nodes[below(nodes.size())]}));
        break;
      case 2:
        graph_.AddControlEdge(b, a);
        break;
      case 3:
        graph_.RemoveControlEdge(b, a);
        break;
      case 4:
        if (a->num_inputs() > 0) graph_.SetInput(a, static_cast<int>(below(2)), b->output(0));
        break;
      case 5:
        graph_.ReplaceUses(a->output(0), b->output(0));
        graph_.ReplaceControlUses(a, b);
        break;
      case 6:
        if (!a->uses().empty() || nodes.size() < 3) break;
        graph_.RemoveNode(a);
        nodes.erase(std::find(nodes.begin(), nodes.end(), a));
        break;
    }
    ASSERT_TRUE(VerifyGraph(graph_).ok()) << "edit " << edit << ": " << VerifyGraph(graph_);
  }
  EXPECT_GT(nodes.size(), 10u);
}

TEST_F(GraphTest, RemoveNodeFreesNameButNotId) {
  const Output x = Float("x");
  Node* const y = Square("y", x);
  const NodeId id = y->id();
  graph_.RemoveNode(y);
  EXPECT_EQ(graph_.node(id), nullptr);
  EXPECT_EQ(graph_.FindNode("y"), nullptr);
  EXPECT_TRUE(x.node->uses().empty());
  EXPECT_EQ(graph_.num_nodes(), 1);
  EXPECT_GT(Square("y", x)->id(), id);
  ExpectValid();
}

TEST_F(GraphTest, RemoveUnneededKeepsTargetsAndTheirAncestors) {
  const Output x = Float("x");
  Node* const before = Square("before", x);
  Node* const wanted = Add("wanted", "NoOp", {}, {}, {before});
  Square("end", Square("middle", Square("start", x)->output(0))->output(0));
  EXPECT_TRUE(graph_.RemoveUnneeded({wanted}));
  EXPECT_THAT(graph_.Nodes(), ElementsAre(x.node, before, wanted));
  EXPECT_FALSE(graph_.RemoveUnneeded({wanted}));
  ExpectValid();
}

TEST_F(GraphTest, DoneBeforeOmitsInputsThatWaitForNothing) {
  const Output x = Float("x");
  Node* const inner = Square("inner", x);
  Node* const control = Add("control", "NoOp");
  Node* const sum = Add("sum", "AddV2", {x, inner->output(0)}, {{"T", DT_FLOAT}}, {control});
  std::vector<Node*> before;
  for (const Operation& earlier : Predecessors(*sum)) before.push_back(earlier.node);
  EXPECT_THAT(before, ElementsAre(control, inner));
}

TEST_F(GraphTest, RemoveNodeDiesIfNodeIsUsed) {
  const Output x = Float("x");
  Square("y", x);
  EXPECT_DEATH(graph_.RemoveNode(x.node), "check failed");
}

TEST_F(GraphTest, UniqueNamesCountUp) {
  EXPECT_EQ(graph_.UniqueName("x"), "x");
  Float("x");
  EXPECT_EQ(graph_.UniqueName("x"), "x_1");
  Float("x_2");
  Float("x_1");
  EXPECT_EQ(graph_.UniqueName("x"), "x_3");
  EXPECT_EQ(graph_.UniquePrefix("layer"), "layer");
  EXPECT_EQ(graph_.UniquePrefix("layer"), "layer_1");
}

TEST_F(GraphTest, CloneIsEqualAndIndependent) {
  const Output x = Float("x");
  graph_.RemoveNode(Square("gone", x));
  Node* const y = Square("y", x);
  Add("z", "NoOp", {}, {}, {y});
  ASSERT_TRUE(graph_.functions().Add("f", "body").ok());
  ASSERT_TRUE(graph_.values().Infer(*x.node).ok());

  const Graph clone = graph_.Clone();
  EXPECT_TRUE(VerifyGraph(clone).ok()) << VerifyGraph(clone);
  ASSERT_EQ(clone.num_nodes(), 3);
  for (const Node* node : graph_.Nodes()) {
    const Node* const copy = clone.node(node->id());
    ASSERT_NE(copy, nullptr);
    EXPECT_NE(copy, node);
    EXPECT_EQ(copy->DebugString(), node->DebugString());
    EXPECT_EQ(clone.FindNode(node->name()), copy);
  }
  EXPECT_NE(clone.functions().Find("f"), nullptr);
  graph_.RemoveNode(graph_.FindNode("z"));
  EXPECT_NE(clone.FindNode("z"), nullptr);
  EXPECT_EQ(clone.FindNode("y")->uses().size(), 1u);
  graph_.SetAttr(y, "_mark", true);
  EXPECT_TRUE(y->has_attr("_mark"));
  EXPECT_FALSE(clone.FindNode("y")->has_attr("_mark"));
}

TEST_F(GraphTest, CopyOfFindsTheCloneOfANode) {
  const Output x = Float("x");
  const Graph clone = graph_.Clone();
  const auto copy = [&](Node* node) { return clone.CopyOf(node, "reader", "Read"); };
  EXPECT_EQ(copy(x.node).value(), clone.FindNode("x"));
  EXPECT_EQ(copy(clone.FindNode("x")).value(), clone.FindNode("x"));
  EXPECT_THAT(copy(Square("y", x)).status(),
              IsError(kInvalid, "'y'", "reader's snapshot", "before calling Read"));
  Graph other = graph_.Clone();
  EXPECT_THAT(copy(other.FindNode("x")).status(), IsError(kInvalid, "'x'", "another graph"));
  EXPECT_THAT(copy(nullptr).status(), IsError(kInvalid, "invalid", "builder's result"));
  // A graph that is moved keeps its nodes, although its address changes.
  const Graph moved = std::move(graph_);
  EXPECT_EQ(copy(x.node).value(), clone.FindNode("x"));
  graph_ = std::move(other);
  EXPECT_THAT(copy(graph_.FindNode("x")).status(), IsError(kInvalid, "'x'", "another graph"));
}

TEST_F(GraphTest, ShapesOfAnotherGraphAreUnknown) {
  const Output x =
      Add("x", "Placeholder", {}, {{"dtype", DT_FLOAT}, {"shape", Shape({2})}})->output(0);
  ASSERT_TRUE(graph_.values().Infer(*x.node).ok());
  const Graph clone = graph_.Clone();
  EXPECT_FALSE(graph_.values().shape(x).unknown_rank());
  EXPECT_TRUE(clone.values().shape(x).unknown_rank());
  EXPECT_FALSE(clone.values().shape(clone.FindNode("x")->output(0)).unknown_rank());
}

TEST_F(GraphTest, MovedGraphKeepsNodes) {
  const Output x = Float("x");
  const Graph moved = std::move(graph_);
  EXPECT_EQ(moved.FindNode("x"), x.node);
}

TEST_F(GraphTest, TopologicalOrderPutsInputsFirstAndBreaksTiesById) {
  const Output x = Float("x"), y = Float("y");
  Node* const a = Square("a", x);
  Node* const b = Square("b", y);
  graph_.SetInput(a, 0, b->output(0));  // now `a` depends on `b`
  Node* const c = Add("c", "NoOp");
  graph_.AddControlEdge(c, x.node);
  const auto order = TopologicalOrder(graph_);
  ASSERT_TRUE(order.ok());
  EXPECT_THAT(*order, ElementsAre(y.node, b, a, c, x.node));
}

TEST_F(GraphTest, TopologicalOrderNamesNodesOfCycle) {
  const Output x = Float("x");
  Node* const a = Square("a", x);
  Node* const b = Square("b", a->output(0));
  Node* const c = Square("c", b->output(0));
  graph_.AddControlEdge(b, a);
  const auto order = TopologicalOrder(graph_);
  EXPECT_THAT(order.status(), IsError(kInvalid, "a -> b -> a", "cycle"));
  EXPECT_EQ(c->input(0), b->output(0));
}

TEST_F(GraphTest, FirstErrorSticks) {
  graph_.Fail(absl::InvalidArgumentError("first"));
  graph_.Fail(absl::InvalidArgumentError("second"));
  EXPECT_EQ(graph_.status(), absl::InvalidArgumentError("first"));
}

}  // namespace
}  // namespace mirrorflow
