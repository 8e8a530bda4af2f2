// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/tensor_list.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "ops/constant.h"
#include "ops/gradients.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kInRows =
    "LowerTensorLists turns lists into tensors before shardings are chosen";

// --- Properties of lists ---------------------------------------------------------------------

Shape Rows(int64_t count, const Shape& element) {
  if (element.unknown_rank()) return element;
  Shape rows({count});
  for (const int64_t d : element.dims()) rows.AddDim(d);
  return rows;
}

absl::StatusOr<Shape> ElementOfRows(const ShapeContext& c, int i) {
  MF_ASSIGN_OR_RETURN(const Shape rows, c.WithRankAtLeast(i, 1));
  return rows.unknown_rank() ? rows : Shape(rows.dims().subspan(1));
}

// Returns operand i, an element_shape, which is a partially known vector, or the scalar -1 for an
// unknown shape.
absl::StatusOr<Shape> ElementShapeInput(const ShapeContext& c, int i) {
  const Shape& shape = c.input(i);
  if (!shape.unknown_rank() && shape.rank() == 1) return c.input_as_shape(i);
  if (shape.unknown_rank()) return Shape::UnknownRank();
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> number, IntegerInput(c, i));
  if (shape.rank() == 0 && number.value_or(-1) == -1) return Shape::UnknownRank();
  return absl::InvalidArgumentError(
      absl::StrCat("element_shape must be a vector or the scalar -1, got ",
                   shape.rank() == 0 ? absl::StrCat(*number) : shape.ToString()));
}

absl::Status Merge(ListInfo* list, const Shape& element) {
  MF_ASSIGN_OR_RETURN(
      list->element,
      MergeShapes(list->element, element, "all elements of a list must have the same shape"));
  return list->element.Validate(list->dtype);
}

bool OfLists(const ShapeContext& c) { return c.attr<DataType>("element_dtype") == DT_VARIANT; }

// Returns the list in input 0, with the element dtype that the node declares.
absl::StatusOr<ListInfo> ListOfNode(const ShapeContext& c) {
  ListInfo list = ListInput(c, 0);
  const DataType dtype = c.attr<DataType>("element_dtype");
  for (const ListKind& kind : list.kinds()) {
    const DataType known = kind.inner.empty() ? kind.dtype : DT_VARIANT;
    if (!kind.known() || known == dtype) continue;
    return absl::InvalidArgumentError(absl::StrCat("the list has elements of ", DataTypeName(known),
                                                   ", but attribute element_dtype is ",
                                                   DataTypeName(dtype)));
  }
  if (dtype != DT_VARIANT) list.dtype = dtype;
  return list;
}

// Like ListOfNode, but the elements must be tensors.
absl::StatusOr<ListInfo> TensorsOfNode(const ShapeContext& c) {
  if (!OfLists(c)) return ListOfNode(c);
  return absl::UnimplementedError(
      "elements that are lists can only be pushed and popped; other list ops require tensors");
}

// Sets output i to one element, or to `rows` stacked elements.
absl::Status SetElements(ShapeContext& c, int i, const ListInfo& list, const Shape& said,
                         std::optional<int64_t> rows = std::nullopt) {
  ListInfo merged = list;
  MF_RETURN_IF_ERROR(Merge(&merged, said));
  if (rows.has_value()) {
    c.set_output(i, Rows(*rows, merged.element));
  } else if (merged.common.has_value() && !merged.is_empty()) {
    c.set_constant(i, merged.common);
  } else {
    c.set_output(i, merged.element);
  }
  return absl::OkStatus();
}

// --- Shape functions -------------------------------------------------------------------------

// Returns the information about a new list. For a list of lists, the elements are not yet known.
ListInfo NewList(const ShapeContext& c) {
  ListInfo list;
  if (!OfLists(c)) list.dtype = c.attr<DataType>("element_dtype");
  return list;
}

absl::StatusOr<ListInfo> NewListOfTensors(const ShapeContext& c) {
  if (OfLists(c)) return absl::UnimplementedError("a list of lists must be created empty");
  return NewList(c);
}

absl::Status EmptyShape(ShapeContext& c) {
  ListInfo list = NewList(c);
  if (!OfLists(c)) {
    MF_ASSIGN_OR_RETURN(list.element, ElementShapeInput(c, 0));
  }
  MF_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  list.length = list.max_length = 0;
  SetList(c, 0, list);
  return absl::OkStatus();
}

