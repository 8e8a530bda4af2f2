// SPDX-License-Identifier: Apache-2.0
//
// LinkCosts: what it costs to move data between memory domains. Plans depend on it, so it is equal
// on all workers.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_LINK_COSTS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_LINK_COSTS_H_

#include <cstdint>
#include <string>

namespace mirrorflow {

// The default is TCP: measured between two network namespaces of one machine, with a core
// for each, 22 µs and 0.8 to 1.2 ns; a link of 10 Gbit/s needs 0.8 ns for a byte.
struct LinkCosts {
  double message_ns = 20'000;  // the latency of a small message (α)
  double byte_ns = 1;          // of a large one, with the time that it takes from the cores (β)

  // The size of buckets that minimises the latencies of all buckets plus the time of the last one,
  // with which nothing overlaps: √(α · bytes / β), within sensible bounds.
  int64_t BucketBytes(int64_t bytes_of_gradients) const;

  std::string ToString() const;  // exact, for comparisons

  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_LINK_COSTS_H_
