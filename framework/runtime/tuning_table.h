// SPDX-License-Identifier: Apache-2.0
//
// TuningTable: the choices that autotune has made in a session. Maps a text that describes a device
// and a matrix product or convolution to the index of the library's candidate that computes it.
// Worker 0 measures and the other workers adopt its choices, so all workers run the same algorithms
// and compute the same bits.
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
  // Without `measures`, the table falls back to the first candidate, which is the library's own
  // choice, wherever it has no entry.
  explicit TuningTable(bool measures) : measures_(measures) {}

  // Returns the choice for `what`, a text without line breaks: the existing entry, or the result of
  // `measure`.
  // REQUIRES: num_proposals > 0.
  absl::StatusOr<int> Choose(absl::string_view what, int num_proposals,
                             absl::FunctionRef<absl::StatusOr<int>()> measure);

  // Serialises the table: one line per choice, `number what`, sorted by `what`.
  std::string ToString() const;
  // Adds the choices in a text that ToString wrote. Returns InvalidArgument, naming the line, if it
  // is malformed.
  absl::Status TakeOver(absl::string_view text);
  // Incremented when TakeOver changes an existing choice: plans built with the old choice are then
  // out of date.
  int version() const { return version_; }

 private:
  const bool measures_;
  std::map<std::string, int, std::less<>> choices_;
  int version_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TUNING_TABLE_H_
