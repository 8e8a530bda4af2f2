// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/scope.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

class ScopeTest : public ::testing::Test {
 protected:
  Output Float(const Scope& scope, Shape shape = Shape({2, 3})) {
    return Apply(scope, "Placeholder", {}, {{"dtype", DT_FLOAT}, {"shape", std::move(shape)}});
  }

  Graph graph_;
  Scope root_{&graph_};
};

TEST_F(ScopeTest, NodesAreNamedAfterOpUnlessNameIsGiven) {
  EXPECT_EQ(Float(root_).node->name(), "Placeholder");
  EXPECT_EQ(Float(root_).node->name(), "Placeholder_1");
  EXPECT_EQ(Float(root_.WithName("x")).node->name(), "x");
  EXPECT_EQ(Float(root_.WithName("x")).node->name(), "x_1");
}

TEST_F(ScopeTest, SubScopesPrefixNamesAndAreUnique) {
  const Scope dense = root_.SubScope("dense");
  EXPECT_EQ(Float(dense.WithName("x")).node->name(), "dense/x");
  EXPECT_EQ(Float(dense.SubScope("inner")).node->name(), "dense/inner/Placeholder");
  EXPECT_EQ(Float(root_.SubScope("dense").WithName("x")).node->name(), "dense_1/x");
  EXPECT_EQ(Float(dense.WithName("x")).node->name(), "dense/x_1");
}

TEST_F(ScopeTest, NameDoesNotApplyToSubScope) {
  EXPECT_EQ(Float(root_.WithName("x").SubScope("s")).node->name(), "s/Placeholder");
}

TEST_F(ScopeTest, ControlDependenciesApplyToAllNodesOfScope) {
  const Operation first{Apply(root_.WithName("first"), "NoOp").node};
  const Scope after = root_.WithControlDependencies({first, Operation()});
  EXPECT_THAT(Float(after).node->control_inputs(), ElementsAre(first.node));
  EXPECT_THAT(Float(after.SubScope("s")).node->control_inputs(), ElementsAre(first.node));
  EXPECT_TRUE(Float(root_).node->control_inputs().empty());
}

TEST_F(ScopeTest, DerivesTypesAndCountsFromInputs) {
  const Output x = Float(root_), y = Float(root_);
  EXPECT_EQ(Apply(root_, "AddN", {x, y}).node->DebugString(),
            "AddN = AddN(Placeholder, Placeholder_1) {N=2, T=float}");
  const Output n = Apply(root_, "Placeholder", {}, {{"dtype", DT_INT32}});
  EXPECT_EQ(Apply(root_, "IdentityN", {x, n}).node->attrs().at("T"),
            AttrValue(AttrList{DT_FLOAT, DT_INT32}));
}

TEST_F(ScopeTest, InfersShapesAsNodesAreAdded) {
  const Output x = Float(root_, Shape({-1, 784}));
  EXPECT_EQ(root_.shape(Apply(root_, "Square", {x})), Shape({-1, 784}));
  EXPECT_EQ(root_.shape(Output()), Shape::UnknownRank());
}

TEST_F(ScopeTest, FirstErrorSticksAndStopsConstruction) {
  const Output a = Float(root_, Shape({2, 3})), b = Float(root_, Shape({2, 4}));
  const int nodes = graph_.num_nodes();
  EXPECT_FALSE(Apply(root_.WithName("sum"), "AddV2", {a, b}).valid());
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kInvalidArgument, "AddV2(sum)",
                                      "[2,3] and [2,4]", "broadcast"));
  EXPECT_FALSE(Float(root_.SubScope("later")).valid());
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kInvalidArgument, "AddV2(sum)"));
  EXPECT_LE(graph_.num_nodes(), nodes + 1);
}

TEST_F(ScopeTest, UnknownOpIsRejectedWithSuggestion) {
  EXPECT_FALSE(root_.Build(TestOps(), "Sqare").Input(Float(root_)).One().valid());
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kNotFound, "'Sqare'", "Square?"));
}

TEST_F(ScopeTest, ErrorForMissingArgumentNamesNode) {
  EXPECT_EQ(root_.WithName("y").Build(TestOps(), "Square").Finish(), nullptr);
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kInvalidArgument, "Square(y)",
                                      "arguments; expected 1", "got 0"));
}

TEST_F(ScopeTest, GivenAttributeOverridesInputs) {
  const Output x = Float(root_);
  EXPECT_FALSE(Apply(root_.WithName("y"), "Square", {x}, {{"T", DT_INT32}}).valid());
  EXPECT_THAT(root_.status(),
              IsError(absl::StatusCode::kInvalidArgument, "dtype int32", "got float"));
}

}  // namespace
}  // namespace mirrorflow
