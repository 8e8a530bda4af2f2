// SPDX-License-Identifier: Apache-2.0
//
// A list of one or more kinds (ListInfo) as LowerTensorLists has it: rows for each kind.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_PARTS_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_PARTS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "framework/graph/list_info.h"
#include "ops/control_flow/passes/list_rows.h"

namespace mirrorflow {

// In the order of ListInfo::kinds().
using ListParts = std::vector<ListRows>;

// Zeros in the place of elements that are not there yet, or never. Unimplemented if it is not known
// how many there can be.
absl::StatusOr<ListRows> NoRows(const Scope& scope, const ListKind& kind, int64_t capacity,
                                int64_t length);

// Of a list that is `have`, of its elements if `is_element`, the parts that `want` says. `get(i)`
// gives part i of the list, or takes the element out of it.
absl::StatusOr<ListParts> SelectParts(const Scope& scope, const ListInfo& have,
                                      const ListInfo& want, bool is_element,
                                      absl::FunctionRef<ListRows(int)> get);

// What goes through a branch or loop in the place of a list that is `info`: appended to `values`.
void AppendParts(const Scope& scope, const ListParts& parts, const ListInfo& info,
                 std::vector<Output>* values);
// And back: `next` returns the values.
ListParts TakeParts(const ListInfo& info, absl::FunctionRef<Output()> next);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_PARTS_H_
