// SPDX-License-Identifier: Apache-2.0
//
// TuningTable: the choices that autotune has made in a session. Maps a text that describes a
// product or convolution and the device to the number of the library's proposal that computes it.
// Worker 0 measures and the other workers take over its choices, so no bit of a result depends on
// which worker was faster.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TUNING_TABLE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TUNING_TABLE_H_

#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

class TuningTable {
 public:
  // Without `measures`, the table chooses the first proposal, which is the library's own choice,
  // wherever it has no choice yet.
  explicit TuningTable(bool measures) : measures_(measures) {}

  // Returns the choice for `what`, a text without line breaks: the known one, or the result of
  // `measure`.
  // REQUIRES: num_proposals > 0.
  absl::StatusOr<int> Choose(absl::string_view what, int num_proposals,
                             absl::FunctionRef<absl::StatusOr<int>()> measure);

  // One line per choice, `number what`, sorted by `what`.
  std::string ToString() const;
  // Adds the choices in a text that ToString has written. InvalidArgument, naming the line, if it
  // is malformed.
  absl::Status TakeOver(absl::string_view text);
  // Incremented when TakeOver changes a choice that was already known: whatever was built with the
  // old choice is out of date.
  int version() const { return version_; }

 private:
  const bool measures_;
  std::map<std::string, int, std::less<>> choices_;
  int version_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TUNING_TABLE_H_
