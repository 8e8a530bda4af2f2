// SPDX-License-Identifier: Apache-2.0
#include "framework/core/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace mirrorflow {
namespace {

// Returns a file's lines, or none if the file cannot be read.
std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> WordsOf(const std::string& path) {
  const std::vector<std::string> lines = Lines(path);
  if (lines.empty()) return {};
  return absl::StrSplit(lines[0], ' ', absl::SkipEmpty());
}

// Returns the number in a file, or nullopt for "max", a negative number or any other text.
std::optional<uint64_t> Number(const std::string& path) {
  const std::vector<std::string> words = WordsOf(path);
  uint64_t value = 0;
  if (words.size() != 1 || !absl::SimpleAtoi(words[0], &value)) return std::nullopt;
  return value;
}

// Returns the sum of the numbers in the file's `KEY NUMBER` lines that have a key in `keys`.
uint64_t SumOf(const std::string& path, std::initializer_list<absl::string_view> keys) {
  uint64_t sum = 0;
  for (const std::string& line : Lines(path)) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    uint64_t value = 0;
    if (words.size() == 2 && std::count(keys.begin(), keys.end(), words[0]) > 0 &&
        absl::SimpleAtoi(words[1], &value)) {
      sum += value;
    }
  }
  return sum;
}

bool HasItem(absl::string_view list, absl::string_view item) {
  return absl::c_linear_search(absl::StrSplit(list, ','), item);
}

// Returns the path from `top` down to `group`: empty or `/a/b`. The path is also empty if `top` is
// not an ancestor, because a container sees only its own group, whose path may be the host's or
// begin with `/..`.
std::string PathBelow(absl::string_view group, absl::string_view top) {
  if (top == "/") top = "";
  if (!absl::ConsumePrefix(&group, top) || absl::StartsWith(group, "/..")) return "";
  while (absl::ConsumeSuffix(&group, "/")) continue;
  return absl::StartsWith(group, "/") ? std::string(group) : "";
}

// Returns the minimum of limit_of(folder, is_v2) over a hierarchy's folders.
template <typename Hierarchy, typename LimitOf>
auto Least(const Hierarchy& groups, const LimitOf& limit_of) {
  decltype(limit_of("", true)) least;
  for (const std::string& folder : groups.folders) {
    const auto limit = limit_of(folder, groups.is_v2);
    if (limit.has_value() && (!least.has_value() || *limit < *least)) least = limit;
  }
  return least;
}

std::optional<double> CpusOf(const std::string& folder, bool is_v2) {
  std::vector<std::string> words =
      WordsOf(absl::StrCat(folder, is_v2 ? "/cpu.max" : "/cpu.cfs_quota_us"));
  if (!is_v2) {
    absl::c_move(WordsOf(absl::StrCat(folder, "/cpu.cfs_period_us")), std::back_inserter(words));
  }
  int64_t quota = 0, period = 0;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &quota) ||
      !absl::SimpleAtoi(words[1], &period) || quota <= 0 || period <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(quota) / static_cast<double>(period);
}

std::optional<uint64_t> MemoryLimitOf(const std::string& folder, bool is_v2) {
  if (is_v2) return Number(absl::StrCat(folder, "/memory.max"));
  const std::optional<uint64_t> limit = Number(absl::StrCat(folder, "/memory.limit_in_bytes"));
  // Version 1 reports the largest multiple of the page size instead of "max".
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return limit.has_value() && *limit > kMax - (1 << 20) ? std::nullopt : limit;
}

std::optional<uint64_t> MemoryLeftOf(const std::string& folder, bool is_v2, uint64_t free_swap) {
  const std::optional<uint64_t> limit = MemoryLimitOf(folder, is_v2);
  if (!limit.has_value()) return std::nullopt;
  uint64_t used, files, swap = free_swap;
  const std::string stat = absl::StrCat(folder, "/memory.stat");
  if (is_v2) {
    used = Number(absl::StrCat(folder, "/memory.current")).value_or(0);
    files = SumOf(stat, {"inactive_file", "active_file"});
    const auto swap_limit = Number(absl::StrCat(folder, "/memory.swap.max"));
    const uint64_t swapped = Number(absl::StrCat(folder, "/memory.swap.current")).value_or(0);
    if (swap_limit) swap = std::min(swap, *swap_limit - std::min(*swap_limit, swapped));
  } else {
    used = Number(absl::StrCat(folder, "/memory.usage_in_bytes")).value_or(0);
    files = SumOf(stat, {"total_inactive_file", "total_active_file"});
  }
  used -= std::min(used, files);
  const uint64_t left = *limit - std::min(*limit, used);
  return left + std::min(swap, ~left);
}

}  // namespace

// proc/self/cgroup lists the path of this process's group in each hierarchy: `0::/a/b` for version
// 2, `4:cpu,cpuacct:/a/b` for version 1. proc/self/mountinfo lists where each hierarchy is mounted,
// and which group is at the mount point. Each controller is part of one hierarchy; the version 2
// hierarchy can be mounted alongside those of version 1.
Cgroup::Hierarchy Cgroup::Find(const std::string& controller) const {
  std::optional<std::string> v1, v2;
  for (const std::string& line : Lines(absl::StrCat(root_, "/proc/self/cgroup"))) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) v2 = parts[2];
    if (HasItem(parts[1], controller)) v1 = parts[2];
  }
  Hierarchy found = {.is_v2 = !v1.has_value(), .folders = {}};
  if (!v1.has_value() && !v2.has_value()) return found;
  const std::string& group = found.is_v2 ? *v2 : *v1;
  for (const std::string& line : Lines(absl::StrCat(root_, "/proc/self/mountinfo"))) {
    // ID PARENT DEVICE ROOT MOUNT_POINT OPTIONS … - TYPE SOURCE SUPER_OPTIONS
    const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<std::string> mount = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> kind = absl::StrSplit(halves[1], ' ');
    if (mount.size() < 5 || kind.size() < 3) continue;
    const bool fits =
        found.is_v2 ? kind[0] == "cgroup2" : kind[0] == "cgroup" && HasItem(kind[2], controller);
    if (!fits) continue;
    std::string below = PathBelow(group, mount[3]);
    while (!below.empty()) {
      found.folders.push_back(absl::StrCat(root_, mount[4], below));
      below.resize(below.rfind('/'));
    }
    found.folders.push_back(absl::StrCat(root_, mount[4]));
    return found;
  }
  return found;
}

std::optional<double> Cgroup::Cpus() const { return Least(Find("cpu"), CpusOf); }

std::optional<uint64_t> Cgroup::MemoryLimit() const { return Least(Find("memory"), MemoryLimitOf); }

std::optional<uint64_t> Cgroup::MemoryLeft(uint64_t free_swap) const {
  return Least(Find("memory"), [free_swap](const std::string& folder, bool is_v2) {
    return MemoryLeftOf(folder, is_v2, free_swap);
  });
}

std::string Cgroup::ReachedTaskLimit() const {
  for (const std::string& folder : Find("pids").folders) {
    std::string file = absl::StrCat(folder, "/pids.max");
    const std::optional<uint64_t> most = Number(file);
    if (most.has_value() && Number(absl::StrCat(folder, "/pids.current")) >= most) return file;
  }
  return "";
}

uint64_t UsableMemory(const Cgroup& cgroup) {
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup.MemoryLimit().value_or(machine));
}

}  // namespace mirrorflow
