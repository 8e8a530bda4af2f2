// SPDX-License-Identifier: Apache-2.0
//
// Tracks lists through a graph. This is necessary because a list's capacity depends on later
// pushes.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_FLOW_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_FLOW_H_

#include "absl/container/flat_hash_map.h"
#include "framework/compiler/compilation.h"
#include "framework/graph/list_info.h"

namespace mirrorflow {

inline bool IsList(const Output& value) { return value.dtype() == DT_VARIANT; }

// The element shape and maximum length of each list, including lists in bodies. Each entry also
// covers all lists that are later made from the list, because they share its rows.
using ListsByValue = absl::flat_hash_map<Output, ListInfo>;

absl::StatusOr<ListsByValue> FindLists(const Compilation& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LIST_FLOW_H_
