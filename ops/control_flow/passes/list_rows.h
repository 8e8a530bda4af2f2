// SPDX-License-Identifier: Apache-2.0
//
// The lowered form of a list (LowerTensorLists), which is a tensor and a length, and the list ops
// expressed as ops on tensors.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_ROWS_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_ROWS_H_

#include <vector>

#include "framework/compiler/compilation.h"

namespace mirrorflow {

struct ListRows {
  Output rows;    // [capacity, element…]; rows beyond the length are undefined
  Output length;  // a scalar int32; if invalid, the length is `fixed`
  int64_t fixed = 0;
  // The lengths inside a list of lists, whose rows are [capacity, capacity of each, element…]:
  // first the lengths of its elements, [capacity] int32; next the lengths of their elements,
  // [capacity, capacity of each]; and so on.
  std::vector<Output> inner;
};

Output LengthOf(const Scope& scope, const ListRows& list);

// Returns a list with zeros in all of its `capacity` elements of shape `element`. The first
// `length` elements exist.
ListRows ZeroRows(const Scope& scope, DataType dtype, int64_t capacity, const Shape& element,
                  int64_t length);

// Returns an operation that fails the step unless the list has this length.
Operation CheckLength(const Scope& scope, const ListRows& list, const Output& length);

// Returns element `index`, or stacked elements if it is a vector. The step fails if an element does
// not exist.
Output GetRow(const Scope& scope, const ListRows& list, const Output& index);
ListRows SetRow(const Scope& scope, const ListRows& list, const Output& index, const Output& item);
ListRows PushRow(const Scope& scope, const ListRows& list, const Output& item);
// Removes the last element and returns it.
Output PopRow(const Scope& scope, ListRows* list);

// Like GetRow, PushRow and PopRow, but for a list of lists.
ListRows GetList(const Scope& scope, const ListRows& list, const Output& index);
ListRows PushList(const Scope& scope, const ListRows& list, const ListRows& item);
ListRows PopList(const Scope& scope, ListRows* list);

// Returns all elements, stacked. A list without a fixed length must have `num_elements` elements,
// which the step checks.
Output StackRows(const Scope& scope, const ListRows& list, int64_t num_elements);
// Returns the list, enlarged to a capacity of at least `capacity` elements.
ListRows WithRoom(const Scope& scope, const ListRows& list, int64_t capacity);
// Truncates the list or pads it with zeros; its length must be fixed.
ListRows ResizeRows(const Scope& scope, const ListRows& list, int64_t size);

ListRows ScatterRows(const Scope& scope, const ListRows& list, const Output& indices,
                     const Output& items);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_ROWS_H_
