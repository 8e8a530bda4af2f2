// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/verifier.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {

// Breaks invariants that the public interface of Graph maintains.
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

using ::testing::AllOf;
using ::testing::HasSubstr;

// x -> a -> b -> last (control), and an int placeholder.
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
  std::string Error() {
    const absl::Status status = VerifyGraph(graph_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  Graph graph_;
  Node *x_, *n_, *a_, *b_, *last_;
};

TEST_F(VerifierTest, AcceptsEmptyGraph) { EXPECT_TRUE(VerifyGraph(Graph()).ok()); }

TEST_F(VerifierTest, FindsInputOfWrongDtype) {
  graph_.SetInput(b_, 0, n_->output(0));
  EXPECT_EQ(Error(), "Square(b): input 0 (n): expected dtype float, got int32");
}

TEST_F(VerifierTest, FindsInputFromMissingOutput) {
  GraphTestPeer::SetInput(b_, 0, Output{a_, 1});
  EXPECT_EQ(Error(), "Square(b): input 0 is not an output of a node of this graph");
}

TEST_F(VerifierTest, FindsInputFromAnotherGraph) {
  const Graph other = graph_.Clone();
  GraphTestPeer::SetInput(b_, 0, other.FindNode("a")->output(0));
  EXPECT_THAT(Error(), HasSubstr("Square(b): input 0 is not an output of a node of this graph"));
}

TEST_F(VerifierTest, FindsMissingInput) {
  GraphTestPeer::DropInput(b_);
  EXPECT_EQ(Error(), "Square(b): expected 1 inputs, got 0");
}

TEST_F(VerifierTest, FindsCycle) {
  graph_.AddControlEdge(b_, a_);
  EXPECT_EQ(Error(), "the graph has a cycle: a -> b -> a");
}

TEST_F(VerifierTest, FindsAttributeOutOfRange) {
  graph_.SetAttr(a_, "T", DT_BOOL);
  EXPECT_THAT(Error(), HasSubstr("Square(a): attribute 'T' must be one of"));
}

TEST_F(VerifierTest, FindsUnknownAttribute) {
  graph_.SetAttr(a_, "U", 1);
  EXPECT_EQ(Error(), "Square(a): op Square has no attribute 'U'");
}

TEST_F(VerifierTest, FindsMissingAttributeEvenWithDefault) {
  GraphTestPeer::attrs(x_).erase("shape");
  EXPECT_EQ(Error(), "Placeholder(x): attribute 'shape' is missing");
}

TEST_F(VerifierTest, FindsOutputsInconsistentWithAttributes) {
  graph_.SetAttr(n_, "dtype", DT_INT64);
  EXPECT_EQ(Error(), "Placeholder(n): outputs do not match the schema");
  graph_.SetAttr(n_, "dtype", DT_INT32);
  GraphTestPeer::output_dtypes(n_).push_back(DT_INT32);
  EXPECT_EQ(Error(), "Placeholder(n): outputs do not match the schema");
}

TEST_F(VerifierTest, FindsDuplicateAndIllegalNames) {
  GraphTestPeer::Rename(b_, "a");
  EXPECT_THAT(Error(), HasSubstr("Square(a): FindNode does not find this node"));
  GraphTestPeer::Rename(b_, "b b");
  EXPECT_THAT(Error(), AllOf(HasSubstr("Square(b b): illegal node name"),
                             HasSubstr("Square(b b): FindNode does not find this node")));
}

TEST_F(VerifierTest, FindsWrongId) {
  GraphTestPeer::SetId(b_, a_->id());
  EXPECT_THAT(Error(), HasSubstr("Square(b): is not stored at its id"));
}

TEST_F(VerifierTest, FindsWrongNodeCount) {
  GraphTestPeer::SetNumNodes(&graph_, 4);
  EXPECT_EQ(Error(), "the graph says that it has 4 nodes; it has 5");
}

TEST_F(VerifierTest, FindsUnrecordedUse) {
  GraphTestPeer::uses(a_).clear();
  EXPECT_EQ(Error(), "Square(a): does not record its use by b, slot 0");
}

TEST_F(VerifierTest, FindsUnrecordedControlUse) {
  GraphTestPeer::uses(b_).clear();
  EXPECT_EQ(Error(), "Square(b): does not record its use by last, slot -1");
}

TEST_F(VerifierTest, FindsRecordedUseThatDoesNotExist) {
  GraphTestPeer::uses(x_).push_back({b_, 0});
  EXPECT_THAT(Error(),
              HasSubstr("Placeholder(x): records a use by b, slot 0, that does not exist"));
  GraphTestPeer::uses(x_).back() = {b_, 7};
  EXPECT_THAT(Error(), HasSubstr("records a use by b, slot 7, that does not exist"));
}

TEST_F(VerifierTest, FindsUseRecordedTwice) {
  GraphTestPeer::uses(a_).push_back(a_->uses()[0]);
  EXPECT_EQ(Error(),
            "Square(a): records a use by b, slot 0, that does not exist or is recorded twice");
}

TEST_F(VerifierTest, FindsUseByNodeOfAnotherGraph) {
  const Graph other = graph_.Clone();
  GraphTestPeer::uses(a_).push_back({other.FindNode("b"), 0});
  EXPECT_EQ(Error(), "Square(a): records a use by a node that is not in this graph");
}

TEST_F(VerifierTest, FindsForeignDuplicateAndSelfControlInputs) {
  const Graph other = graph_.Clone();
  GraphTestPeer::controls(last_) = {b_, b_};
  EXPECT_EQ(Error(), "NoOp(last): control input ^b is listed twice");
  GraphTestPeer::controls(last_) = {last_};
  EXPECT_EQ(Error(), "NoOp(last): control input ^last is the node itself");
  GraphTestPeer::controls(last_) = {other.FindNode("b")};
  EXPECT_EQ(Error(), "NoOp(last): a control input is not a node of this graph");
}

TEST_F(VerifierTest, ReportsAllErrorsUpToTwenty) {
  graph_.SetAttr(a_, "U", 1);
  graph_.SetAttr(b_, "V", 1);
  EXPECT_EQ(Error(),
            "Square(a): op Square has no attribute 'U'\nSquare(b): op Square has no attribute 'V'");
  Scope root(&graph_);
  for (int i = 0; i < 30; ++i) graph_.SetAttr(Apply(root, "NoOp").node, "W", 1);
  EXPECT_THAT(Error(), HasSubstr("\nstopped after 20 errors"));
}

}  // namespace
}  // namespace mirrorflow