absl::Status ReserveShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(ListInfo list, NewListOfTensors(c));
  MF_ASSIGN_OR_RETURN(list.element, ElementShapeInput(c, 0));
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> count, CountInput(c, 1));
  list.length = list.max_length = count.value_or(ListInfo::kUnknown);
  SetList(c, 0, list);
  return absl::OkStatus();
}

absl::Status FromTensorShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(ListInfo list, NewListOfTensors(c));
  MF_ASSIGN_OR_RETURN(list.element, ElementOfRows(c, 0));
  MF_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, 1));
  MF_RETURN_IF_ERROR(Merge(&list, said));
  if (!c.input(0).unknown_rank()) list.length = list.max_length = c.input(0).dim(0);
  SetList(c, 0, list);
  return absl::OkStatus();
}

absl::Status StackShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const ListInfo list, TensorsOfNode(c));
  MF_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, 1));
  int64_t rows = c.attr<int64_t>("num_elements");
  if (rows < -1) {
    return absl::InvalidArgumentError(absl::StrCat("num_elements must be at least -1, got ", rows));
  }
  if (rows >= 0 && list.length >= 0 && rows != list.length) {
    return absl::InvalidArgumentError(
        absl::StrCat("the list must have num_elements = ", rows, " elements, got ", list.length));
  }
  if (rows < 0) rows = list.length;
  return SetElements(c, 0, list, said, rows);
}

absl::Status GetItemShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const ListInfo list, TensorsOfNode(c));
  MF_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  MF_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, 2));
  return SetElements(c, 0, list, said);
}

// Updates `list->common` when input i is added as an element. The common value is known only while
// all elements are the same constant.
void MergeCommon(const ShapeContext& c, int i, ListInfo* list) {
  const Tensor* tensor = c.constant(i);
  if (tensor == nullptr || !(list->is_empty() || SameTensor(list->common, *tensor))) {
    list->common = Tensor();
  } else {
    list->common = *tensor;
  }
}

absl::Status SetItemShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(ListInfo list, TensorsOfNode(c));
  if (c.attr<bool>("resize_if_index_out_of_bounds")) {
    return absl::UnimplementedError(
        "resize_if_index_out_of_bounds makes the length depend on data; create the list with a "
        "fixed size (for a TensorArray: dynamic_size=False)");
  }
  MF_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  MF_RETURN_IF_ERROR(Merge(&list, c.input(2)));
  if (list.length != 0) MergeCommon(c, 2, &list);
  SetList(c, 0, list);
  return absl::OkStatus();
}

int64_t Sum(int64_t length, int64_t more) {
  return length < 0 ? length : std::max<int64_t>(length + more, 0);
}

absl::Status PushBackShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(ListInfo list, ListOfNode(c));
  if (OfLists(c)) {
    const int64_t length = list.length, max_length = list.max_length;
    MF_ASSIGN_OR_RETURN(const ListInfo item, ListInput(c, 1).InList());
    MF_ASSIGN_OR_RETURN(list, EitherList(list, item));
    list.length = length;
    list.max_length = max_length;
  } else {
    MF_RETURN_IF_ERROR(Merge(&list, c.input(1)));
    MergeCommon(c, 1, &list);
  }
  list.length = Sum(list.length, 1);
  list.max_length = Sum(list.max_length, 1);
  SetList(c, 0, list);
  return absl::OkStatus();
}

absl::Status PopBackShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(ListInfo list, ListOfNode(c));
  if (OfLists(c)) {
    SetList(c, 1, list.ElementList());
  } else {
    MF_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, 1));
    MF_RETURN_IF_ERROR(SetElements(c, 1, list, said));
  }
  list.length = Sum(list.length, -1);
  list.max_length = Sum(list.max_length, -1);
  SetList(c, 0, list);
  return absl::OkStatus();
}

absl::Status LengthShape(ShapeContext& c) {
  const int64_t length = ListInput(c, 0).length;
  SetScalar(c, 0, length < 0 ? std::nullopt : std::optional<int64_t>(length));
  return absl::OkStatus();
}

