// SPDX-License-Identifier: Apache-2.0
//
// FunctionLibrary: the functions that the nodes of a graph may call. Each is stored as a serialized
// FunctionDef, so a library passes through a graph unchanged and the graph does not depend on
// protobuf.
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

  // Adds a function. Returns InvalidArgument if a different function has this name; adding the same
  // function twice is allowed.
  absl::Status Add(absl::string_view name, std::string function_def);
  // Returns the serialized FunctionDef, or null if the function does not exist.
  const std::string* Find(absl::string_view name) const;
  // Returns all functions, sorted by name.
  const FunctionMap& functions() const { return functions_; }

  // Returns a serialized FunctionDefLibrary that contains only the functions' gradients.
  const std::string& gradients() const { return gradients_; }
  void set_gradients(std::string gradients) { gradients_ = std::move(gradients); }

 private:
  FunctionMap functions_;
  std::string gradients_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_LIBRARY_H_
