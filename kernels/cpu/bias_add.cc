// SPDX-License-Identifier: Apache-2.0
//
// BiasAdd and its gradient on the CPU: rows of as many elements as the bias has.
#include <algorithm>

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Rows that are summed by themselves first, so that the rounding error grows with the number of
// blocks and not with that of the rows.
constexpr int64_t kRowsPerBlock = 64;

template <typename T>
void AddBias(const T* value, const T* bias, T* out, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r) {
    MF_INDEPENDENT_ITERATIONS
    for (int64_t c = 0; c < channels; ++c) out[c] = value[c] + bias[c];
    value += channels;
    out += channels;
  }
}

// sum[c] = sum over `rows` rows, which are at least one.
template <typename T>
void SumRows(const T* __restrict in, T* __restrict sum, int64_t rows, int64_t channels) {
  std::copy_n(in, channels, sum);
  int64_t r = 1;
  for (; r + 4 <= rows; r += 4) {
    const T *a = in + r * channels, *b = a + channels, *c = b + channels, *d = c + channels;
    for (int64_t i = 0; i < channels; ++i) sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
  }
  for (; r < rows; ++r) {
    const T* a = in + r * channels;
    for (int64_t i = 0; i < channels; ++i) sum[i] += a[i];
  }
}

struct Rows {
  int64_t rows;
  int64_t channels;
};

Rows RowsOf(const Shape& shape) {
  const int64_t channels = shape.dim(shape.rank() - 1);
  return {channels == 0 ? 0 : shape.num_elements() / channels, channels};
}

absl::StatusOr<KernelPlan> CreateBiasAdd(const KernelContext& c) {
  const Rows g = RowsOf(c.output_shape(0));
  const DataType dtype = c.output_dtype(0);
  return DispatchDataType(
      dtype,
      [&](auto tag) -> absl::StatusOr<KernelPlan> {
        using T = typename decltype(tag)::type;
        return KernelPlan{.kernel = MakeKernel([g](const KernelArgs& args, Lane&) {
                            AddBias(args.input<T>(0), args.input<T>(1), args.output<T>(0), g.rows,
                                    g.channels);
                            return absl::OkStatus();
                          }),
                          .in_place = {{0, 0}}};
      },
      absl::StatusOr<KernelPlan>(UnsupportedDataType(dtype)));
}

absl::StatusOr<KernelPlan> CreateBiasAddGrad(const KernelContext& c) {
  const Rows g = RowsOf(c.input_shape(0));
  const DataType dtype = c.output_dtype(0);
  return DispatchDataType(
      dtype,
      [&](auto tag) -> absl::StatusOr<KernelPlan> {
        using T = typename decltype(tag)::type;
        return KernelPlan{.kernel = MakeKernel([g](const KernelArgs& args, Lane&) {
                            const T* in = args.input<T>(0);
                            T* const out = args.output<T>(0);
                            T* const block = args.scratch<T>();
                            std::fill_n(out, g.channels, T{0});
                            for (int64_t r = 0; r < g.rows; r += kRowsPerBlock) {
                              const int64_t rows = std::min(kRowsPerBlock, g.rows - r);
                              SumRows(in + r * g.channels, block, rows, g.channels);
                              for (int64_t i = 0; i < g.channels; ++i) out[i] += block[i];
                            }
                            return absl::OkStatus();
                          }),
                          .scratch_bytes = static_cast<int64_t>(g.channels * sizeof(T))};
      },
      absl::StatusOr<KernelPlan>(UnsupportedDataType(dtype)));
}

}  // namespace

void RegisterBiasAddCpu(KernelRegistry& kernels) {
  kernels.Register("BiasAdd", "CPU", CreateBiasAdd);
  kernels.Register("BiasAddGrad", "CPU", CreateBiasAddGrad);
}

}  // namespace mirrorflow
