// SPDX-License-Identifier: Apache-2.0
//
// A list as LowerTensorLists has it: a tensor and a length; and what each list op is, said in ops
// on tensors.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_ROWS_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_ROWS_H_

#include <vector>

#include "framework/compiler/compilation.h"

namespace mirrorflow {

struct ListRows {
  Output rows;    // [capacity, element…]; what lies behind the length means nothing
  Output length;  // a scalar int32; invalid: it is `fixed`
  int64_t fixed = 0;
  // Of a list of lists, whose rows are [capacity, capacity of each, element…]: how long those are,
  // [capacity] int32; then how long theirs are, [capacity, capacity of each]; and so on.
  std::vector<Output> inner;
};

Output LengthOf(const Scope& scope, const ListRows& list);
int64_t CapacityOf(const Scope& scope, const ListRows& list);

// Zeros for `capacity` elements of this shape, of which `length` are there.
ListRows ZeroRows(const Scope& scope, DataType dtype, int64_t capacity, const Shape& element,
                  int64_t length);

// Fails the step unless the list is of this length.
Operation CheckLength(const Scope& scope, const ListRows& list, const Output& length);

// Element `index`: an error of the step if there is none.
Output GetRow(const Scope& scope, const ListRows& list, const Output& index);
ListRows SetRow(const Scope& scope, const ListRows& list, const Output& index, const Output& item);
ListRows PushRow(const Scope& scope, const ListRows& list, const Output& item);
// Takes the last element away; returns it.
Output PopRow(const Scope& scope, ListRows* list);

// The same of a list of lists.
ListRows GetList(const Scope& scope, const ListRows& list, const Output& index);
ListRows PushList(const Scope& scope, const ListRows& list, const ListRows& item);
ListRows PopList(const Scope& scope, ListRows* list);

// All elements. What has no fixed length must have `num_elements`, which the step checks.
Output StackRows(const Scope& scope, const ListRows& list, int64_t num_elements);
// The list with room for `capacity` elements, if it has not as much already.
ListRows WithRoom(const Scope& scope, const ListRows& list, int64_t capacity);
// Cut or filled up with zeros; its length must be fixed.
ListRows ResizeRows(const Scope& scope, const ListRows& list, int64_t size);

Output GatherRows(const Scope& scope, const ListRows& list, const Output& indices);
ListRows ScatterRows(const Scope& scope, const ListRows& list, const Output& indices,
                     const Output& items);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_ROWS_H_
