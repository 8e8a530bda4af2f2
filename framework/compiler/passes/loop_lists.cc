// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/loop_lists.h"

#include <algorithm>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int64_t kUnknown = ListKind::kUnknown;
// Nested lists that still grow after this many trials are assumed to grow in every iteration.
constexpr int kTrialsOfInner = 8;

// Returns first + iterations * growth, or kUnknown if that is unknown or too large.
int64_t LengthAfter(int64_t first, std::optional<int64_t> iterations, int64_t growth) {
  if (first < 0 || growth == 0) return first;
  if (growth < 0 || !iterations.has_value()) return kUnknown;
  const absl::StatusOr<int64_t> more = CheckedMultiply(std::max<int64_t>(*iterations, 0), growth);
  constexpr int64_t kLongest = int64_t{1} << 40;
  return more.ok() && *more < kLongest && first < kLongest ? first + *more : kUnknown;
}

}  // namespace

LoopLists::LoopLists(std::vector<ListInfo> first)
    : first_(std::move(first)), arguments_(first_), after_loop_(first_) {}

absl::StatusOr<bool> LoopLists::Refine(const std::vector<ListInfo>& results,
                                       std::optional<int64_t> bound) {
  // Discards a bound that differs between trials, because the trials might otherwise never
  // converge.
  bound_changed_ |= bound_.has_value() && bound != bound_;
  bound_ = bound_changed_ ? std::nullopt : bound;
  bound = bound_;
  const std::optional<int64_t> before_last =
      bound.has_value() ? std::optional<int64_t>(*bound - 1) : std::nullopt;
  const bool is_first_trial = growth_.empty();
  ++trials_;
  bool again = false;
  for (size_t i = 0; i < results.size(); ++i) {
    ListInfo& argument = arguments_[i];
    const int64_t from = argument.max_length, to = results[i].max_length;
    const int64_t growth = from < 0 || to < 0 ? kUnknown : std::max<int64_t>(to - from, 0);
    if (is_first_trial) growth_.push_back(growth);
    // A result is the longest of several lists, and each of these lists is an argument plus a few
    // elements. If the last iteration adds no more elements than the first, no iteration in between
    // adds more.
    if (from >= 0 && (growth < 0 || growth > growth_[i])) growth_[i] = kUnknown;
    if (!first_[i].known() && !first_[i].holds_nothing()) continue;
    MF_ASSIGN_OR_RETURN(ListInfo either, EitherList(argument, results[i]));
    if (trials_ > kTrialsOfInner && either.kinds() != argument.kinds()) {
      either = either.OfAnyLength();
    }
    ListInfo after_loop = either;
    after_loop.max_length = LengthAfter(first_[i].max_length, bound, growth_[i]);
    either.max_length = LengthAfter(first_[i].max_length, before_last, growth_[i]);
    again |= !(either == argument) || !(after_loop == after_loop_[i]);
    argument = std::move(either);
    after_loop_[i] = std::move(after_loop);
  }
  return again;
}

}  // namespace mirrorflow
