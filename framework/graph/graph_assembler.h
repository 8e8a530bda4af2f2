// SPDX-License-Identifier: Apache-2.0
//
// Builds a graph from node records that refer to each other by name, in any order. The GraphDef
// reader and the text parser share this code. It does not trust the records.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ASSEMBLER_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ASSEMBLER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/status.h"
#include "framework/graph/attr_value.h"
#include "framework/graph/function_library.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Prefix for the names of attributes that involve text, which no tensor here can hold. Such an
// attribute is stored as a serialized proto::AttrValue, and its node becomes an unknown op, even if
// the op is known.
inline constexpr absl::string_view kOpaqueAttr = "_proto_";

struct NodeRecord {
  std::string name;
  std::string op;
  std::vector<std::string> inputs;  // `node`, `node:1`; control inputs, `^node`, come last
  AttrMap attrs;
  std::string where = "";  // prefix of error messages: "line 3: "
  // If true, the record's errors have already been reported. Its node, and all nodes that depend on
  // it, are left out.
  bool broken = false;
};

// Returns the graph, with the shapes of all nodes inferred. Ids follow record order where the
// inputs allow it. Returns InvalidArgument with up to ErrorList::kMaxErrors errors, starting with
// those in `errors`. Each of these is an error: an illegal or taken name, a missing input, a
// control input before a data input, a wrong dtype, attribute or shape, too many outputs, and a
// cycle.
absl::StatusOr<Graph> AssembleGraph(std::vector<NodeRecord> records, FunctionLibrary functions,
                                    const OpRegistry& registry, ErrorList errors = {});

// The parsed form of a NodeRecord input. ParseInputRef returns InvalidArgument for text such as
// `node:name:0` or `node:-1`.
struct InputRef {
  absl::string_view node;
  int index;  // Use::kControl for `^node`
};
absl::StatusOr<InputRef> ParseInputRef(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ASSEMBLER_H_
