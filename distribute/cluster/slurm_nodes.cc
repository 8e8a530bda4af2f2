// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/slurm_nodes.h"

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr size_t kMaxNodes = 65536;
constexpr size_t kMaxDigits = 9;

absl::Status Malformed(absl::string_view what, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      what, " '", Printable(text), "'; expected a list of nodes such as n[001-003,7],m1"));
}

// Splits the list at commas that are outside brackets.
absl::StatusOr<std::vector<absl::string_view>> SplitList(absl::string_view list) {
  std::vector<absl::string_view> parts;
  bool inside = false;
  size_t begin = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[' || list[i] == ']') {
      if (inside == (list[i] == '[')) return Malformed("unbalanced brackets in", list);
      inside = !inside;
    } else if (list[i] == ',' && !inside) {
      parts.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) return Malformed("unbalanced brackets in", list);
  parts.push_back(list.substr(begin));
  return parts;
}

// Expands the contents of brackets, such as `001-003,7`. All numbers of a range have at least as
// many digits as the first.
absl::StatusOr<std::vector<std::string>> ExpandRanges(absl::string_view ranges) {
  std::vector<std::string> numbers;
  for (const absl::string_view range : absl::StrSplit(ranges, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    uint32_t first = 0, last = 0;
    const bool is_number = ends[0].size() <= kMaxDigits && absl::SimpleAtoi(ends[0], &first);
    if (!is_number || ends.size() > 2) return Malformed("invalid range", range);
    last = first;
    if (ends.size() == 2 && (ends[1].size() > kMaxDigits || !absl::SimpleAtoi(ends[1], &last) ||
                             last < first || last - first >= kMaxNodes)) {
      return Malformed("invalid range", range);
    }
    for (uint32_t number = first; number <= last; ++number) {
      std::string digits = absl::StrCat(number);
      if (digits.size() < ends[0].size()) digits.insert(0, ends[0].size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
    if (numbers.size() > kMaxNodes) return Malformed("too many nodes in", ranges);
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list) {
  std::vector<std::string> nodes;
  MF_ASSIGN_OR_RETURN(const std::vector<absl::string_view> parts, SplitList(list));
  for (absl::string_view part : parts) {
    std::vector<std::string> names = {""};
    if (part.empty()) return Malformed("empty name in", list);
    while (!part.empty()) {
      const size_t open = part.find('[');
      for (std::string& name : names) absl::StrAppend(&name, part.substr(0, open));
      if (open == absl::string_view::npos) break;
      const size_t close = part.find(']', open);
      MF_ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                          ExpandRanges(part.substr(open + 1, close - open - 1)));
      if (names.size() * numbers.size() > kMaxNodes) return Malformed("too many nodes in", list);
      std::vector<std::string> longer;
      for (const std::string& name : names) {
        for (const std::string& number : numbers) longer.push_back(absl::StrCat(name, number));
      }
      names = std::move(longer);
      part.remove_prefix(close + 1);
    }
    if (nodes.size() + names.size() > kMaxNodes) return Malformed("too many nodes in", list);
    nodes.insert(nodes.end(), names.begin(), names.end());
  }
  return nodes;
}

std::optional<int> TasksOfNode(absl::string_view tasks_per_node, int node) {
  for (absl::string_view part : absl::StrSplit(tasks_per_node, ',')) {
    int tasks = 0, nodes = 1;
    const size_t times = part.find("(x");
    if (times != absl::string_view::npos) {
      if (!absl::ConsumeSuffix(&part, ")")) return std::nullopt;
      if (!absl::SimpleAtoi(part.substr(times + 2), &nodes)) return std::nullopt;
    }
    if (!absl::SimpleAtoi(part.substr(0, times), &tasks) || tasks < 1 || nodes < 1) {
      return std::nullopt;
    }
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

}  // namespace mirrorflow
