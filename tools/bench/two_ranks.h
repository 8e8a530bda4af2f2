// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_TWO_RANKS_H_
#define MIRRORFLOW_TOOLS_BENCH_TWO_RANKS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/core/buffer.h"
#include "framework/runtime/communicator.h"
#include "tools/bench/statistics.h"

namespace mirrorflow {

// Zeroed memory in huge pages, like a replica's memory, even if `bytes` is small.
class ReplicaMemory {
 public:
  explicit ReplicaMemory(int64_t bytes)
      : buffer_(Buffer::Allocate(static_cast<size_t>(std::max(bytes, kHugePage))).value()) {}
  std::byte* data() { return buffer_->data(); }
  float* floats() { return reinterpret_cast<float*>(data()); }

 private:
  static constexpr int64_t kHugePage = int64_t{2} << 20;
  std::shared_ptr<Buffer> buffer_;
};

// The work that a rank repeats.
using RankWork = std::function<absl::Status(Communicator&)>;
// Makes a side where two ranks of one process repeat the same work. Rank 0 runs on core 0, on
// the thread that calls the side; rank 1 follows on its own thread, pinned to core 1. Calls
// `make_work` once per rank, on that rank's thread, so that its memory is local to the core.
absl::StatusOr<Side> MakeTwoRankSide(const std::function<RankWork()>& make_work);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_TWO_RANKS_H_
