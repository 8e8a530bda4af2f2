// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "ops/constant.h"
#include "ops/control_flow/tensor_list.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace ops {
namespace {

// -1 is an unknown dimension. The scalar -1 is a shape of unknown rank.
Output ElementShapeConst(const Scope& named, const mirrorflow::Shape& shape) {
  const Scope scope = named.WithName("");  // the name is for the list op
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
