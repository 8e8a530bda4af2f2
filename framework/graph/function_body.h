// SPDX-License-Identifier: Apache-2.0
//
// A function of a graph's library as a graph of its own: what the branches of an If and the
// condition and body of a While are made into before they are compiled, and how such functions get
// into a library.
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
  // A placeholder for each argument, but for a resource the handle of the caller's variable.
  std::vector<Output> args;
  std::vector<Output> results;
  std::vector<Node*> targets;  // run in any case, although no result waits for them
};

// The function as it is when it is called with `args`, which are outputs of `caller`, the graph
// whose library has it. The body's nodes are called `name/…`, and calls in it are inlined; its
// graph has a library of its own, with what its nodes mention.
// InvalidArgument if there is no such function, if it does not take these arguments, if a resource
// is no variable's handle, or if the body is no legal graph.
absl::StatusOr<FunctionBody> InstantiateFunction(const Graph& caller, const FunctionRef& function,
                                                 absl::string_view name,
                                                 absl::Span<const Output> args,
                                                 const OpRegistry& ops);

// What says `wanted` of itself among the nodes of `body` and of all functions that they mention, as
// `Op(name)`; empty if nothing does.
absl::StatusOr<std::string> FindInside(const FunctionBody& body, const OpRegistry& ops,
                                       absl::FunctionRef<bool(const OpDef&)> wanted);

// Copies the nodes of `body` into `graph`, which has the functions that they mention; `args` are
// the values of its arguments, and what has effects comes after `before`. Its results and targets
// there are left in `body`, whose own graph is not needed any more.
absl::Status InlineBody(FunctionBody& body, absl::Span<const Output> args,
                        absl::Span<const Operation> before, Graph& graph);

// Puts `body` into the library of `caller`, with the functions that it mentions; returns what to
// call it by: `name_` and a hash of what it does, so that libraries can be put together.
absl::StatusOr<FunctionRef> DefineFunction(const FunctionBody& body, absl::string_view name,
                                           Graph& caller);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_BODY_H_
