// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/error_list.h"

#include "absl/strings/escaping.h"
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

std::string Printable(absl::string_view name) {
  constexpr size_t kMaxLength = 200;
  return absl::StrCat(absl::CHexEscape(name.substr(0, kMaxLength)),
                      name.size() > kMaxLength ? "…" : "");
}

}  // namespace mirrorflow
