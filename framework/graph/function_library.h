// SPDX-License-Identifier: Apache-2.0
//
// FunctionLibrary: the functions that the nodes of a graph may call. Each is kept as the wire has
// it, a serialized FunctionDef, so that a library goes through a graph unchanged and a graph needs
// to know no messages.
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

  // InvalidArgument if there is another function of this name; the same one again is no error.
  absl::Status Add(absl::string_view name, std::string function_def);
  // The serialized FunctionDef, or null.
  const std::string* Find(absl::string_view name) const;
  // All of them, sorted by name.
  const FunctionMap& functions() const { return functions_; }

  // A serialized FunctionDefLibrary without functions: which functions are gradients of which.
  const std::string& gradients() const { return gradients_; }
  void set_gradients(std::string gradients) { gradients_ = std::move(gradients); }

 private:
  FunctionMap functions_;
  std::string gradients_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_LIBRARY_H_
