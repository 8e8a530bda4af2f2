// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/gradients.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns a registry of toy ops. Gradients() does not depend on particular ops.
const OpRegistry& ToyOps();

Output Toy(const Scope& scope, absl::string_view op, std::vector<Output> inputs) {
  NodeBuilder builder = scope.Build(ToyOps(), op);
  for (const Output& input : inputs) builder.Input(input);
  return std::move(builder).One();
}

absl::Status LikeInput(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(0));
  return absl::OkStatus();
}

absl::Status FromAttr(ShapeContext& c) {
  c.set_output(0, c.attr<Shape>("shape"));
  return absl::OkStatus();
}

absl::Status HandleShape(ShapeContext& c) {
  c.set_handle(0, DT_FLOAT, Shape({2}));
  return absl::OkStatus();
}

absl::Status ReadShape(ShapeContext& c) {
  c.set_output(0, c.handle_shape(0));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Output>> ScaleGrad(const GradContext& c) {
  return std::vector<Output>{Toy(c.scope, "Scale", {c.dy[0]})};
}

absl::StatusOr<std::vector<Output>> ProductGrad(const GradContext& c) {
  return std::vector<Output>{Toy(c.scope, "Product", {c.dy[0], c.op.input(1)}),
                             Toy(c.scope, "Product", {c.dy[0], c.op.input(0)})};
}

// Returns the gradient of whichever output has one.
absl::StatusOr<std::vector<Output>> ForkGrad(const GradContext& c) {
  return std::vector<Output>{c.dy[0].valid() ? c.dy[0] : c.dy[1]};
}

absl::StatusOr<std::vector<Output>> OneTooMany(const GradContext& c) {
  return std::vector<Output>(2, c.dy[0]);
}

absl::StatusOr<std::vector<Output>> OfWrongType(const GradContext& c) {
  return std::vector<Output>{Toy(c.scope, "ToInt", {c.dy[0]})};
}

absl::StatusOr<std::vector<Output>> OfWrongShape(const GradContext& c) {
  return std::vector<Output>{c.scope.Build(ToyOps(), "Leaf").Attr("shape", Shape({9})).One()};
}

const OpRegistry& ToyOps() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    ops->Define("Leaf").Output("y: float").Attr("shape: shape").Shape(FromAttr);
    ops->Define("Scale").Input("x: T").Output("y: T").Attr("T: type").Shape(LikeInput).Gradient(
        ScaleGrad);
    ops->Define("Product")
        .Input("a: float")
        .Input("b: float")
        .Output("y: float")
        .Shape(LikeInput)
        .Gradient(ProductGrad);
    ops->Define("Fork")
        .Input("x: float")
        .Output("a: float")
        .Output("b: float")
        .Shape(LikeInput)
        .Gradient(ForkGrad);
    ops->Define("ToInt").Input("x: float").Output("y: int32").Shape(LikeInput).NoGradient("int");
    ops->Define("FromInt").Input("x: int32").Output("y: float").Shape(LikeInput).NoGradient("int");
    ops->Define("Opaque")
        .Input("x: float")
        .Output("y: float")
        .Shape(LikeInput)
        .NoGradient("it is opaque");
    for (const auto& [name, gradient] :
         {std::make_pair("OneTooMany", OneTooMany), std::make_pair("OfWrongType", OfWrongType),
          std::make_pair("OfWrongShape", OfWrongShape)}) {
      ops->Define(name).Input("x: float").Output("y: float").Shape(LikeInput).Gradient(gradient);
    }
    ops->Define("Handle").Output("h: resource").Role(OpRole::kVariable).Shape(HandleShape);
    ops->Define("Read")
        .Input("h: resource")
        .Output("y: float")
        .Role(OpRole::kRead)
        .Shape(ReadShape);
    ops->Define("Total")
        .Input("parts: N * T")
        .Output("sum: T")
        .Attr("N: int >= 1")
        .Attr("T: type")
        .Role(OpRole::kAddAll)
        .Shape(LikeInput);
    ops->Define("Ones")
        .Input("x: T")
        .Output("y: T")
        .Attr("T: type")
        .Role(OpRole::kOnesLike)
        .Shape(LikeInput);
    return ops;
  }();
  return *registry;
}

