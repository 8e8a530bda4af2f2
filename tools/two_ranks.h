// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_TWO_RANKS_H_
#define MIRRORFLOW_TOOLS_TWO_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// Zeros that begin on a page, as an arena does.
class PageAligned {
 public:
  explicit PageAligned(int64_t bytes) : memory_(bytes + kAlignment, std::byte{0}) {}
  std::byte* data() {
    return memory_.data() + (-reinterpret_cast<uintptr_t>(memory_.data()) % kAlignment);
  }
  float* floats() { return reinterpret_cast<float*>(data()); }

 private:
  static constexpr uintptr_t kAlignment = 4096;
  std::vector<std::byte> memory_;
};

// Two ranks of one process that do the same again and again, each pinned to a core; rank 0 is
// whoever calls, and rank 1 follows it.
class TwoRanks {
 public:
  using Work = std::function<absl::Status(Communicator&)>;
  // `make_work` is called once for each rank, on its thread: the memory that it takes is near.
  static absl::StatusOr<std::unique_ptr<TwoRanks>> Create(std::function<Work()> make_work);
  ~TwoRanks();
  absl::Status Run() { return work_(*communicators_[0]); }

 private:
  TwoRanks(std::vector<std::unique_ptr<Communicator>> communicators,
           std::function<Work()> make_work);

  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const Work work_;
  std::thread follower_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_TWO_RANKS_H_
