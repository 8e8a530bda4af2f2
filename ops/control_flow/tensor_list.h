// SPDX-License-Identifier: Apache-2.0
//
// TensorFlow's lists of tensors. A loop keeps the values of its iterations in such lists. A list is
// an immutable value of dtype variant: ops that set, push or pop an element return a new list. All
// elements have the same dtype and shape. In a plan, a list is a plain tensor with one row per
// element, and a length (LowerTensorLists), so its maximum length must be known. It follows from
// `num_elements` or `max_num_elements`, from the tensor that the list is made from, or from the
// maximum number of iterations of the loop that pushes. Lists cannot be fed or fetched.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_TENSOR_LIST_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_TENSOR_LIST_H_

#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Op names, for passes that match these ops.
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

// EmptyTensorList: an empty list. `element_shape` may be partially known.
struct EmptyTensorListOptions {
  int64_t max_num_elements = -1;  // -1: as many as the loop can push
};
Output EmptyTensorList(const Scope& scope, DataType element_dtype,
                       const mirrorflow::Shape& element_shape,
                       const EmptyTensorListOptions& options = {});

// TensorListReserve: a list of `num_elements` tensors of zeros, each of shape `element_shape`.
// `num_elements` must be known when the step is compiled.
Output TensorListReserve(const Scope& scope, DataType element_dtype, Output element_shape,
                         Output num_elements);

// TensorListFromTensor: a list of the rows of `tensor`. TensorListStack is the inverse.
Output TensorListFromTensor(const Scope& scope, Output tensor);
struct TensorListStackOptions {
  int64_t num_elements = -1;  // the required length, or -1 for any length
};
Output TensorListStack(const Scope& scope, Output list, DataType element_dtype,
                       const TensorListStackOptions& options = {});

// TensorListGetItem returns, and TensorListSetItem replaces, element `index`, an int32 in [0,
// length).
// Errors:   InvalidArgument at run time if the index is outside this range.
Output TensorListGetItem(const Scope& scope, Output list, Output index, DataType element_dtype);
Output TensorListSetItem(const Scope& scope, Output list, Output index, Output item);

// TensorListPushBack: the list with `tensor` appended.
// Errors:   InvalidArgument at run time if the list would exceed max_num_elements.
Output TensorListPushBack(const Scope& scope, Output list, Output tensor);
// TensorListPopBack: the list without its last element, and that element.
// Errors:   InvalidArgument at run time for an empty list.
std::vector<Output> TensorListPopBack(const Scope& scope, Output list, DataType element_dtype);

// TensorListLength: the length, an int32. TensorListElementShape: the element shape, an int32
// vector.
Output TensorListLength(const Scope& scope, Output list);
Output TensorListElementShape(const Scope& scope, Output list);
// TensorListResize: the list, truncated or padded with zeros to `size` elements; `size` must be
// known when the step is compiled.
Output TensorListResize(const Scope& scope, Output list, Output size);

// TensorListGather: the elements at `indices`, stacked. TensorListScatterIntoExistingList: the list
// with the elements at `indices` replaced by the rows of `tensor`.
Output TensorListGather(const Scope& scope, Output list, Output indices, DataType element_dtype);
Output TensorListScatterIntoExistingList(const Scope& scope, Output list, Output tensor,
                                         Output indices);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_TENSOR_LIST_H_
