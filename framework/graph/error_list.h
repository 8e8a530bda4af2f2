// SPDX-License-Identifier: Apache-2.0
//
// ErrorList: several errors in one status, a line each, for checks that go on after the first.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_ERROR_LIST_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_ERROR_LIST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

class ErrorList {
 public:
  static constexpr size_t kMaxErrors = 20;

  // Drops what comes after the first kMaxErrors.
  void Add(absl::string_view message);
  bool empty() const { return messages_.empty(); }
  // Time to stop looking: what follows would be dropped.
  bool full() const { return messages_.size() >= kMaxErrors; }
  // OK if there are none, else InvalidArgument with one error a line.
  absl::Status ToStatus() const;

 private:
  std::vector<std::string> messages_;
};

// A name out of a file, fit for an error message: unprintable bytes escaped, a very long name cut.
std::string Printable(absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_ERROR_LIST_H_