class GradientsTest : public ::testing::Test {
 protected:
  Output Leaf(absl::string_view name) {
    return root_.WithName(name).Build(ToyOps(), "Leaf").Attr("shape", Shape({2})).One();
  }
  Output Add(absl::string_view name, absl::string_view op, std::vector<Output> inputs) {
    return Toy(root_.WithName(name), op, std::move(inputs));
  }
  absl::StatusOr<std::vector<Output>> Grad(std::vector<Output> ys, std::vector<Output> xs,
                                           const GradientOptions& options = {}) {
    first_new_ = graph_.id_limit();
    return Gradients(ToyOps(), root_, ys, xs, options);
  }
  // Returns the nodes that Grad() added.
  std::vector<std::string> Added() const {
    std::vector<std::string> lines;
    for (NodeId id = first_new_; id < graph_.id_limit(); ++id) {
      const Node& node = *graph_.node(id);
      std::string line = absl::StrCat(node.name(), " =");
      for (const Output& in : node.inputs()) absl::StrAppend(&line, " ", in.ToString());
      lines.push_back(line);
    }
    return lines;
  }

  Graph graph_;
  Scope root_{&graph_};
  NodeId first_new_ = 0;
};

TEST_F(GradientsTest, NodesAreBuiltInReverseOrderUnderForwardNames) {
  const Output x = Leaf("x"), w = Leaf("w");
  const Output a = Add("a", "Product", {x, w});
  const Output b = Add("b", "Scale", {a});
  const auto grads = Grad({b}, {x, w});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_THAT(Added(), ElementsAre("gradients/grad_ys_0 = b",                              //
                                   "gradients/b_grad/Scale = gradients/grad_ys_0",         //
                                   "gradients/a_grad/Product = gradients/b_grad/Scale w",  //
                                   "gradients/a_grad/Product_1 = gradients/b_grad/Scale x"));
  EXPECT_EQ((*grads)[0].ToString(), "gradients/a_grad/Product");
  EXPECT_EQ((*grads)[1].ToString(), "gradients/a_grad/Product_1");
}

TEST_F(GradientsTest, VisitIndependentBranchesNewestFirst) {
  const Output x = Leaf("x");
  const Output a = Add("a", "Scale", {x}), b = Add("b", "Scale", {x});
  // The result does not depend on the order of the ys.
  for (const std::vector<Output>& ys : {std::vector<Output>{a, b}, std::vector<Output>{b, a}}) {
    ASSERT_TRUE(Grad(ys, {x}).ok());
    const std::vector<std::string> added = Added();
    ASSERT_EQ(added.size(), 5);
    EXPECT_THAT(added[2], HasSubstr("/b_grad/Scale = "));
    EXPECT_THAT(added[3], HasSubstr("/a_grad/Scale = "));
    EXPECT_THAT(added[4], HasSubstr("/x_grad/Total = "));
  }
}

