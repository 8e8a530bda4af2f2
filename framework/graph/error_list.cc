// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/error_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mirrorflow {

void ErrorList::Add(absl::string_view message) {
  if (!full()) messages_.emplace_back(message);
}

absl::Status ErrorList::ToStatus() const {
  if (empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(messages_, "\n"),
                   full() ? absl::StrCat("\nstopped after ", kMaxErrors, " errors") : ""));
}

}  // namespace mirrorflow
