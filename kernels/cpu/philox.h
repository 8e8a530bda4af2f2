// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10 is a counter-based random number generator: a keyed bijection of 128-bit counters
// whose outputs pass randomness tests. Any number in a stream can be computed without computing the
// numbers before it.
// Source: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#ifndef MIRRORFLOW_KERNELS_CPU_PHILOX_H_
#define MIRRORFLOW_KERNELS_CPU_PHILOX_H_

#include <cstdint>

namespace mirrorflow {

// The four words of kBlocks counters. Word w of block b is word[w][b], so that a round vectorises
// over the blocks.
template <int kBlocks>
struct PhiloxBlocks {
  uint32_t word[4][kBlocks];
};

// Replaces the counters with random words.
template <int kBlocks>
void Philox4x32(uint64_t key, PhiloxBlocks<kBlocks>& blocks) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int b = 0; b < kBlocks; ++b) {
      const uint64_t p0 = uint64_t{0xD2511F53} * blocks.word[0][b];
      const uint64_t p1 = uint64_t{0xCD9E8D57} * blocks.word[2][b];
      const uint32_t w1 = blocks.word[1][b], w3 = blocks.word[3][b];
      blocks.word[0][b] = static_cast<uint32_t>(p1 >> 32) ^ w1 ^ k0;
      blocks.word[1][b] = static_cast<uint32_t>(p1);
      blocks.word[2][b] = static_cast<uint32_t>(p0 >> 32) ^ w3 ^ k1;
      blocks.word[3][b] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_PHILOX_H_
