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

// Adds `n` elements of a row to the sums.
template <typename T>
MF_INLINE inline void AddToSums(const T* dy, const T* x, T mean, T inverse,
                                const ColumnSums<T>& sums, int64_t n) {
  T *const dgamma = sums.dgamma, *const dbeta = sums.dbeta;
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    dgamma[i] += dy[i] * ((x[i] - mean) * inverse);
    dbeta[i] += dy[i];
  }
}

// Computes a row's dx, which may be `dy` or `x`.
template <typename T>
MF_INLINE inline void RowGradient(const T* dy, const T* x, const T* gamma, T mean, T inverse, T* dx,
                                  int64_t n) {
  const auto normal = [=](int64_t i) MF_INLINE { return (x[i] - mean) * inverse; };
  const T shift = Sum<T>(n, [=](int64_t i) MF_INLINE { return dy[i] * gamma[i]; }) / T(n);
  const T slope =
      Sum<T>(n, [=](int64_t i) MF_INLINE { return dy[i] * gamma[i] * normal(i); }) / T(n);
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = inverse * (dy[i] * gamma[i] - shift - normal(i) * slope);
  }
}

// The rows of dx and the columns of the other gradients that a kernel computes. Threads divide
// both, because dx needs sums of rows, and the others are sums of columns.
struct GradientPart {
  int64_t first_row, last_row, first_column, last_column;

  // `dim` is the dimension of dx that is divided.
  static GradientPart Of(const KernelContext& c, const Shape& shape, int dim) {
    const int64_t n = shape.dim(shape.rank() - 1),
                  rows = shape.num_elements_before(shape.rank() - 1);
    const DimRange* const part = c.part();
    if (part == nullptr) return {0, rows, 0, n};
    const int64_t size = shape.dim(dim), end = part->first + part->count;
    return {rows / size * part->first, rows / size * end, n * part->first / size, n * end / size};
  }
  int64_t columns() const { return last_column - first_column; }
};

// Returns the first dimension along which there are several rows; -1 if there is none.
int RowDim(const Shape& shape) {
  for (int dim = 0; dim + 1 < shape.rank(); ++dim) {
    if (shape.dim(dim) > 1) return dim;
  }
  return -1;
}

template <typename T>
KernelPlan LayerNormGrad(const KernelContext& c) {
  const Shape& shape = c.input_shape(1);
  const int64_t rows = shape.num_elements_before(shape.rank() - 1), n = shape.dim(shape.rank() - 1);
  const int dim = RowDim(shape);
  const GradientPart part = GradientPart::Of(c, shape, dim);
  KernelPlan plan = {
      .kernel = MakeKernel([=](const KernelArgs& args) {
        const T *dy = args.input<T>(0), *x = args.input<T>(1), *gamma = args.input<T>(2);
        const T *means = args.input<T>(3), *inverses = args.input<T>(4);
        T* const dx = args.output<T>(0) - part.first_row * n;
        // With more threads than columns, some have no column, and no address for these outputs.
        ColumnSums<T> all{};
        if (part.columns() > 0) all = {args.output<T>(1), args.output<T>(2)};
        const ColumnSums<T> block{args.scratch<T>(), args.scratch<T>() + part.columns()};
        all.Clear(part.columns());
        for (int64_t first = 0; first < rows; first += kBlock) {
          const int64_t last = std::min(first + kBlock, rows);
          block.Clear(part.columns());
          WithWidestVectors([=]() MF_INLINE {
            for (int64_t r = first; r < last; ++r) {
              const T *const of_y = dy + r * n, *const of_x = x + r * n;
              AddToSums(of_y + part.first_column, of_x + part.first_column, means[r], inverses[r],
                        block, part.columns());
              if (r < part.first_row || r >= part.last_row) continue;
              RowGradient(of_y, of_x, gamma, means[r], inverses[r], dx + r * n, n);
            }
          });
          all.Add(block, part.columns());
        }
      }),
      .scratch_bytes = 2 * n * static_cast<int64_t>(sizeof(T)),
      .in_place = {{0, 0}, {1, 0}}};
  if (dim >= 0) plan.divisible_dims = {{.dim = dim}};
  for (int i = 1; i <= 2 && c.part() != nullptr; ++i) {
    plan.part_outputs.push_back({i, {0, part.first_column, part.columns()}});
  }
  return plan;
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