absl::Status ElementShapeShape(ShapeContext& c) {
  if (!ListInput(c, 0).inner.empty()) {
    return absl::UnimplementedError(
        "elements that are lists have no shape; expected a list of tensors");
  }
  c.set_output_as_shape(0, ListInput(c, 0).element);
  return absl::OkStatus();
}

absl::Status ResizeShape(ShapeContext& c) {
  ListInfo list = ListInput(c, 0);
  if (!list.inner.empty()) {
    return absl::UnimplementedError(
        "a list of lists cannot be resized; expected a list of tensors");
  }
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> size, CountInput(c, 1));
  list.length = list.max_length = size.value_or(ListInfo::kUnknown);
  list.common = Tensor();
  SetList(c, 0, list);
  return absl::OkStatus();
}

absl::Status GatherShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const ListInfo list, TensorsOfNode(c));
  MF_ASSIGN_OR_RETURN(const Shape indices, c.WithRank(1, 1));
  MF_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, 2));
  return SetElements(c, 0, list, said, indices.dim(0));
}

absl::Status ScatterShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(ListInfo list, TensorsOfNode(c));
  MF_ASSIGN_OR_RETURN(const Shape element, ElementOfRows(c, 1));
  MF_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  MF_RETURN_IF_ERROR(Merge(&list, element));
  list.common = Tensor();
  SetList(c, 0, list);
  return absl::OkStatus();
}

// --- Gradients, as in list_ops.py ------------------------------------------------------------

using Gradients = absl::StatusOr<std::vector<Output>>;

// Returns a list of zeros with the length and element shape of `list`.
Output ZerosIn(const GradContext& c, const Output& list, DataType dtype) {
  return ops::TensorListReserve(c.scope, dtype, ops::TensorListElementShape(c.scope, list),
                                ops::TensorListLength(c.scope, list));
}

Gradients FromTensorGrad(const GradContext& c) {
  const Output tensor = c.op.input(0);
  const Shape& shape = c.scope.shape(tensor);
  const int64_t rows = shape.unknown_rank() ? kUnknownDim : shape.dim(0);
  return std::vector<Output>{
      ops::TensorListStack(c.scope, c.dy[0], tensor.dtype(), {.num_elements = rows}), Output()};
}

Gradients StackGrad(const GradContext& c) {
  return std::vector<Output>{ops::TensorListFromTensor(c.scope, c.dy[0]), Output()};
}

Gradients GetItemGrad(const GradContext& c) {
  const Output zeros = ZerosIn(c, c.op.input(0), c.dy[0].dtype());
  return std::vector<Output>{ops::TensorListSetItem(c.scope, zeros, c.op.input(1), c.dy[0]),
                             Output(), Output()};
}

Gradients SetItemGrad(const GradContext& c) {
  const Output index = c.op.input(1), item = c.op.input(2);
  // Reads the element before the overwrite, so that the overwrite can happen in place.
  const Output d_item = ops::TensorListGetItem(c.scope, c.dy[0], index, item.dtype());
  const Output d_list =
      ops::TensorListSetItem(c.scope, c.dy[0], index, ops::ZerosLike(c.scope, item));
  return std::vector<Output>{d_list, Output(), d_item};
}

Gradients PushBackGrad(const GradContext& c) {
  return ops::TensorListPopBack(c.scope, c.dy[0], c.op.input(1).dtype());
}

Gradients PopBackGrad(const GradContext& c) {
  const Output tensor = c.op.output(1);
  Output d_list = c.dy[0], d_tensor = c.dy[1];
  if (!d_list.valid()) {
    d_list = ops::EmptyTensorList(c.scope, tensor.dtype(), c.scope.shape(tensor));
  }
  if (!d_tensor.valid()) d_tensor = ops::ZerosLike(c.scope, tensor);
  return std::vector<Output>{ops::TensorListPushBack(c.scope, d_list, d_tensor), Output()};
}

Gradients ResizeGrad(const GradContext& c) {
  const Output length = ops::TensorListLength(c.scope, c.op.input(0));
  return std::vector<Output>{ops::TensorListResize(c.scope, c.dy[0], length), Output()};
}

Gradients GatherGrad(const GradContext& c) {
  const Output zeros = ZerosIn(c, c.op.input(0), c.dy[0].dtype());
  return std::vector<Output>{
      ops::TensorListScatterIntoExistingList(c.scope, zeros, c.dy[0], c.op.input(1)), Output(),
      Output()};
}

