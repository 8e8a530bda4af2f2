// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/verifier.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {

// Breaks invariants that Graph's public interface maintains.
class GraphTestPeer {
 public:
  static void Rename(Node* node, std::string name) { node->name_ = std::move(name); }
  static void SetId(Node* node, NodeId id) { node->id_ = id; }
  static void SetInput(Node* node, int slot, Output value) { node->inputs_[slot] = value; }
  static void DropInput(Node* node) { node->inputs_.pop_back(); }
  static std::vector<Node*>& controls(Node* node) { return node->control_inputs_; }
  static std::vector<Use>& uses(Node* node) { return node->uses_; }
  static DataTypes& output_dtypes(Node* node) { return node->output_dtypes_; }
  static AttrMap& attrs(Node* node) { return *node->attrs_; }
  static void SetNumNodes(Graph* graph, int count) { graph->num_nodes_ = count; }
};

namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// The graph is x -> a -> b -> last (a control edge), plus an int placeholder.
class VerifierTest : public ::testing::Test {
 protected:
  VerifierTest() {
    Scope root(&graph_);
    x_ = Apply(root.WithName("x"), "Placeholder", {}, {{"dtype", DT_FLOAT}}).node;
    n_ = Apply(root.WithName("n"), "Placeholder", {}, {{"dtype", DT_INT32}}).node;
    a_ = Apply(root.WithName("a"), "Square", {x_->output(0)}).node;
    b_ = Apply(root.WithName("b"), "Square", {a_->output(0)}).node;
    last_ = Apply(root.WithName("last"), "NoOp").node;
    graph_.AddControlEdge(b_, last_);
    EXPECT_TRUE(VerifyGraph(graph_).ok()) << VerifyGraph(graph_);
  }
  absl::Status Error() { return VerifyGraph(graph_); }
  std::vector<absl::Status> Errors() { return SplitErrors(Error()); }

  Graph graph_;
  Node *x_, *n_, *a_, *b_, *last_;
};

TEST_F(VerifierTest, AcceptsEmptyGraph) { EXPECT_TRUE(VerifyGraph(Graph()).ok()); }

TEST_F(VerifierTest, FindsInputOfWrongDtype) {
  graph_.SetInput(b_, 0, n_->output(0));
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(b)", "input 0 (n)", "got int32")));
}

TEST_F(VerifierTest, FindsInputFromMissingOutput) {
  GraphTestPeer::SetInput(b_, 0, Output{a_, 1});
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(b)", "input 0", "not an output")));
}

TEST_F(VerifierTest, FindsInputFromAnotherGraph) {
  const Graph other = graph_.Clone();
  GraphTestPeer::SetInput(b_, 0, other.FindNode("a")->output(0));
  EXPECT_THAT(Error(), IsError(kInvalid, "Square(b)", "input 0", "not an output"));
}

TEST_F(VerifierTest, FindsMissingInput) {
  GraphTestPeer::DropInput(b_);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(b)", "expected 1 inputs", "got 0")));
}

TEST_F(VerifierTest, FindsCycle) {
  graph_.AddControlEdge(b_, a_);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "a -> b -> a", "cycle")));
}

TEST_F(VerifierTest, FindsAttributeOutOfRange) {
  graph_.SetAttr(a_, "T", DT_BOOL);
  EXPECT_THAT(Error(), IsError(kInvalid, "Square(a)", "attribute 'T'", "one of"));
}

TEST_F(VerifierTest, FindsUnknownAttribute) {
  graph_.SetAttr(a_, "U", 1);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(a)", "no attribute 'U'")));
}

TEST_F(VerifierTest, FindsMissingAttributeEvenWithDefault) {
  GraphTestPeer::attrs(x_).erase("shape");
  EXPECT_THAT(Errors(),
              ElementsAre(IsError(kInvalid, "Placeholder(x)", "attribute 'shape'", "missing")));
}

TEST_F(VerifierTest, FindsOutputsInconsistentWithAttributes) {
  graph_.SetAttr(n_, "dtype", DT_INT64);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Placeholder(n)", "outputs", "schema")));
  graph_.SetAttr(n_, "dtype", DT_INT32);
  GraphTestPeer::output_dtypes(n_).push_back(DT_INT32);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Placeholder(n)", "outputs", "schema")));
}

TEST_F(VerifierTest, FindsDuplicateAndIllegalNames) {
  GraphTestPeer::Rename(b_, "a");
  EXPECT_THAT(Error(), IsError(kInvalid, "Square(a)", "FindNode"));
  GraphTestPeer::Rename(b_, "b b");
  EXPECT_THAT(Error(), IsError(kInvalid, "Square(b b): illegal", "Square(b b): FindNode"));
}

TEST_F(VerifierTest, FindsWrongId) {
  GraphTestPeer::SetId(b_, a_->id());
  EXPECT_THAT(Error(), IsError(kInvalid, "Square(b)", "at its id"));
}

TEST_F(VerifierTest, FindsWrongNodeCount) {
  GraphTestPeer::SetNumNodes(&graph_, 4);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "the graph", "4 nodes", "5")));
}

TEST_F(VerifierTest, FindsUnrecordedUse) {
  GraphTestPeer::uses(a_).clear();
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(a)", "use by b", "slot 0")));
}

TEST_F(VerifierTest, FindsUnrecordedControlUse) {
  GraphTestPeer::uses(b_).clear();
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(b)", "use by last", "slot -1")));
}

TEST_F(VerifierTest, FindsRecordedUseThatDoesNotExist) {
  GraphTestPeer::uses(x_).push_back({b_, 0});
  EXPECT_THAT(Error(), IsError(kInvalid, "Placeholder(x)", "by b, slot 0", "exist"));
  GraphTestPeer::uses(x_).back() = {b_, 7};
  EXPECT_THAT(Error(), IsError(kInvalid, "by b, slot 7", "exist"));
}

TEST_F(VerifierTest, FindsUseRecordedTwice) {
  GraphTestPeer::uses(a_).push_back(a_->uses()[0]);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(a)", "by b, slot 0", "twice")));
}

TEST_F(VerifierTest, FindsUseByNodeOfAnotherGraph) {
  const Graph other = graph_.Clone();
  GraphTestPeer::uses(a_).push_back({other.FindNode("b"), 0});
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(a)", "use by a node")));
}

TEST_F(VerifierTest, FindsForeignDuplicateAndSelfControlInputs) {
  const Graph other = graph_.Clone();
  GraphTestPeer::controls(last_) = {b_, b_};
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "NoOp(last)", "^b", "twice")));
  GraphTestPeer::controls(last_) = {last_};
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "NoOp(last)", "^last", "itself")));
  GraphTestPeer::controls(last_) = {other.FindNode("b")};
  EXPECT_THAT(Errors(),
              ElementsAre(IsError(kInvalid, "NoOp(last)", "control input", "not a node")));
}

TEST_F(VerifierTest, ReportsAllErrorsUpToTwenty) {
  graph_.SetAttr(a_, "U", 1);
  graph_.SetAttr(b_, "V", 1);
  EXPECT_THAT(Errors(), ElementsAre(IsError(kInvalid, "Square(a)", "attribute 'U'"),
                                    IsError(kInvalid, "Square(b)", "attribute 'V'")));
  Scope root(&graph_);
  for (int i = 0; i < 30; ++i) graph_.SetAttr(Apply(root, "NoOp").node, "W", 1);
  EXPECT_THAT(Error(), IsError(kInvalid, "stopped after 20 errors"));
}

}  // namespace
}  // namespace mirrorflow
