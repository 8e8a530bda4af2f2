// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_RUN_COUNTERS_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_RUN_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace mirrorflow {

// Counts a session's runs.
struct RunCounters {
  // Runs that write variables; equal on all workers between steps.
  std::atomic<uint64_t> writing{0};
  // Runs that write nothing; several threads may increment it concurrently.
  std::atomic<uint64_t> reading{0};

  // Returns the number of the next run of its kind and counts it. Writing runs are mutually
  // exclusive.
  uint64_t Next(bool writes) {
    if (!writes) return reading.fetch_add(1, std::memory_order_relaxed);
    const uint64_t next = writing.load(std::memory_order_relaxed);
    writing.store(next + 1, std::memory_order_relaxed);
    return next;
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_RUN_COUNTERS_H_
