// SPDX-License-Identifier: Apache-2.0
//
// TensorFlow's lists of tensors, which loops carry their histories in. A list is a value of dtype
// variant and never changes: what sets, pushes or pops returns another list. All elements are of
// one dtype and one shape. In a plan a list is a plain tensor, one row an element, and its length
// (LowerTensorLists), so it must be known how long it can become: by `num_elements` or
// `max_num_elements`, by the tensor that it is made of, or by how often the loop can run that
// pushes. Nothing can be fed or fetched that is a list.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_TENSOR_LIST_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_TENSOR_LIST_H_

#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterTensorList(OpRegistry& ops);

namespace ops {

// For passes that are about them.
inline constexpr char kEmptyTensorList[] = "EmptyTensorList";
inline constexpr char kTensorListReserve[] = "TensorListReserve";
inline constexpr char kTensorListFromTensor[] = "TensorListFromTensor";
inline constexpr char kTensorListStack[] = "TensorListStack";
inline constexpr char kTensorListGetItem[] = "TensorListGetItem";
inline constexpr char kTensorListSetItem[] = "TensorListSetItem";
inline constexpr char kTensorListPushBack[] = "TensorListPushBack";
inline constexpr char kTensorListPopBack[] = "TensorListPopBack";
inline constexpr char kTensorListLength[] = "TensorListLength";
inline constexpr char kTensorListElementShape[] = "TensorListElementShape";
inline constexpr char kTensorListResize[] = "TensorListResize";
inline constexpr char kTensorListGather[] = "TensorListGather";
inline constexpr char kTensorListScatterIntoExistingList[] = "TensorListScatterIntoExistingList";

// EmptyTensorList: no elements. `element_shape` may be known in part.
struct EmptyTensorListOptions {
  int64_t max_num_elements = -1;  // -1: as many as the loop that pushes can push
};
Output EmptyTensorList(const Scope& scope, DataType element_dtype,
                       const mirrorflow::Shape& element_shape,
                       const EmptyTensorListOptions& options = {});

// TensorListReserve: `num_elements` zeros, of this shape.
Output TensorListReserve(const Scope& scope, DataType element_dtype, Output element_shape,
                         Output num_elements);

// TensorListFromTensor: the rows of `tensor`; TensorListStack: the way back.
Output TensorListFromTensor(const Scope& scope, Output tensor);
struct TensorListStackOptions {
  int64_t num_elements = -1;  // if not -1, what the length must be
};
Output TensorListStack(const Scope& scope, Output list, DataType element_dtype,
                       const TensorListStackOptions& options = {});

// TensorListGetItem, TensorListSetItem: element `index`, an int32 in [0, length).
// Errors:   InvalidArgument at run time for another index.
Output TensorListGetItem(const Scope& scope, Output list, Output index, DataType element_dtype);
Output TensorListSetItem(const Scope& scope, Output list, Output index, Output item);

// TensorListPushBack: one element more, the last. Errors: InvalidArgument at run time beyond
// max_num_elements.
Output TensorListPushBack(const Scope& scope, Output list, Output tensor);
// TensorListPopBack: the list without its last element, and that element.
// Errors:   InvalidArgument at run time for an empty list.
std::vector<Output> TensorListPopBack(const Scope& scope, Output list, DataType element_dtype);

// TensorListLength: an int32. TensorListElementShape: an int32 vector.
Output TensorListLength(const Scope& scope, Output list);
Output TensorListElementShape(const Scope& scope, Output list);
// TensorListResize: cut, or zeros added, to `size` elements, a constant.
Output TensorListResize(const Scope& scope, Output list, Output size);

// TensorListGather: the elements at `indices`, stacked; TensorListScatterIntoExistingList: the list
// with the rows of `tensor` at `indices`.
Output TensorListGather(const Scope& scope, Output list, Output indices, DataType element_dtype);
Output TensorListScatterIntoExistingList(const Scope& scope, Output list, Output tensor,
                                         Output indices);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_TENSOR_LIST_H_
