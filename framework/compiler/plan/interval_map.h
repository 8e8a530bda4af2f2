// SPDX-License-Identifier: Apache-2.0
//
// IntervalMap: a value for each byte of a memory region, stored once for each range of bytes whose
// values have been visited together.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INTERVAL_MAP_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INTERVAL_MAP_H_

#include <cstdint>
#include <iterator>
#include <map>

namespace mirrorflow {

template <typename Value>
class IntervalMap {
 public:
  // Calls visit(value) for each range of bytes of [begin, end), in order, until it returns false.
  // Returns whether it always returned true.
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
  // Makes a range begin at `offset`.
  void Split(int64_t offset) {
    if (values_.empty()) values_.emplace(0, Value());
    const auto it = std::prev(values_.upper_bound(offset));
    if (it->first != offset) values_.emplace_hint(std::next(it), offset, it->second);
  }

  std::map<int64_t, Value> values_;  // by the first byte of the range
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INTERVAL_MAP_H_
