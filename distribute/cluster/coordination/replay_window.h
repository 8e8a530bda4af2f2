// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_REPLAY_WINDOW_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_REPLAY_WINDOW_H_

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>

namespace mirrorflow {

// Records the sequence numbers of a process's latest calls, to recognize replays. Numbers may
// arrive out of order, but a number that is 1024 or more below the highest is taken for a replay.
// Source: RFC 6479, "IPsec Anti-Replay Algorithm without Bit Shifting".
class ReplayWindow {
 public:
  // Records the number. Returns whether it is new.
  bool Add(uint64_t sequence) {
    if (sequence > highest_) {
      const uint64_t steps = std::min<uint64_t>(sequence - highest_, kSize);
      for (uint64_t i = 0; i < steps; ++i) seen_.reset((sequence - i) % kSize);
      highest_ = sequence;
    } else if (highest_ - sequence >= kSize) {
      return false;
    }
    if (seen_.test(sequence % kSize)) return false;
    seen_.set(sequence % kSize);
    return true;
  }

 private:
  static constexpr size_t kSize = 1024;

  uint64_t highest_ = 0;
  std::bitset<kSize> seen_;  // indexed by the sequence number modulo kSize
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_REPLAY_WINDOW_H_
