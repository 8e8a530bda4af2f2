// SPDX-License-Identifier: Apache-2.0
#include "tools/fma_rate.h"

#include <immintrin.h>
#include <time.h>

namespace mirrorflow {
namespace {

constexpr int kIterations = 20000;
constexpr int kBursts = 20;
// Independent chains: more than a multiply-add's latency, 4 cycles, times the two that begin in
// each; no more than there are registers.
constexpr int kChains = 12;

double NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// Each returns what must not be optimised away.
__attribute__((target("avx512f"))) float Burst512() {
  __m512 sums[kChains];
  for (int k = 0; k < kChains; ++k) sums[k] = _mm512_set1_ps(1 + k);
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sums[k] = _mm512_fmadd_ps(sums[k], factor, term);
  }
  for (int k = 1; k < kChains; ++k) sums[0] = _mm512_add_ps(sums[0], sums[k]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx2,fma"))) float Burst256() {
  __m256 sums[kChains];
  for (int k = 0; k < kChains; ++k) sums[k] = _mm256_set1_ps(1 + k);
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  for (int i = 0; i < kIterations; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sums[k] = _mm256_fmadd_ps(sums[k], factor, term);
  }
  for (int k = 1; k < kChains; ++k) sums[0] = _mm256_add_ps(sums[0], sums[k]);
  return _mm256_cvtss_f32(sums[0]);
}

}  // namespace

double FmaFlopsPerNs() {
  const bool wide = __builtin_cpu_supports("avx512f");
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