Gradients ScatterGrad(const GradContext& c) {
  const Output tensor = c.op.input(1), indices = c.op.input(2);
  const Output d_tensor = ops::TensorListGather(c.scope, c.dy[0], indices, tensor.dtype());
  const Output zeros = ops::ZerosLike(c.scope, tensor);
  return std::vector<Output>{
      ops::TensorListScatterIntoExistingList(c.scope, c.dy[0], zeros, indices), d_tensor, Output()};
}

// --- The table -------------------------------------------------------------------------------

struct Row {
  const char* name;
  const char* doc;
  std::vector<const char*> inputs, outputs, attrs;
  ShapeFn shape;
  GradientFn gradient;
};

constexpr char kDtype[] = "element_dtype: type";
constexpr char kShapeType[] = "shape_type: {int32, int64}";

std::vector<Row> Table() {
  return {
      {ops::kEmptyTensorList,
       "an empty list, whose elements will have shape `element_shape`",
       {"element_shape: shape_type", "max_num_elements: int32"},
       {"handle: variant"},
       {kDtype, kShapeType},
       EmptyShape,
       ZeroGradients},
      {ops::kTensorListElementShape,
       "the shape of the elements",
       {"input_handle: variant"},
       {"element_shape: shape_type"},
       {kShapeType},
       ElementShapeShape,
       ZeroGradients},
      {ops::kTensorListFromTensor,
       "a list of the rows of a tensor",
       {"tensor: element_dtype", "element_shape: shape_type"},
       {"output_handle: variant"},
       {kDtype, kShapeType},
       FromTensorShape,
       FromTensorGrad},
      {ops::kTensorListGather,
       "the elements at `indices`, stacked",
       {"input_handle: variant", "indices: int32", "element_shape: int32"},
       {"values: element_dtype"},
       {kDtype},
       GatherShape,
       GatherGrad},
      {ops::kTensorListGetItem,
       "item = list[index]",
       {"input_handle: variant", "index: int32", "element_shape: Tshape"},
       {"item: element_dtype"},
       {kDtype, "Tshape: {int32, int64} = int32"},
       GetItemShape,
       GetItemGrad},
      {ops::kTensorListLength,
       "the number of elements",
       {"input_handle: variant"},
       {"length: int32"},
       {},
       LengthShape,
       ZeroGradients},
      {ops::kTensorListPopBack,
       "the list without its last element, and that element",
       {"input_handle: variant", "element_shape: int32"},
       {"output_handle: variant", "tensor: element_dtype"},
       {kDtype},
       PopBackShape,
       PopBackGrad},
      {ops::kTensorListPushBack,
       "the list with an element appended",
       {"input_handle: variant", "tensor: element_dtype"},
       {"output_handle: variant"},
       {kDtype},
       PushBackShape,
       PushBackGrad},
      {ops::kTensorListReserve,
       "a list of `num_elements` tensors of zeros",
       {"element_shape: shape_type", "num_elements: int32"},
       {"handle: variant"},
       {kDtype, kShapeType},
       ReserveShape,
       ZeroGradients},
      {ops::kTensorListResize,
       "the list, truncated or padded with zeros",
       {"input_handle: variant", "size: int32"},
       {"output_handle: variant"},
       {},
       ResizeShape,
       ResizeGrad},
      {ops::kTensorListScatterIntoExistingList,
       "the list with the elements at `indices` replaced by the rows of `tensor`",
       {"input_handle: variant", "tensor: element_dtype", "indices: int32"},
       {"output_handle: variant"},
       {kDtype},
       ScatterShape,
       ScatterGrad},
      {ops::kTensorListSetItem,
       "the list with element `index` replaced by `item`",
       {"input_handle: variant", "index: int32", "item: element_dtype"},
       {"output_handle: variant"},
       {kDtype, "resize_if_index_out_of_bounds: bool = false"},
       SetItemShape,
       SetItemGrad},
      {ops::kTensorListStack,
       "the elements as the rows of a tensor",
       {"input_handle: variant", "element_shape: int32"},
       {"tensor: element_dtype"},
       {kDtype, "num_elements: int = -1"},
       StackShape,
       StackGrad},
  };
}

}  // namespace

