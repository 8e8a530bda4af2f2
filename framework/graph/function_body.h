// SPDX-License-Identifier: Apache-2.0
//
// FunctionBody: a function from a graph's library, instantiated as a separate graph. The branches
// of an If and the condition and body of a While take this form before they are compiled. A
// FunctionBody can also be added to a library.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_BODY_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_BODY_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

struct FunctionBody {
  Graph graph;
  // A placeholder for each argument or, for a resource, the handle of the caller's variable.
  std::vector<Output> args;
  std::vector<Output> results;
  std::vector<Node*> targets;  // run on every call, although no result depends on them
};

// Instantiates a function from `caller`'s library for a call with `args`, which are outputs of
// nodes in `caller`. The body's nodes are named `name/…`, and calls in it are inlined. The body's
// graph has its own library, which holds the functions that its nodes reference. InvalidArgument if
// the function does not exist or does not take these arguments, if a resource is not a variable
// handle, or if the body is not a legal graph.
absl::StatusOr<FunctionBody> InstantiateFunction(const Graph& caller, const FunctionRef& function,
                                                 absl::string_view name,
                                                 absl::Span<const Output> args,
                                                 const OpRegistry& ops);

// Searches `body`, and all functions that its nodes reference, for a node whose op satisfies
// `wanted`. Returns `Op(name)` for the node that it finds, or an empty string.
absl::StatusOr<std::string> FindInside(const FunctionBody& body, const OpRegistry& ops,
                                       absl::FunctionRef<bool(const OpDef&)> wanted);

// Copies the nodes of `body` into `graph`, whose library must have the functions that they
// reference. `args` replace the body's arguments, and its stateful nodes run after `before`. On
// return, the results and targets of `body` refer to nodes in `graph`, and `body.graph` is no
// longer needed.
absl::Status InlineBody(FunctionBody& body, absl::Span<const Output> args,
                        absl::Span<const Operation> before, Graph& graph);

// Adds `body`, and the functions that it references, to `caller`'s library. Returns a reference
// for calling the body. The function's name is `name_` followed by a hash of the function, so that
// libraries can be merged.
absl::StatusOr<FunctionRef> DefineFunction(const FunctionBody& body, absl::string_view name,
                                           Graph& caller);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_BODY_H_
