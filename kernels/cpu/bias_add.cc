// SPDX-License-Identifier: Apache-2.0
//
// BiasAdd and its gradient on the CPU. Values are rows with one element per channel or, for NCHW
// images, planes of one channel.
#include <algorithm>

#include "kernels/cpu/bias.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Elements or rows per block. Each block is first summed separately, so the rounding error grows
// with the number of blocks instead of the number of terms.
constexpr int64_t kBlock = 64;

template <typename T>
void AddBiasToPlanes(const ChannelLayout& g, const T* value, const T* bias, T* out) {
  for (int64_t r = 0; r < g.rows; ++r) {
    for (int64_t c = 0; c < g.channels; ++c) {
      const auto b = Wrapping(bias[c]);
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < g.plane; ++i) out[i] = static_cast<T>(Wrapping(value[i]) + b);
      value += g.plane;
      out += g.plane;
    }
  }
}

// Sets sum[c] to the sum of channel c over all rows, which are `stride` elements apart. Requires
// rows >= 1.
template <typename T>
void SumRows(const T* __restrict in, T* __restrict sum, int64_t rows, int64_t channels,
             int64_t stride) {
  std::copy_n(in, channels, sum);
  int64_t r = 1;
  for (; r + 4 <= rows; r += 4) {
    const T *a = in + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
    for (int64_t i = 0; i < channels; ++i) sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
  }
  for (; r < rows; ++r) {
    const T* a = in + r * stride;
    for (int64_t i = 0; i < channels; ++i) sum[i] += a[i];
  }
}

// Adds the sum of all rows to `out`. `block` has room for one row.
template <typename T>
void SumAllRows(const ChannelLayout& g, const T* in, T* out, T* block) {
  for (int64_t r = 0; r < g.rows; r += kBlock) {
    SumRows(in + r * g.row_stride, block, std::min(kBlock, g.rows - r), g.channels, g.row_stride);
    for (int64_t i = 0; i < g.channels; ++i) out[i] += block[i];
  }
}

template <typename T>
void SumPlanes(const ChannelLayout& g, const T* in, T* out) {
  for (int64_t r = 0; r < g.rows; ++r) {
    for (int64_t c = 0; c < g.channels; ++c) {
      const T* const plane = in + r * g.row_stride + c * g.plane;
      T sum = 0;
      for (int64_t i = 0; i < g.plane; i += kBlock) {
        T block = 0;
        for (int64_t k = i; k < std::min(i + kBlock, g.plane); ++k) block += plane[k];
        sum += block;
      }
      out[c] += sum;
    }
  }
}

absl::StatusOr<KernelPlan> CreateBiasAdd(const KernelContext& c) {
  const ChannelLayout g = ChannelLayout::Of(c, c.output_shape(0));
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return KernelPlan{.kernel = MakeKernel([g](const KernelArgs& args) {
                        const T *const value = args.input<T>(0), *const bias = args.input<T>(1);
                        T* const out = args.output<T>(0);
                        if (g.plane == 1) {
                          AddBias(g.rows, g.channels, value, bias, out);
                        } else {
                          AddBiasToPlanes(g, value, bias, out);
                        }
                      }),
                      .in_place = {{0, 0}}};
  });
}

absl::StatusOr<KernelPlan> CreateBiasAddGrad(const KernelContext& c) {
  const ChannelLayout g = ChannelLayout::Of(c, c.input_shape(0)).PartOf(c);
  return ForType(NumericTypes(), c.output_dtype(0), [&](auto tag) {
    using T = decltype(Wrapping(typename decltype(tag)::type()));
    KernelPlan plan = {
        .kernel = MakeKernel([g](const KernelArgs& args) {
          T* const out = args.output<T>(0);
          std::fill_n(out, g.channels, T{0});
          if (g.plane == 1) {
            SumAllRows(g, args.input<T>(0), out, args.scratch<T>());
          } else {
            SumPlanes(g, args.input<T>(0), out);
          }
        }),
        .scratch_bytes = static_cast<int64_t>(g.channels * sizeof(T)),
        .divisible_dims = {
            {.dim = 0, .multiple = g.PartMultiple(sizeof(T)), .divided_inputs = {0}}}};
    if (const DimRange* part = c.part()) {
      plan.part_inputs = {{0, {g.dim, part->first, part->count}}};
    }
    return plan;
  });
}

}  // namespace

void RegisterBiasAddCpu(KernelRegistry& kernels) {
  kernels.Register("BiasAdd", "CPU", CreateBiasAdd);
  kernels.Register("BiasAddGrad", "CPU", CreateBiasAddGrad);
}

}  // namespace mirrorflow
