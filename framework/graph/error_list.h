// SPDX-License-Identifier: Apache-2.0
//
// ErrorList: collects errors into one status, one per line, for checks that continue after the
// first error.
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

  // Drops errors after the first kMaxErrors.
  void Add(absl::string_view message);
  bool empty() const { return messages_.empty(); }
  // True if further errors would be dropped, so that a check can stop.
  bool full() const { return messages_.size() >= kMaxErrors; }
  // OK if there are none, else InvalidArgument with one error per line.
  absl::Status ToStatus() const;

 private:
  std::vector<std::string> messages_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_ERROR_LIST_H_
