// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/list_rows.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/assert.h"
#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/gather.h"
#include "ops/gather_nd.h"
#include "ops/identity.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/slice.h"

namespace mirrorflow {
namespace {

Output Int(const Scope& scope, int64_t value) {
  return ops::ScalarConst(scope, DT_INT32, static_cast<double>(value));
}

int64_t CapacityOf(const Scope& scope, const ListRows& list) {
  return scope.shape(list.rows).dim(0);
}

// Returns `index` if it is below the length, or else -1, which the kernels reject as out of range.
Output BelowLength(const Scope& scope, const ListRows& list, const Output& index) {
  if (!list.length.valid() && list.fixed == CapacityOf(scope, list)) return index;
  return ops::SelectV2(scope, ops::Less(scope, index, LengthOf(scope, list)), index,
                       Int(scope, -1));
}

Output FirstRows(const Scope& scope, const Output& rows, int64_t count) {
  const Shape& shape = scope.shape(rows);
  if (count == shape.dim(0)) return ops::Identity(scope, rows);
  std::vector<int64_t> begin(shape.rank(), 0), size(shape.dims().begin(), shape.dims().end());
  size[0] = count;
  return ops::Slice(scope, rows, ops::VectorConst(scope, begin), ops::VectorConst(scope, size));
}

}  // namespace

Output LengthOf(const Scope& scope, const ListRows& list) {
  return list.length.valid() ? list.length : Int(scope, list.fixed);
}

ListRows ZeroRows(const Scope& scope, DataType dtype, int64_t capacity, const Shape& element,
                  int64_t length) {
  std::vector<int64_t> dims = {capacity};
  dims.insert(dims.end(), element.dims().begin(), element.dims().end());
  const Output zero = ops::ScalarConst(scope, dtype, 0);
  return {.rows = ops::Fill(scope, ops::VectorConst(scope, dims), zero),
          .length = Output(),
          .fixed = length};
}

Output GetRow(const Scope& scope, const ListRows& list, const Output& index) {
  return ops::GatherV2(scope, list.rows, BelowLength(scope, list, index), Int(scope, 0));
}

ListRows SetRow(const Scope& scope, const ListRows& list, const Output& index, const Output& item) {
  ListRows set = list;
  const Output position = ops::Reshape(scope, BelowLength(scope, list, index), Shape({1, 1}));
  set.rows = ops::TensorScatterUpdate(scope, list.rows, position, ops::ExpandDims(scope, item, 0));
  return set;
}

ListRows PushRow(const Scope& scope, const ListRows& list, const Output& item) {
  if (!list.length.valid() && list.fixed >= CapacityOf(scope, list)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("the list is full: its capacity is ", list.fixed, " elements")));
  }
  const Output length = LengthOf(scope, list);
  ListRows longer = list;
  longer.rows =
      ops::TensorScatterUpdate(scope, list.rows, ops::Reshape(scope, length, Shape({1, 1})),
                               ops::ExpandDims(scope, item, 0));
  longer.fixed = list.fixed + 1;
  if (list.length.valid()) longer.length = ops::AddV2(scope, length, Int(scope, 1));
  return longer;
}

Output PopRow(const Scope& scope, ListRows* list) {
  const Output last = ops::Sub(scope, LengthOf(scope, *list), Int(scope, 1));
  const Output item = ops::GatherV2(scope, list->rows, last, Int(scope, 0));
  if (list->length.valid() || list->fixed == 0) {
    list->length = last;
  } else {
    --list->fixed;
  }
  return item;
}

namespace {

// Returns the element lengths of a list of lists at depth `k`, as a list with one entry per
// element.
ListRows InnerLengths(const ListRows& list, size_t k) {
  return {.rows = list.inner[k], .length = list.length, .fixed = list.fixed};
}

// Returns the list with a capacity of exactly `capacity` elements, which is its maximum length.
ListRows FitRoom(const Scope& scope, const ListRows& list, int64_t capacity) {
  if (CapacityOf(scope, list) <= capacity) return WithRoom(scope, list, capacity);
  ListRows fit = list;
  fit.rows = FirstRows(scope, list.rows, capacity);
  for (Output& lengths : fit.inner) lengths = FirstRows(scope, lengths, capacity);
  return fit;
}

// Returns an element of a list of lists. `get` reads each of its parts from a list of tensors.
template <typename Get>
ListRows EachPart(const ListRows& list, const Get& get) {
  ListRows item{.rows = get(list), .length = get(InnerLengths(list, 0))};
  for (size_t k = 1; k < list.inner.size(); ++k) item.inner.push_back(get(InnerLengths(list, k)));
  return item;
}

}  // namespace

ListRows GetList(const Scope& scope, const ListRows& list, const Output& index) {
  return EachPart(list, [&](const ListRows& part) { return GetRow(scope, part, index); });
}

ListRows PushList(const Scope& scope, const ListRows& list, const ListRows& item) {
  const ListRows fit = FitRoom(scope, item, scope.shape(list.rows).dim(1));
  ListRows longer = PushRow(scope, list, fit.rows);
  for (size_t k = 0; k < list.inner.size(); ++k) {
    const Output lengths = k == 0 ? LengthOf(scope, fit) : fit.inner[k - 1];
    longer.inner[k] = PushRow(scope, InnerLengths(list, k), lengths).rows;
  }
  return longer;
}

ListRows PopList(const Scope& scope, ListRows* list) {
  ListRows shorter;
  const ListRows item = EachPart(*list, [&](const ListRows& part) {
    shorter = part;
    return PopRow(scope, &shorter);
  });
  list->length = shorter.length;
  list->fixed = shorter.fixed;
  return item;
}

Operation CheckLength(const Scope& scope, const ListRows& list, const Output& length) {
  const Output have = LengthOf(scope, list);
  return ops::Assert(scope, ops::Equal(scope, have, length), {have, length});
}

Output StackRows(const Scope& scope, const ListRows& list, int64_t num_elements) {
  if (!list.length.valid()) return FirstRows(scope, list.rows, list.fixed);
  if (num_elements > CapacityOf(scope, list)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("the list must have num_elements = ", num_elements,
                     " elements; its capacity is ", CapacityOf(scope, list))));
  }
  const Operation check = CheckLength(scope, list, Int(scope, num_elements));
  return FirstRows(scope.WithControlDependencies({check}), list.rows, num_elements);
}

ListRows WithRoom(const Scope& scope, const ListRows& list, int64_t capacity) {
  const Shape& rows = scope.shape(list.rows);
  const int64_t more = capacity - rows.dim(0);
  if (more <= 0) return list;
  auto widened = [&](const Output& part) {
    const Shape element(scope.shape(part).dims().subspan(1));
    return ops::ConcatV2(scope, {part, ZeroRows(scope, part.dtype(), more, element, more).rows}, 0);
  };
  ListRows wide = list;
  wide.rows = widened(list.rows);
  for (Output& lengths : wide.inner) lengths = widened(lengths);
  return wide;
}

ListRows ResizeRows(const Scope& scope, const ListRows& list, int64_t size) {
  ListRows resized = list;
  resized.rows = FirstRows(scope, list.rows, std::min(size, list.fixed));
  resized = WithRoom(scope, resized, size);
  resized.fixed = size;
  return resized;
}

ListRows ScatterRows(const Scope& scope, const ListRows& list, const Output& indices,
                     const Output& items) {
  ListRows set = list;
  const Output positions = ops::ExpandDims(scope, BelowLength(scope, list, indices), 1);
  set.rows = ops::TensorScatterUpdate(scope, list.rows, positions, items);
  return set;
}

}  // namespace mirrorflow
