// SPDX-License-Identifier: Apache-2.0
//
// SparseSoftmaxCrossEntropyWithLogits on the CPU: loss and its gradient in one pass over blocks of
// rows.
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/first_row.h"
#include "kernels/cpu/softmax_rows.h"

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

template <typename Label>
absl::Status LabelError(Label label, int64_t position, int64_t classes) {
  return absl::InvalidArgumentError(absl::StrCat("label at position ", position,
                                                 " is out of range; expected [0, ", classes,
                                                 "), got ", label));
}

template <typename T, typename Label>
KernelPlan Plan(const Shape& features, FirstRow first_row) {
  const int64_t rows = features.dim(0), classes = features.dim(1);
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
            const Label* labels = args.input<Label>(1);
            for (int64_t r = 0; r < rows; ++r) {
              if (labels[r] >= 0 && labels[r] < classes) continue;
              return LabelError(labels[r], first_row.of(args.params()) + r, classes);
            }
            Entropy(args.input<T>(0), labels, args.output<T>(0), args.output<T>(1), rows, classes);
            return absl::OkStatus();
          }),
          .in_place = {{0, 1}},
          .fails_on_data = true};
}

template <typename T>
absl::StatusOr<KernelPlan> PlanFor(const KernelContext& c) {
  const FirstRow first_row(c.output_sharding(0), 0);
  const Shape& features = c.input_shape(0);
  switch (c.input_dtype(1)) {
    case DT_INT32:
      return Plan<T, int32_t>(features, first_row);
    case DT_INT64:
      return Plan<T, int64_t>(features, first_row);
    default:
      return UnsupportedDataType(c.input_dtype(1));
  }
}

absl::StatusOr<KernelPlan> CreateSoftmaxXent(const KernelContext& c) {
  switch (c.output_dtype(0)) {
    case DT_FLOAT:
      return PlanFor<float>(c);
    case DT_DOUBLE:
      return PlanFor<double>(c);
    default:
      return UnsupportedDataType(c.output_dtype(0));
  }
}

}  // namespace

void RegisterSoftmaxXentCpu(KernelRegistry& kernels) {
  kernels.Register("SparseSoftmaxCrossEntropyWithLogits", "CPU", CreateSoftmaxXent);
}

}  // namespace mirrorflow
