// SPDX-License-Identifier: Apache-2.0
//
// TuningTable: what autotune has chosen in a session: by the text that describes a product or
// convolution and the device, which of the library's proposals computes it. Worker 0 measures and
// the others take its choices, so that no bit depends on which worker was faster.
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
  // One that does not measure chooses the first proposal, which is the library's own choice, for
  // what it was told nothing about.
  explicit TuningTable(bool measures) : measures_(measures) {}

  // The choice for `what`, a text without line breaks: one that is known, or what `measure` finds.
  // Requires proposals.
  absl::StatusOr<int> Choose(absl::string_view what, int num_proposals,
                             absl::FunctionRef<absl::StatusOr<int>()> measure);

  // A line for each choice, `number what`, sorted by `what`.
  std::string ToString() const;
  // Takes over the choices of such a text. InvalidArgument that names the line if it is none.
  absl::Status TakeOver(absl::string_view text);
  // Grows when TakeOver changes a choice that Choose has given: what was made of it is out of date.
  int version() const { return version_; }

 private:
  const bool measures_;
  std::map<std::string, int, std::less<>> choices_;
  int version_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TUNING_TABLE_H_
