// SPDX-License-Identifier: Apache-2.0
//
// The lowered form (LowerTensorLists) of a list of one or more kinds (ListInfo): one ListRows per
// kind.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_PARTS_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_PARTS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "framework/graph/list_info.h"
#include "ops/control_flow/passes/list_rows.h"

namespace mirrorflow {

// One entry per kind, in the order of ListInfo::kinds().
using ListParts = std::vector<ListRows>;

// Returns zeros for up to `capacity` elements that do not exist yet, and may never exist. Returns
// Unimplemented if the maximum number of elements is unknown.
absl::StatusOr<ListRows> NoRows(const Scope& scope, const ListKind& kind, int64_t capacity,
                                int64_t length);

// Converts a list described by `have`, or one of its elements if `is_element`, to the parts that
// `want` describes. `get(i)` returns part i of the list or element.
absl::StatusOr<ListParts> SelectParts(const Scope& scope, const ListInfo& have,
                                      const ListInfo& want, bool is_element,
                                      absl::FunctionRef<ListRows(int)> get);

// Appends to `values` the tensors that represent a list described by `info` in a branch or loop.
void AppendParts(const Scope& scope, const ListParts& parts, const ListInfo& info,
                 std::vector<Output>* values);
// The inverse of AppendParts: `next` returns the appended tensors in order.
ListParts TakeParts(const ListInfo& info, absl::FunctionRef<Output()> next);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_PARTS_H_
