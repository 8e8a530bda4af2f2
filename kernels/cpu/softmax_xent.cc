// SPDX-License-Identifier: Apache-2.0
//
// Softmax cross entropies on the CPU: the loss and its gradient in one pass over blocks of rows.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/shard_rows.h"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

template <typename T, typename Label>
void Entropy(const T* features, const Label* labels, T* loss, T* backprop, int64_t rows,
             int64_t classes) {
  const int64_t block = BlockRows(classes);
  T sums[kMaxBlockRows];
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t n = std::min(block, rows - first);
    T* const y = backprop + first * classes;
    SubtractRowMaximum(features + first * classes, y, n, classes);
    for (int64_t r = 0; r < n; ++r) loss[first + r] = y[r * classes + labels[first + r]];
    ExpInPlace(y, n * classes);
    for (int64_t r = 0; r < n; ++r) {
      sums[r] = Normalize(y + r * classes, classes);
      y[r * classes + labels[first + r]] -= T{1};
    }
    RowMap<T> losses(loss + first, n);
    losses = ConstRowMap<T>(sums, n).log() - losses;
  }
}

template <typename T, typename Label>
KernelPlan Plan(const Shape& features, FirstRow first_row) {
  const int64_t rows = features.dim(0), classes = features.dim(1);
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
            const Label* labels = args.input<Label>(1);
            for (int64_t r = 0; r < rows; ++r) {
              if (labels[r] >= 0 && labels[r] < classes) continue;
              return absl::InvalidArgumentError(
                  absl::StrCat("label at position ", first_row.of(args.params()) + r,
                               " is out of range; expected [0, ", classes, "), got ", labels[r]));
            }
            Entropy(args.input<T>(0), labels, args.output<T>(0), args.output<T>(1), rows, classes);
            return absl::OkStatus();
          }),
          .in_place = {{0, 1}},
          .fails_on_data = true};
}

absl::StatusOr<KernelPlan> CreateSoftmaxXent(const KernelContext& c) {
  const FirstRow first_row(c, 0);
  return ForType(FloatingTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return ForType(TypeList<int32_t, int64_t>(), c.input_dtype(1),
                   [&]<typename Label>(TypeTag<Label>) {
                     return Plan<T, Label>(c.input_shape(0), first_row);
                   });
  });
}

// Strides of an operand that broadcasts to a matrix.
struct Strides {
  explicit Strides(const Shape& shape) {
    const int rank = shape.rank();
    if (rank >= 1 && shape.dim(rank - 1) != 1) column = 1;
    if (rank >= 2 && shape.dim(0) != 1) row = shape.dim(1);
  }
  int64_t row = 0;
  int64_t column = 0;
};

template <typename T>
void DenseEntropy(const T* features, Strides f, const T* labels, Strides l, T* loss, T* backprop,
                  int64_t rows, int64_t classes) {
  const int64_t block = BlockRows(classes);
  T weights[kMaxBlockRows], sums[kMaxBlockRows];
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t n = std::min(block, rows - first);
    T* const y = backprop + first * classes;
    for (int64_t r = 0; r < n; ++r) {
      const T* from = features + (first + r) * f.row;
      for (int64_t c = 0; c < classes; ++c) y[r * classes + c] = from[c * f.column];
    }
    SubtractRowMaximum(y, y, n, classes);
    // loss = sum_c labels * (log(sum) - y)
    for (int64_t r = 0; r < n; ++r) {
      const T* of_row = labels + (first + r) * l.row;
      T weight = 0, weighted = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const T label = of_row[c * l.column];
        weight += label;
        weighted += label * y[r * classes + c];
      }
      weights[r] = weight;
      loss[first + r] = weighted;
    }
    ExpInPlace(y, n * classes);
    for (int64_t r = 0; r < n; ++r) {
      sums[r] = Normalize(y + r * classes, classes);
      const T* of_row = labels + (first + r) * l.row;
      for (int64_t c = 0; c < classes; ++c) y[r * classes + c] -= of_row[c * l.column];
    }
    RowMap<T> losses(loss + first, n);
    losses = ConstRowMap<T>(weights, n) * ConstRowMap<T>(sums, n).log() - losses;
  }
}

absl::StatusOr<KernelPlan> CreateDense(const KernelContext& c) {
  const Strides features(c.input_shape(0)), labels(c.input_shape(1));
  const int64_t rows = c.output_shape(1).dim(0), classes = c.output_shape(1).dim(1);
  return ForType(FloatingTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args) {
                        if (classes == 0) {
                          std::fill_n(args.output<T>(0), rows, T{0});
                          return;
                        }
                        DenseEntropy(args.input<T>(0), features, args.input<T>(1), labels,
                                     args.output<T>(0), args.output<T>(1), rows, classes);
                      })};
  });
}

}  // namespace

void RegisterSoftmaxXentCpu(KernelRegistry& kernels) {
  kernels.Register("SoftmaxCrossEntropyWithLogits", "CPU", CreateDense);
  kernels.Register("SparseSoftmaxCrossEntropyWithLogits", "CPU", CreateSoftmaxXent);
}

}  // namespace mirrorflow
