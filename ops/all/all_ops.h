// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ALL_ALL_OPS_H_
#define MIRRORFLOW_OPS_ALL_ALL_OPS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// The ops defined in the files of one stem; ops/<stem>.h declares their builders.
struct OpFamily {
  absl::string_view stem;  // `matmul`, `control_flow/optional`
  void (*register_ops)(OpRegistry& ops);
};
// Returns all families, in a fixed order.
absl::Span<const OpFamily> OpFamilies();

// Adds all of this library's ops to `ops`. Call it to build a registry that also contains custom
// ops; otherwise, use AllOps().
void RegisterAllOps(OpRegistry& ops);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ALL_ALL_OPS_H_