TEST_F(GradientsTest, ValueWithSeveralUsesSumsGradientsOnce) {
  const Output x = Leaf("x");
  const Output square = Add("square", "Product", {x, x});
  const Output y = Add("y", "Product", {square, x});
  const auto grads = Grad({y}, {x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ((*grads)[0].ToString(), "gradients/x_grad/Total");
  EXPECT_EQ((*grads)[0].node->num_inputs(), 3);
}

TEST_F(GradientsTest, UnreachableXHasInvalidGradient) {
  const Output x = Leaf("x"), other = Leaf("other");
  const auto grads = Grad({Add("y", "Scale", {x})}, {other, x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_FALSE((*grads)[0].valid());
  EXPECT_TRUE((*grads)[1].valid());
}

TEST_F(GradientsTest, ValueWithRespectToItselfHasInitialGradient) {
  const Output x = Leaf("x");
  const auto ones = Grad({x}, {x});
  ASSERT_TRUE(ones.ok());
  EXPECT_EQ((*ones)[0].ToString(), "gradients/grad_ys_0");
  const Output dy = Leaf("dy");
  const auto given = Grad({x}, {x}, {.grad_ys = {dy}});
  ASSERT_TRUE(given.ok());
  EXPECT_EQ((*given)[0], dy);
  EXPECT_THAT(Added(), ElementsAre());
}

TEST_F(GradientsTest, XUpstreamOfAnotherXHasTotalDerivative) {
  const Output x = Leaf("x");
  const Output middle = Add("middle", "Scale", {x});
  const auto grads = Grad({Add("y", "Product", {middle, x})}, {middle, x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ((*grads)[0].ToString(), "gradients/y_grad/Product");
  EXPECT_EQ((*grads)[1].ToString(), "gradients/x_grad/Total");
}

TEST_F(GradientsTest, EndAtStopGradientsAndIncludeThem) {
  const Output x = Leaf("x");
  const Output middle = Add("middle", "Scale", {x});
  const Output y = Add("y", "Product", {middle, x});
  const auto grads = Grad({y}, {middle, x}, {.stop_gradients = {middle}});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ((*grads)[0].ToString(), "gradients/y_grad/Product");
  EXPECT_EQ((*grads)[1].ToString(), "gradients/y_grad/Product_1");
}

TEST_F(GradientsTest, EndAtIntegers) {
  const Output x = Leaf("x");
  const auto grads = Grad({Add("y", "FromInt", {Add("i", "ToInt", {x})})}, {x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_FALSE((*grads)[0].valid());
}

TEST_F(GradientsTest, DoNotFlowAlongControlEdges) {
  const Output x = Leaf("x"), z = Leaf("z");
  const Output y = Add("y", "Scale", {z});
  graph_.AddControlEdge(Add("opaque", "Opaque", {x}).node, y.node);
  const auto grads = Grad({y}, {x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_FALSE((*grads)[0].valid());
}

TEST_F(GradientsTest, ErrorNamesNonDifferentiableNodeOnPath) {
  const Output x = Leaf("x"), z = Leaf("z");
  const Output y = Add("y", "Product", {Add("wall", "Opaque", {x}), z});
  EXPECT_TRUE(Grad({y}, {z}).ok());  // z is not on the path
  const auto grads = Grad({y}, {x});
  EXPECT_THAT(grads.status(),
              IsError(absl::StatusCode::kInvalidArgument, "Opaque(wall)", "it is opaque"));
}

TEST_F(GradientsTest, PassInvalidGradientForUnusedOutput) {
  const Output x = Leaf("x");
  Node* fork = Add("fork", "Fork", {x}).node;
  const auto grads = Grad({Add("y", "Scale", {fork->output(1)})}, {x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ((*grads)[0].ToString(), "gradients/y_grad/Scale");
}

TEST_F(GradientsTest, OutputsOfOneNodeAreIndependent) {
  Node* fork = Add("fork", "Fork", {Leaf("x")}).node;
  const auto grads = Grad({Add("y", "Scale", {fork->output(0)})}, {fork->output(1)});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_FALSE((*grads)[0].valid());
}

TEST_F(GradientsTest, HandleSumsGradientsOfAllReads) {
  const Output handle = Add("v", "Handle", {});
  const Output a = Add("a", "Read", {handle}), b = Add("b", "Read", {handle});
  const auto grads = Grad({Add("y", "Product", {a, b})}, {handle});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ((*grads)[0].ToString(), "gradients/v_grad/Total");
}

TEST_F(GradientsTest, VisitEachEdgeOnceDespiteExponentiallyManyPaths) {
  const Output x = Leaf("x");
  Output y = x;
  constexpr int kLevels = 20000;  // 2^20000 paths, and too deep to recurse
  for (int i = 0; i < kLevels; ++i) y = Add("level", "Product", {y, y});
  const auto grads = Grad({y}, {x});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_EQ(graph_.id_limit() - first_new_, 1 + 3 * kLevels);
}

TEST_F(GradientsTest, FailOnInvalidArguments) {
  const Output x = Leaf("x"), y = Add("y", "Scale", {x}), i = Add("i", "ToInt", {x});
  EXPECT_THAT(Grad({i}, {x}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "y i", "floating", "got int32"));
  EXPECT_THAT(Grad({Output()}, {x}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "ys[0]", "invalid output"));
  EXPECT_THAT(Grad({y}, {Output()}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "xs[0]", "invalid output"));
  EXPECT_THAT(Grad({y}, {x}, {.grad_ys = {x, x}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "1 ys", "got 2"));
  EXPECT_THAT(Grad({y}, {x}, {.grad_ys = {i}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "dtype float and shape [2]"));
  EXPECT_THAT(Grad({y}, {x}, {.stop_gradients = {Output()}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "stop_gradients[0]"));
}

TEST_F(GradientsTest, FailWhenGradientFunctionReturnsMismatch) {
  const Output x = Leaf("x");
  for (const char* op : {"OneTooMany", "OfWrongType", "OfWrongShape"}) {
    const auto grads = Grad({Add("y", op, {x})}, {x});
    EXPECT_THAT(grads.status(), IsError(absl::StatusCode::kInternal, op)) << op;
  }
}

TEST_F(GradientsTest, FailOnCycle) {
  const Output x = Leaf("x");
  const Output a = Add("a", "Product", {x, x});
  const Output b = Add("b", "Scale", {a});
  graph_.SetInput(a.node, 1, b);
  const auto grads = Grad({b}, {x});
  EXPECT_THAT(grads.status(), IsError(absl::StatusCode::kInvalidArgument, "cycle"));
}

}  // namespace
}  // namespace mirrorflow
