// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/tuning_table.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::StatusOr<int> TuningTable::Choose(absl::string_view what, int num_proposals,
                                        absl::FunctionRef<absl::StatusOr<int>()> measure) {
  auto known = choices_.find(what);
  if (known == choices_.end()) {
    int choice = 0;
    if (measures_ && num_proposals > 1) {
      MF_ASSIGN_OR_RETURN(choice, measure());
    }
    known = choices_.emplace(what, choice).first;
  }
  if (known->second < num_proposals) return known->second;
  return absl::InvalidArgumentError(absl::StrCat("autotune: ", what,
                                                 ": choice out of range; expected less than ",
                                                 num_proposals, ", got ", known->second));
}

std::string TuningTable::ToString() const {
  std::string text;
  for (const auto& [what, choice] : choices_) absl::StrAppend(&text, choice, " ", what, "\n");
  return text;
}

absl::Status TuningTable::TakeOver(absl::string_view text) {
  bool outdates = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int choice = 0;
    if (!absl::SimpleAtoi(parts.first, &choice) || choice < 0 || parts.second.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "autotune: malformed line; expected a candidate's index and what it computes, got '",
          line, "'"));
    }
    const auto [known, is_new] = choices_.emplace(parts.second, choice);
    outdates |= !is_new && known->second != choice;
    known->second = choice;
  }
  version_ += outdates ? 1 : 0;
  return absl::OkStatus();
}

}  // namespace mirrorflow
