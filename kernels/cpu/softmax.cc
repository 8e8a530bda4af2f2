// SPDX-License-Identifier: Apache-2.0
//
// Softmax on the CPU, along the last dimension.
#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/softmax_rows.h"

namespace mirrorflow {
namespace {

template <typename T>
void Softmax(const T* in, T* out, int64_t rows, int64_t columns) {
  const int64_t block = BlockRows(columns);
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t n = std::min(block, rows - first);
    T* const y = out + first * columns;
    SubtractRowMaximum(in + first * columns, y, n, columns);
    ExpInPlace(y, n * columns);
    for (int64_t r = 0; r < n; ++r) Normalize(y + r * columns, columns);
  }
}

template <typename T>
KernelPlan Plan(const Shape& shape) {
  const int64_t columns = shape.dim(shape.rank() - 1);
  const int64_t rows = columns == 0 ? 0 : shape.num_elements() / columns;
  return {.kernel = MakeKernel([rows, columns](const KernelArgs& args, Lane&) {
            Softmax(args.input<T>(0), args.output<T>(0), rows, columns);
            return absl::OkStatus();
          }),
          .in_place = {{0, 0}}};
}

absl::StatusOr<KernelPlan> CreateSoftmax(const KernelContext& c) {
  switch (c.output_dtype(0)) {
    case DT_FLOAT:
      return Plan<float>(c.output_shape(0));
    case DT_DOUBLE:
      return Plan<double>(c.output_shape(0));
    default:
      return UnsupportedDataType(c.output_dtype(0));
  }
}

}  // namespace

void RegisterSoftmaxCpu(KernelRegistry& kernels) {
  kernels.Register("Softmax", "CPU", CreateSoftmax);
}

}  // namespace mirrorflow
