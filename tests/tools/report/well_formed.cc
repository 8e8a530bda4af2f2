// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/report/well_formed.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

bool IsEntity(absl::string_view text) {
  for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"}) {
    if (absl::StartsWith(text, entity)) return true;
  }
  return false;
}

}  // namespace

int CountOf(absl::string_view text, absl::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != absl::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string WellFormed(absl::string_view html) {
  std::vector<std::string> open;
  for (size_t i = 0; i < html.size(); ++i) {
    if (html[i] == '&' && !IsEntity(html.substr(i))) return absl::StrCat("a bare & at ", i);
    const bool is_style = !open.empty() && open.back() == "style";
    if (html[i] == '>' && !is_style) return absl::StrCat("a bare > at ", i);
    if (html[i] != '<') continue;
    const size_t end = html.find('>', i);
    if (end == absl::string_view::npos) return "an element without an end";
    const absl::string_view tag = html.substr(i + 1, end - i - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || absl::StrContains(tag, "<")) {
      return absl::StrCat("in <", tag);
    }
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return absl::StrCat("<", tag, ">");
      open.pop_back();
    } else if (tag.back() != '/' && tag[0] != '!' && name != "meta") {
      open.push_back(name);
    }
    i = end;
  }
  return open.empty() ? "" : absl::StrCat(open.back(), " stays open");
}

}  // namespace mirrorflow
