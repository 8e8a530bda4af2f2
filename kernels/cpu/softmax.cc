// SPDX-License-Identifier: Apache-2.0
//
// Softmax and LogSoftmax on the CPU, along the last dimension.
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/type_list.h"

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
void LogSoftmax(const T* in, T* out, int64_t rows, int64_t columns) {
  const int64_t block = BlockRows(columns);
  T sums[kMaxBlockRows];
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t n = std::min(block, rows - first);
    T* const y = out + first * columns;
    SubtractRowMaximum(in + first * columns, y, n, columns);
    SumsOfExp(y, sums, n, columns);
    RowMap<T> logs(sums, n);
    logs = logs.log().eval();
    for (int64_t r = 0; r < n; ++r) RowMap<T>(y + r * columns, columns) -= sums[r];
  }
}

// Returns a factory of kernels that call function(in, out, rows, columns).
template <typename Function>
KernelFactory AlongRows(Function) {
  return [](const KernelContext& c) {
    return ForType(FloatingTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      const Shape& shape = c.output_shape(0);
      const int64_t columns = shape.dim(shape.rank() - 1);
      const int64_t rows = columns == 0 ? 0 : shape.num_elements() / columns;
      return KernelPlan{.kernel = MakeKernel([rows, columns](const KernelArgs& args) {
                          Function{}(args.input<T>(0), args.output<T>(0), rows, columns);
                        }),
                        .in_place = {{0, 0}}};
    });
  };
}

}  // namespace

void RegisterSoftmaxCpu(KernelRegistry& kernels) {
  kernels.Register("LogSoftmax", "CPU", AlongRows([](auto... args) { LogSoftmax(args...); }));
  kernels.Register("Softmax", "CPU", AlongRows([](auto... args) { Softmax(args...); }));
}

}  // namespace mirrorflow
