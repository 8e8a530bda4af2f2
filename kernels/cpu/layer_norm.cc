// SPDX-License-Identifier: Apache-2.0
//
// LayerNorm and its gradient on the CPU, row by row: a row is still in the cache when it is read
// again.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Returns the sum of fn(i) over all i < n, accumulated in lanes that are added at the end.
template <typename T, typename Fn>
MF_INLINE inline T Sum(int64_t n, Fn fn) {
  constexpr int kLanes = 128 / sizeof(T);
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] += fn(i + k);
  }
  T sum = 0;
  for (; i < n; ++i) sum += fn(i);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return sum + lanes[0];
}

template <typename T>
KernelPlan LayerNorm(const KernelContext& c) {
  const Shape& shape = c.input_shape(0);
  const int64_t rows = shape.num_elements_before(shape.rank() - 1), n = shape.dim(shape.rank() - 1);
  const T epsilon = c.attr<float>("epsilon");
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            const T *gamma = args.input<T>(1), *beta = args.input<T>(2);
            T *means = args.output<T>(1), *inverses = args.output<T>(2);
            for (int64_t r = 0; r < rows; ++r) {
              const T* const x = args.input<T>(0) + r * n;
              T* const y = args.output<T>(0) + r * n;
              WithWidestVectors([=]() MF_INLINE {
                const T mean = Sum<T>(n, [=](int64_t i) MF_INLINE { return x[i]; }) / T(n);
                const T squares = Sum<T>(n, [=](int64_t i) MF_INLINE {
                  const T centered = x[i] - mean;
                  return centered * centered;
                });
                const T inverse = 1 / std::sqrt(squares / T(n) + epsilon);
                MF_INDEPENDENT_ITERATIONS
                for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
                means[r] = mean;
                inverses[r] = inverse;
              });
            }
          }),
          .in_place = {{0, 0}}};
}

// Rows per block. Each block is first summed separately, so the rounding error grows with the
// number of blocks instead of the number of rows.
constexpr int64_t kBlock = 64;

// Accumulators for the gradients of `gamma` and `beta`.
template <typename T>
struct ColumnSums {
  T *dgamma, *dbeta;

  void Clear(int64_t n) const {
    std::fill_n(dgamma, n, T{0});
    std::fill_n(dbeta, n, T{0});
  }
  void Add(const ColumnSums& more, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) dgamma[i] += more.dgamma[i];
    for (int64_t i = 0; i < n; ++i) dbeta[i] += more.dbeta[i];
  }
};

// Adds one row's contribution to the sums, then computes its dx. `dx` may be `dy` or `x`.
template <typename T>
MF_INLINE inline void RowGradient(const T* dy, const T* x, const T* gamma, T mean, T inverse, T* dx,
                                  const ColumnSums<T>& sums, int64_t n) {
  T *const dgamma = sums.dgamma, *const dbeta = sums.dbeta;
  const auto normal = [=](int64_t i) MF_INLINE { return (x[i] - mean) * inverse; };
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    dgamma[i] += dy[i] * normal(i);
    dbeta[i] += dy[i];
  }
  const T shift = Sum<T>(n, [=](int64_t i) MF_INLINE { return dy[i] * gamma[i]; }) / T(n);
  const T slope =
      Sum<T>(n, [=](int64_t i) MF_INLINE { return dy[i] * gamma[i] * normal(i); }) / T(n);
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = inverse * (dy[i] * gamma[i] - shift - normal(i) * slope);
  }
}

template <typename T>
KernelPlan LayerNormGrad(const KernelContext& c) {
  const Shape& shape = c.input_shape(1);
  const int64_t rows = shape.num_elements_before(shape.rank() - 1), n = shape.dim(shape.rank() - 1);
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            const T *dy = args.input<T>(0), *x = args.input<T>(1), *gamma = args.input<T>(2);
            const T *means = args.input<T>(3), *inverses = args.input<T>(4);
            T* const dx = args.output<T>(0);
            const ColumnSums<T> all{args.output<T>(1), args.output<T>(2)};
            const ColumnSums<T> block{args.scratch<T>(), args.scratch<T>() + n};
            all.Clear(n);
            for (int64_t first = 0; first < rows; first += kBlock) {
              const int64_t last = std::min(first + kBlock, rows);
              block.Clear(n);
              WithWidestVectors([=]() MF_INLINE {
                for (int64_t r = first; r < last; ++r) {
                  RowGradient(dy + r * n, x + r * n, gamma, means[r], inverses[r], dx + r * n,
                              block, n);
                }
              });
              all.Add(block, n);
            }
          }),
          .scratch_bytes = 2 * n * static_cast<int64_t>(sizeof(T)),
          .in_place = {{0, 0}, {1, 0}}};
}

}  // namespace

void RegisterLayerNormCpu(KernelRegistry& kernels) {
  kernels.Register("LayerNorm", "CPU", [](const KernelContext& c) {
    return ForFloatingType(c, [&]<typename T>(TypeTag<T>) { return LayerNorm<T>(c); });
  });
  kernels.Register("LayerNormGrad", "CPU", [](const KernelContext& c) {
    return ForFloatingType(c, [&]<typename T>(TypeTag<T>) { return LayerNormGrad<T>(c); });
  });
}

}  // namespace mirrorflow
