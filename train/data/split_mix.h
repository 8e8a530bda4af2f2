// SPDX-License-Identifier: Apache-2.0
//
// SplitMix64: generates the random numbers for the order and the augmentation of rows. They must be
// the same with every standard library, so std::shuffle and the standard distributions are not
// used: their results differ between implementations. Source: Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", OOPSLA 2014.
#ifndef MIRRORFLOW_TRAIN_DATA_SPLIT_MIX_H_
#define MIRRORFLOW_TRAIN_DATA_SPLIT_MIX_H_

#include <cstdint>

namespace mirrorflow {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}
  // Generates the numbers for one pass. Scrambles the seed; otherwise, (seed, epoch + 1) would
  // generate the same numbers as (seed + 1, epoch).
  SplitMix64(uint64_t seed, int64_t epoch)
      : state_(SplitMix64(seed).Next() + static_cast<uint64_t>(epoch)) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  // Returns an integer that is uniform in [0, n): the high word of x * n, after rejecting the few x
  // that would bias the result. Source: Lemire, "Fast random integer generation in an interval",
  // 2019.
  uint64_t Below(uint64_t n) {
    const uint64_t rejected_below = -n % n;
    unsigned __int128 product;
    do {
      product = static_cast<unsigned __int128>(Next()) * n;
    } while (static_cast<uint64_t>(product) < rejected_below);
    return static_cast<uint64_t>(product >> 64);
  }

  // Returns a multiple of 2^-53 that is uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_SPLIT_MIX_H_
