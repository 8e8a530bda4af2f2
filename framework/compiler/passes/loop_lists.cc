// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/loop_lists.h"

#include <algorithm>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int64_t kUnknown = ListInfo::kUnknown;

// first + iterations * growth, if that is known and fits.
int64_t LengthAfter(int64_t first, std::optional<int64_t> iterations, int64_t growth) {
  if (first < 0 || growth == 0) return first;
  if (growth < 0 || !iterations.has_value()) return kUnknown;
  const absl::StatusOr<int64_t> more = CheckedMultiply(std::max<int64_t>(*iterations, 0), growth);
  constexpr int64_t kLongest = int64_t{1} << 40;
  return more.ok() && *more < kLongest && first < kLongest ? first + *more : kUnknown;
}

bool SameInfo(const ListInfo& a, const ListInfo& b) {
  const bool same_common = a.common.has_value() == b.common.has_value() &&
                           (!a.common.has_value() || SameTensor(a.common, b.common));
  return a.dtype == b.dtype && a.element == b.element && a.length == b.length &&
         a.max_length == b.max_length && same_common;
}

}  // namespace

LoopLists::LoopLists(std::vector<ListInfo> first)
    : first_(std::move(first)), arguments_(first_), behind_(first_) {}

absl::StatusOr<bool> LoopLists::Refine(const std::vector<ListInfo>& results,
                                       std::optional<int64_t> bound) {
  const bool is_first_trial = growth_.empty();
  bool again = false;
  for (size_t i = 0; i < results.size(); ++i) {
    ListInfo& argument = arguments_[i];
    const int64_t from = argument.max_length, to = results[i].max_length;
    if (is_first_trial) {
      growth_.push_back(from < 0 || to < 0 ? kUnknown : std::max<int64_t>(to - from, 0));
    }
    if (!first_[i].known()) continue;
    MF_ASSIGN_OR_RETURN(ListInfo either, EitherList(argument, results[i]));
    behind_[i] = either;
    behind_[i].max_length = LengthAfter(first_[i].max_length, bound, growth_[i]);
    if (bound.has_value()) --*bound;
    either.max_length = LengthAfter(first_[i].max_length, bound, growth_[i]);
    if (bound.has_value()) ++*bound;
    again |= !SameInfo(either, argument);
    argument = std::move(either);
  }
  return again;
}

}  // namespace mirrorflow
