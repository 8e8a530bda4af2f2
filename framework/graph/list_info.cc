// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/list_info.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

ListInfo ListInfo::From(const ValueInfo& info) {
  ListInfo list;
  list.dtype = info.handle_dtype;
  list.element = info.handle_shape;
  list.common = info.constant;
  if (info.as_shape.has_value() && info.as_shape->rank() == 2) {
    list.length = info.as_shape->dim(0);
    list.max_length = info.as_shape->dim(1);
  }
  return list;
}

ValueInfo ListInfo::ToValueInfo() const {
  return {.shape = Shape(),
          .constant = common,
          .as_shape = Shape({length, max_length}),
          .handle_dtype = dtype,
          .handle_shape = element};
}

ListInfo ListInput(const ShapeContext& c, int i) { return ListInfo::From(c.input_info(i)); }

void SetList(ShapeContext& c, int i, const ListInfo& list) {
  if (list.common.has_value()) c.set_constant(i, list.common);
  c.set_output_as_shape(i, Shape({list.length, list.max_length}));
  c.set_handle(i, list.dtype, list.element);  // last: it says that a list is a scalar
}

bool SameTensor(const Tensor& a, const Tensor& b) {
  return a.has_value() && b.has_value() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

absl::StatusOr<ListInfo> EitherList(const ListInfo& a, const ListInfo& b) {
  if (!a.known() || !b.known()) return ListInfo();
  if (a.dtype != b.dtype) {
    return absl::InvalidArgumentError(absl::StrCat("the elements of a list must be of one dtype, ",
                                                   "got ", DataTypeName(a.dtype), " and ",
                                                   DataTypeName(b.dtype)));
  }
  ListInfo either = a;
  const absl::StatusOr<Shape> element = a.element.MergeWith(b.element);
  if (!element.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the elements of a list must be of one shape, ",
                                                   "got ", a.element.ToString(), " and ",
                                                   b.element.ToString()));
  }
  either.element = *element;
  if (a.length != b.length) either.length = ListInfo::kUnknown;
  const bool bounded = a.max_length >= 0 && b.max_length >= 0;
  either.max_length = bounded ? std::max(a.max_length, b.max_length) : ListInfo::kUnknown;
  if (a.is_empty()) {
    either.common = b.common;
  } else if (!b.is_empty() && !SameTensor(a.common, b.common)) {
    either.common = Tensor();
  }
  return either;
}

}  // namespace mirrorflow
