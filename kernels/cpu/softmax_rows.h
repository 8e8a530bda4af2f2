// SPDX-License-Identifier: Apache-2.0
//
// Row operations shared by Softmax, the cross entropies and attention: exp(x - row maximum), in
// blocks of rows that stay in the L1 cache. The exponential runs over a whole block at once, so it
// vectorises even if rows have few classes.
#ifndef MIRRORFLOW_KERNELS_CPU_SOFTMAX_ROWS_H_
#define MIRRORFLOW_KERNELS_CPU_SOFTMAX_ROWS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "Eigen/Core"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

template <typename T>
using RowMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <typename T>
using ConstRowMap = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

// Rows per block: about 16 KB of floats, but at most kMaxBlockRows.
inline constexpr int64_t kMaxBlockRows = 256;
inline constexpr int64_t kBlockElements = 4096;
inline int64_t BlockRows(int64_t columns) {
  return std::clamp<int64_t>(kBlockElements / std::max<int64_t>(columns, 1), 1, kMaxBlockRows);
}

// Returns exp(x) for x <= 0, accurate to one unit in the last place. Below 2^-126.5 the result
// is 0, and NaN stays NaN. The function has no branches and is always inlined, so that loops
// over it vectorise.
MF_INLINE inline float ExpOfNonPositive(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kSmallest = -88.03f;   // -127 * ln(2), where 2^n below becomes 0
  const float y = std::max(x, kSmallest);
  const float shifted = y * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (y - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  // Taylor series; the first omitted term is below 6e-9.
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n: n is in the low bits of `shifted`.
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}
inline double ExpOfNonPositive(double x) { return std::exp(x); }

// Sets out[r,c] = in[r,c] - max_c in[r,c]. `out` may be `in`.
template <typename T>
void SubtractRowMaximum(const T* in, T* out, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, in += columns, out += columns) {
    const T largest = ConstRowMap<T>(in, columns).maxCoeff();
    MF_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < columns; ++c) out[c] = in[c] - largest;
  }
}

template <typename T>
void ExpInPlace(T* x, int64_t n) {
  WithWidestVectors([=]() MF_INLINE {
    for (int64_t i = 0; i < n; ++i) x[i] = ExpOfNonPositive(x[i]);
  });
}

// Sets sums[r] = sum_c exp(x[r,c]) for a block of rows.
template <typename T>
void SumsOfExp(const T* x, T* sums, int64_t rows, int64_t columns) {
  T exps[kBlockElements];
  std::fill_n(sums, rows, T{0});
  // There is a single iteration unless one row is longer than a block.
  for (int64_t first = 0; first < columns; first += kBlockElements) {
    const int64_t n = std::min(kBlockElements, columns - first);
    std::copy_n(x + first, rows * n, exps);
    ExpInPlace(exps, rows * n);
    for (int64_t r = 0; r < rows; ++r) sums[r] += RowMap<T>(exps + r * n, n).sum();
  }
}

// Divides a row by its sum and returns the sum.
template <typename T>
T Normalize(T* row, int64_t columns) {
  const T sum = RowMap<T>(row, columns).sum();
  const T scale = T{1} / sum;
  for (int64_t c = 0; c < columns; ++c) row[c] *= scale;
  return sum;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_SOFTMAX_ROWS_H_
