// SPDX-License-Identifier: Apache-2.0
//
// IntervalMap: maps each byte of a memory region to a value. Adjacent bytes share one entry until a
// visit separates them.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INTERVAL_MAP_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INTERVAL_MAP_H_

#include <cstdint>
#include <iterator>
#include <map>

namespace mirrorflow {

template <typename Value>
class IntervalMap {
 public:
  // Calls visit(value) for each entry in [begin, end), in address order. Stops and returns false as
  // soon as `visit` returns false; otherwise returns true.
  template <typename Visit>
  bool ForEach(int64_t begin, int64_t end, const Visit visit) {
    Split(begin);
    Split(end);
    for (auto it = values_.find(begin); it != values_.end() && it->first < end; ++it) {
      if (!visit(it->second)) return false;
    }
    return true;
  }

  // Calls visit(value) for all values.
  template <typename Visit>
  void ForEach(const Visit visit) {
    for (auto& [begin, value] : values_) visit(value);
  }

 private:
  // Splits the entry that contains `offset`, so that an entry begins there.
  void Split(int64_t offset) {
    if (values_.empty()) values_.emplace(0, Value());
    const auto it = std::prev(values_.upper_bound(offset));
    if (it->first != offset) values_.emplace_hint(std::next(it), offset, it->second);
  }

  std::map<int64_t, Value> values_;  // keyed by the first byte of the entry
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INTERVAL_MAP_H_
