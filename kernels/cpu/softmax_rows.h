// SPDX-License-Identifier: Apache-2.0
//
// Row operations shared by Softmax, the cross entropies and attention: exp(x - row maximum), in
// blocks of rows that stay in the L1 cache. The exponential runs over a whole block at once, so it
// vectorises even if rows have few classes.
#ifndef MIRRORFLOW_KERNELS_CPU_SOFTMAX_ROWS_H_
#define MIRRORFLOW_KERNELS_CPU_SOFTMAX_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "Eigen/Core"
#include "kernels/cpu/exponential.h"
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
