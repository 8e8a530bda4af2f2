// SPDX-License-Identifier: Apache-2.0
//
// What is known of a list of tensors before anything runs. A list is a value of dtype variant; its
// row of the ShapeTable holds this in the fields that other values have no use for.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

struct ListInfo {
  static constexpr int64_t kUnknown = -1;

  DataType dtype = DT_INVALID;  // of the elements; DT_INVALID: nothing is known of the list
  Shape element = Shape::UnknownRank();  // the shape of all elements
  int64_t length = kUnknown;
  int64_t max_length = kUnknown;  // it is never longer; that may be known where its length is not
  Tensor common;                  // has_value(): every element is this

  bool known() const { return dtype != DT_INVALID; }
  bool is_empty() const { return max_length == 0; }

  static ListInfo From(const ValueInfo& info);
  ValueInfo ToValueInfo() const;
};

// The list of a shape function's input i, and what it says of output i.
ListInfo ListInput(const ShapeContext& c, int i);
void SetList(ShapeContext& c, int i, const ListInfo& list);

// Whether both are tensors of one value.
bool SameTensor(const Tensor& a, const Tensor& b);

// What is true of a list that is one or the other. InvalidArgument if their elements differ in
// dtype or shape.
absl::StatusOr<ListInfo> EitherList(const ListInfo& a, const ListInfo& b);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_
