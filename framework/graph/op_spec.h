// SPDX-License-Identifier: Apache-2.0
//
// Parsers for the schema strings of OpBuilder: `a: N * T`, `strides: list(int) >= 4`,
// `T: {float, double}`.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_OP_SPEC_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_OP_SPEC_H_

#include "framework/graph/op_def.h"

namespace mirrorflow {

absl::StatusOr<ArgDef> ParseArgSpec(absl::string_view spec);
absl::StatusOr<AttrDef> ParseAttrSpec(absl::string_view spec);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_OP_SPEC_H_
