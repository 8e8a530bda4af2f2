// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/fma_rate.h"

#include <time.h>

#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

constexpr int kIterations = 20000;
constexpr int kBursts = 20;
// Number of independent chains: more than the latency of a multiply-add, 4 cycles, times the two
// that start in each cycle; no more than there are registers.
constexpr int kChains = 12;

double NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

template <int kFloats>
struct VectorOf {
  typedef float type __attribute__((vector_size(kFloats * sizeof(float))));
};

// Returns a value that depends on all the work, so that none is optimised away.
template <int kFloats>
MF_INLINE inline float Burst() {
  using Vector = typename VectorOf<kFloats>::type;
  Vector sums[kChains];
  for (int k = 0; k < kChains; ++k) sums[k] = Vector{} + static_cast<float>(1 + k);
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sums[k] = sums[k] * 0.999f + 0.001f;
  }
  for (int k = 1; k < kChains; ++k) sums[0] += sums[k];
  return sums[0][0];
}

MF_AVX512 float Burst512() { return Burst<16>(); }
float Burst256() { return Burst<8>(); }

}  // namespace

double FmaFlopsPerNs() {
  const bool wide = HasAvx512();
  const double flops = 2.0 * kIterations * kChains * (wide ? 16 : 8);
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    const double begin = NowNs();
    volatile float sink = wide ? Burst512() : Burst256();
    (void)sink;
    const double rate = flops / (NowNs() - begin);
    if (rate > best) best = rate;
  }
  return best;
}

}  // namespace mirrorflow
