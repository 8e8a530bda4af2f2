// SPDX-License-Identifier: Apache-2.0
//
// What becomes of each list: how much room it needs follows from what is pushed later.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_FLOW_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_FLOW_H_

#include "absl/container/flat_hash_map.h"
#include "framework/compiler/compilation.h"
#include "framework/graph/list_info.h"

namespace mirrorflow {

inline bool IsList(const Output& value) { return value.dtype() == DT_VARIANT; }

// Of each list, also of those in bodies: what it and those that it becomes are, which all lie in
// the same rows. That is the shape of their elements, and the most of them.
using ListsByValue = absl::flat_hash_map<Output, ListInfo>;

absl::StatusOr<ListsByValue> FindLists(const Compilation& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_FLOW_H_