void RegisterTensorList(OpRegistry& ops) {
  for (const Row& row : Table()) {
    OpBuilder op = ops.Define(row.name);
    op.Doc(row.doc).Shape(row.shape).Gathers(kInRows).Gradient(row.gradient);
    for (const char* input : row.inputs) op.Input(input);
    for (const char* output : row.outputs) op.Output(output);
    for (const char* attr : row.attrs) op.Attr(attr);
  }
}

namespace ops {
namespace {

// Returns `shape` as a constant. An element of -1 is an unknown dimension, and the scalar -1 is an
// unknown rank.
Output ElementShapeConst(const Scope& named, const mirrorflow::Shape& shape) {
  const Scope scope = named.WithName("");  // the name belongs to the list op
  if (shape.unknown_rank()) return ScalarConst(scope, DT_INT32, -1);
  return VectorConst(scope, std::vector<int64_t>(shape.dims().begin(), shape.dims().end()));
}

Output Unsaid(const Scope& scope) {
  return ElementShapeConst(scope, mirrorflow::Shape::UnknownRank());
}

}  // namespace

Output EmptyTensorList(const Scope& scope, DataType element_dtype,
                       const mirrorflow::Shape& element_shape,
                       const EmptyTensorListOptions& options) {
  return Build(scope, kEmptyTensorList,
               {ElementShapeConst(scope, element_shape),
                ScalarConst(scope.WithName(""), DT_INT32,
                            static_cast<double>(options.max_num_elements))})
      .Attr("element_dtype", element_dtype)
      .One();
}

Output TensorListReserve(const Scope& scope, DataType element_dtype, Output element_shape,
                         Output num_elements) {
  return Build(scope, kTensorListReserve, {element_shape, num_elements})
      .Attr("element_dtype", element_dtype)
      .One();
}

Output TensorListFromTensor(const Scope& scope, Output tensor) {
  const mirrorflow::Shape rows = scope.shape(tensor);
  const bool known = tensor.valid() && !rows.unknown_rank() && rows.rank() > 0;
  const Output element = ElementShapeConst(
      scope, known ? mirrorflow::Shape(rows.dims().subspan(1)) : mirrorflow::Shape::UnknownRank());
  return Apply(scope, kTensorListFromTensor, {tensor, element});
}

Output TensorListStack(const Scope& scope, Output list, DataType element_dtype,
                       const TensorListStackOptions& options) {
  return Build(scope, kTensorListStack, {list, Unsaid(scope)})
      .Attr("element_dtype", element_dtype)
      .Attr("num_elements", options.num_elements)
      .One();
}

Output TensorListGetItem(const Scope& scope, Output list, Output index, DataType element_dtype) {
  return Build(scope, kTensorListGetItem, {list, index, Unsaid(scope)})
      .Attr("element_dtype", element_dtype)
      .One();
}

Output TensorListSetItem(const Scope& scope, Output list, Output index, Output item) {
  return Apply(scope, kTensorListSetItem, {list, index, item});
}

Output TensorListPushBack(const Scope& scope, Output list, Output tensor) {
  return Apply(scope, kTensorListPushBack, {list, tensor});
}

std::vector<Output> TensorListPopBack(const Scope& scope, Output list, DataType element_dtype) {
  Node* node = Build(scope, kTensorListPopBack, {list, Unsaid(scope)})
                   .Attr("element_dtype", element_dtype)
                   .Finish();
  return OutputsOf(node, 2);
}

Output TensorListLength(const Scope& scope, Output list) {
  return Apply(scope, kTensorListLength, {list});
}

Output TensorListElementShape(const Scope& scope, Output list) {
  return Build(scope, kTensorListElementShape, {list}).Attr("shape_type", DT_INT32).One();
}

Output TensorListResize(const Scope& scope, Output list, Output size) {
  return Apply(scope, kTensorListResize, {list, size});
}

Output TensorListGather(const Scope& scope, Output list, Output indices, DataType element_dtype) {
  return Build(scope, kTensorListGather, {list, indices, Unsaid(scope)})
      .Attr("element_dtype", element_dtype)
      .One();
}

Output TensorListScatterIntoExistingList(const Scope& scope, Output list, Output tensor,
                                         Output indices) {
  return Apply(scope, kTensorListScatterIntoExistingList, {list, tensor, indices});
}

}  // namespace ops
}  // namespace mirrorflow
