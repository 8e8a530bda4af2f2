// SPDX-License-Identifier: Apache-2.0
#include "framework/core/names.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mirrorflow {
namespace {

// Levenshtein distance, computed one row at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

}  // namespace

std::string Printable(absl::string_view name) {
  constexpr size_t kMaxLength = 200;
  return absl::StrCat(absl::CHexEscape(name.substr(0, kMaxLength)),
                      name.size() > kMaxLength ? "…" : "");
}

std::string DidYouMean(absl::string_view name, absl::Span<const std::string> candidates,
                       size_t count) {
  constexpr size_t kMaxLength = 100;  // comparing two names costs the product of their lengths
  std::vector<std::pair<size_t, std::string>> close;
  for (const std::string& candidate : candidates) {
    if (std::max(name.size(), candidate.size()) > kMaxLength) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance <= name.size() / 2) close.emplace_back(distance, Printable(candidate));
  }
  if (close.empty()) return "";
  std::stable_sort(close.begin(), close.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  close.resize(std::min(count, close.size()));
  return absl::StrCat(
      "; did you mean ",
      absl::StrJoin(close, ", ", [](std::string* out, const auto& near) { *out += near.second; }),
      "?");
}

}  // namespace mirrorflow
