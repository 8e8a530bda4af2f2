// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/memory_planner.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "framework/core/buffer.h"

namespace mirrorflow {
namespace {

constexpr size_t kMaxGreedyValues = 4096;

int64_t Padded(const Lifetime& v) { return static_cast<int64_t>(AlignUp(v.bytes)); }

// Places the largest value first. Each value goes to the smallest sufficient gap between the placed
// values whose lifetimes overlap its own.
std::vector<int64_t> GreedyBySize(absl::Span<const Lifetime> values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return values[a].bytes > values[b].bytes; });
  std::vector<int64_t> offsets(values.size(), 0);
  std::vector<int> placed;  // sorted by offset
  for (int v : order) {
    const int64_t size = Padded(values[v]);
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (int p : placed) {
      if (values[p].last < values[v].first || values[v].last < values[p].first) continue;
      const int64_t gap = offsets[p] - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, offsets[p] + Padded(values[p]));
    }
    offsets[v] = best >= 0 ? best : end;
    const auto at = std::upper_bound(placed.begin(), placed.end(), v,
                                     [&](int a, int b) { return offsets[a] < offsets[b]; });
    placed.insert(at, v);
  }
  return offsets;
}

// Places values in order of birth. Each takes the smallest free block that holds it, and returns it
// when it dies.
std::vector<int64_t> BestFit(absl::Span<const Lifetime> values) {
  std::vector<int> births(values.size());
  std::iota(births.begin(), births.end(), 0);
  std::vector<int> deaths = births;
  std::stable_sort(births.begin(), births.end(), [&](int a, int b) {
    return values[a].first != values[b].first ? values[a].first < values[b].first
                                              : values[a].bytes > values[b].bytes;
  });
  std::stable_sort(deaths.begin(), deaths.end(),
                   [&](int a, int b) { return values[a].last < values[b].last; });
  std::vector<int64_t> offsets(values.size(), 0);
  std::map<int64_t, int64_t> free_at;       // offset -> size
  std::multimap<int64_t, int64_t> free_of;  // size -> offset
  int64_t top = 0;
  auto erase_of = [&](int64_t size, int64_t offset) {
    for (auto it = free_of.lower_bound(size); it != free_of.end() && it->first == size; ++it) {
      if (it->second == offset) {
        free_of.erase(it);
        return;
      }
    }
  };
  auto release = [&](int64_t offset, int64_t size) {
    if (size == 0) return;
    auto next = free_at.lower_bound(offset);
    if (next != free_at.end() && next->first == offset + size) {
      erase_of(next->second, next->first);
      size += next->second;
      next = free_at.erase(next);
    }
    if (next != free_at.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        erase_of(before->second, before->first);
        offset = before->first;
        size += before->second;
        free_at.erase(before);
      }
    }
    free_at.emplace(offset, size);
    free_of.emplace(size, offset);
  };
  size_t next_death = 0;
  for (int v : births) {
    while (next_death < deaths.size() && values[deaths[next_death]].last < values[v].first) {
      const int dead = deaths[next_death++];
      release(offsets[dead], Padded(values[dead]));
    }
    const int64_t size = Padded(values[v]);
    const auto fit = free_of.lower_bound(size);
    if (fit != free_of.end()) {
      const auto [block, offset] = *fit;
      free_of.erase(fit);
      free_at.erase(offset);
      offsets[v] = offset;
      release(offset + size, block - size);
      continue;
    }
    // Grow the memory. A free block at the very top becomes the start of the new block.
    int64_t offset = top;
    if (!free_at.empty()) {
      const auto last = std::prev(free_at.end());
      if (last->first + last->second == top) {
        offset = last->first;
        erase_of(last->second, last->first);
        free_at.erase(last);
      }
    }
    offsets[v] = offset;
    top = offset + size;
  }
  return offsets;
}

int64_t Peak(absl::Span<const Lifetime> values, const std::vector<int64_t>& offsets) {
  int64_t peak = 0;
  for (size_t i = 0; i < values.size(); ++i) peak = std::max(peak, offsets[i] + Padded(values[i]));
  return peak;
}

int64_t LiveBytes(absl::Span<const Lifetime> values) {
  std::map<int, int64_t> change;
  for (const Lifetime& v : values) {
    change[v.first] += Padded(v);
    change[v.last + 1] -= Padded(v);
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, delta] : change) most = std::max(most, live += delta);
  return most;
}

}  // namespace

MemoryPlan PackValues(absl::Span<const Lifetime> values) {
  MemoryPlan plan;
  plan.live_bytes = LiveBytes(values);
  plan.offsets = BestFit(values);
  plan.peak_bytes = Peak(values, plan.offsets);
  if (values.size() <= kMaxGreedyValues && plan.peak_bytes > plan.live_bytes) {
    std::vector<int64_t> greedy = GreedyBySize(values);
    const int64_t peak = Peak(values, greedy);
    if (peak < plan.peak_bytes) {
      plan.offsets = std::move(greedy);
      plan.peak_bytes = peak;
    }
  }
  return plan;
}

}  // namespace mirrorflow
