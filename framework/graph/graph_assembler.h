// SPDX-License-Identifier: Apache-2.0
//
// Makes a graph out of node records that refer to each other by name, in any order: what is common
// to reading a GraphDef and parsing the text form. Nothing here trusts the records.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ASSEMBLER_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ASSEMBLER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/attr_value.h"
#include "framework/graph/error_list.h"
#include "framework/graph/function_library.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// An attribute that says that a node handles text, which no tensor here holds, stands under this
// and its own name, as a serialized proto::AttrValue; the node is one of an unknown op, whatever
// its op.
inline constexpr absl::string_view kOpaqueAttr = "_proto_";

struct NodeRecord {
  std::string name;
  std::string op;
  std::vector<std::string> inputs;  // `node`, `node:1`; after all of these `^node`
  AttrMap attrs;
  std::string where = "";  // put before error messages: "line 3: "
  // What is wrong with it is in the errors already: it is not built, nor what depends on it.
  bool broken = false;
};

// The graph, with the shapes of all nodes inferred. Ids follow the order of the records as far as
// inputs allow. InvalidArgument with up to ErrorList::kMaxErrors errors, those in `errors` first: a
// name that is illegal or taken, an unknown op, an input that does not exist, a control input
// before a data input, a wrong dtype, attribute or shape, a cycle.
absl::StatusOr<Graph> AssembleGraph(std::vector<NodeRecord> records, FunctionLibrary functions,
                                    const OpRegistry& registry, ErrorList errors = {});

// The parts of an input as NodeRecord has it. InvalidArgument for `node:name:0`, `node:-1`, …
struct InputRef {
  absl::string_view node;
  int index;  // Use::kControl for `^node`
};
absl::StatusOr<InputRef> ParseInputRef(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ASSEMBLER_H_
