// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_ops.h"

#include <utility>

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {
namespace {

absl::Status NoOutputs(ShapeContext&) { return absl::OkStatus(); }

absl::Status LikeInputs(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

absl::Status ScalarShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, Shape());
  return absl::OkStatus();
}

absl::Status UnknownShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, Shape::UnknownRank());
  return absl::OkStatus();
}

absl::Status PlaceholderShape(ShapeContext& c) {
  c.set_output(0, c.attr<Shape>("shape"));
  return absl::OkStatus();
}

absl::Status ConstShape(ShapeContext& c) {
  c.set_constant(0, c.attr<Tensor>("value"));
  return absl::OkStatus();
}

absl::Status BroadcastShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(c.input(0), c.input(1)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status MatrixProductShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape a, c.WithRank(0, 2));
  MF_ASSIGN_OR_RETURN(const Shape b, c.WithRank(1, 2));
  c.set_output(0, Shape({a.dim(0), b.dim(1)}));
  return absl::OkStatus();
}

absl::Status ReshapeShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape shape, c.input_as_shape(1));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status ShapeOfShape(ShapeContext& c) {
  c.set_output_as_shape(0, c.input(0));
  return absl::OkStatus();
}

absl::Status SplitShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape value, c.WithRankAtLeast(1, 1));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, value);
  return absl::OkStatus();
}

absl::Status HandleShape(ShapeContext& c) {
  c.set_handle(0, c.attr<DataType>("dtype"), c.attr<Shape>("shape"));
  return absl::OkStatus();
}

absl::Status ReadShape(ShapeContext& c) {
  c.set_output(0, c.handle_shape(0));
  return absl::OkStatus();
}

// Sets the fields that framework tests do not read.
OpBuilder Define(OpRegistry& ops, absl::string_view name, ShapeFn shape) {
  return ops.Define(name)
      .Doc("an op for tests")
      .Shape(shape)
      .Gathers("nothing runs it")
      .NoGradient("nothing runs it");
}

}  // namespace

void RegisterTestOps(OpRegistry& ops) {
  Define(ops, "Placeholder", PlaceholderShape)
      .Output("output: dtype")
      .Attr("dtype: type")
      .Attr("shape: shape = unknown")
      .Role(OpRole::kPlaceholder);
  Define(ops, "Const", ConstShape)
      .Output("output: dtype")
      .Attr("value: tensor")
      .Attr("dtype: type")
      .Role(OpRole::kConstant);
  Define(ops, "NoOp", NoOutputs).Role(OpRole::kNoOp);
  Define(ops, "Identity", LikeInputs).Input("input: T").Output("output: T").Attr("T: type");
  Define(ops, "Square", LikeInputs)
      .Input("x: T")
      .Output("y: T")
      .Attr("T: {float, double, int32, int64}");
  Define(ops, "AddV2", BroadcastShape)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr("T: {float, double, int32, int64}")
      .Traits(kCommutative | kElementwise);
  Define(ops, "MatMul", MatrixProductShape)
      .Input("a: T")
      .Input("b: T")
      .Output("product: T")
      .Attr("transpose_a: bool = false")
      .Attr("transpose_b: bool = false")
      .Attr("T: {float, double}");
  Define(ops, "AddN", LikeInputs)
      .Input("inputs: N * T")
      .Output("sum: T")
      .Attr("N: int >= 1")
      .Attr("T: {float, double, int32, int64}");
  Define(ops, "IdentityN", LikeInputs)
      .Input("input: T")
      .Output("output: T")
      .Attr("T: list(type) >= 1");
  Define(ops, "Split", SplitShape)
      .StaticInput("split_dim: int32")
      .Input("value: T")
      .Output("output: num_split * T")
      .Attr("num_split: int >= 1")
      .Attr("T: type");
  Define(ops, "Reshape", ReshapeShape)
      .Input("tensor: T")
      .StaticInput("shape: Tshape")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tshape: {int32, int64} = int32");
  Define(ops, "Shape", ShapeOfShape)
      .Input("input: T")
      .Output("output: out_type")
      .Attr("T: type")
      .Attr("out_type: {int32, int64} = int32");
  Define(ops, "VarHandleOp", HandleShape)
      .Output("resource: resource")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("dtype: type")
      .Attr("shape: shape")
      .Traits(kStateful)
      .Role(OpRole::kVariable);
  Define(ops, "ReadVariableOp", ReadShape)
      .Input("resource: resource")
      .Output("value: dtype")
      .Attr("dtype: type")
      .Traits(kStateful)
      .Role(OpRole::kRead);
  Define(ops, "ResourceApplyGradientDescent", NoOutputs)
      .Input("var: resource")
      .Input("alpha: T")
      .Input("delta: T")
      .Input("predicate: _gates * bool")
      .Attr("T: {float, double}")
      .Attr("use_locking: bool = false")
      .Attr("_gates: int >= 0 = 0")
      .Traits(kStateful)
      .Role(OpRole::kWrite)
      .Update("delta");
  Define(ops, "PartitionedCall", UnknownShapes)
      .Input("args: Tin")
      .Output("output: Tout")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("f: func");
  Define(ops, "AllAttributes", ScalarShapes)
      .Output("output: float")
      .Attr("s: string = 'text'")
      .Attr("i: int = 1")
      .Attr("f: float = 0.5")
      .Attr("b: bool = false")
      .Attr("type: type = float")
      .Attr("shape: shape = []")
      .Attr("choice: {'SAME', 'VALID'} = 'SAME'")
      .Attr("strings: list(string) = []")
      .Attr("ints: list(int) = [1, 2]")
      .Attr("floats: list(float) = []")
      .Attr("bools: list(bool) = []")
      .Attr("types: list(type) = []")
      .Attr("shapes: list(shape) = []")
      .Attr("tensors: list(tensor) = []")
      .Attr("funcs: list(func) = []");
}

const OpRegistry& TestOps() {
  static const OpRegistry* const ops = [] {
    auto* registry = new OpRegistry();
    RegisterTestOps(*registry);
    MF_CHECK(registry->Seal().ok());
    return registry;
  }();
  return *ops;
}

Output Apply(const Scope& scope, absl::string_view op, absl::Span<const Output> inputs,
             AttrMap attrs) {
  NodeBuilder builder = scope.Build(TestOps(), op);
  const std::vector<ArgDef>& args = TestOps().Find(op)->inputs;
  for (const ArgDef& arg : args) {
    const bool is_list = !arg.number_attr.empty() || !arg.type_list_attr.empty();
    const size_t count = is_list ? inputs.size() - (&args.back() - &arg) : 1;
    builder.InputList(inputs.subspan(0, count));
    inputs.remove_prefix(count);
  }
  for (auto& [name, value] : attrs) builder.Attr(name, std::move(value));
  Node* const node = std::move(builder).Finish();
  return Output{node, 0};
}

}  // namespace mirrorflow
