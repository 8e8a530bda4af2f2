// SPDX-License-Identifier: Apache-2.0
//
// FunctionLibrary: the functions that the nodes of a graph may call. Each is stored as a serialized
// FunctionDef, so a library passes through a graph unchanged and the graph does not depend on the
// messages.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_LIBRARY_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_LIBRARY_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

class FunctionLibrary {
 public:
  using FunctionMap = std::map<std::string, std::string, std::less<>>;

  // InvalidArgument if there is a different function of this name. Adding the same one again is
  // allowed.
  absl::Status Add(absl::string_view name, std::string function_def);
  // The serialized FunctionDef, or null.
  const std::string* Find(absl::string_view name) const;
  // All of them, sorted by name.
  const FunctionMap& functions() const { return functions_; }

  // A serialized FunctionDefLibrary without functions, which records the gradients of functions.
  const std::string& gradients() const { return gradients_; }
  void set_gradients(std::string gradients) { gradients_ = std::move(gradients); }

 private:
  FunctionMap functions_;
  std::string gradients_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_LIBRARY_H_
