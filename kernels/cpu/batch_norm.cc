// SPDX-License-Identifier: Apache-2.0
//
// FusedBatchNormV3 and its gradient on the CPU. Sums are accumulated in double precision because a
// channel can have millions of elements.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/bias.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Calls fn(i, c) for each element i and its channel c.
template <typename Fn>
MF_INLINE inline void ForEach(const ChannelLayout& layout, Fn fn) {
  const int64_t channels = layout.channels, inner = layout.plane;
  if (inner == 1) {
    for (int64_t r = 0; r < layout.rows; ++r) {
      const int64_t first = r * layout.row_stride;
      MF_INDEPENDENT_ITERATIONS
      for (int64_t c = 0; c < channels; ++c) fn(first + c, c);
    }
    return;
  }
  for (int64_t r = 0; r < layout.rows; ++r) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t first = r * layout.row_stride + c * inner;
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < inner; ++i) fn(first + i, c);
    }
  }
}

// Sets sums[c] to the sum of fn(i, c) over the elements of channel c.
template <typename Fn>
MF_INLINE inline void Sum(const ChannelLayout& layout, double* sums, Fn fn) {
  const int64_t channels = layout.channels, inner = layout.plane;
  std::fill_n(sums, channels, 0.0);
  if (inner == 1) {
    ForEach(layout, [=](int64_t i, int64_t c) MF_INLINE { sums[c] += fn(i, c); });
    return;
  }
  constexpr int64_t kLanes = 8;
  for (int64_t r = 0; r < layout.rows; ++r) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t first = r * layout.row_stride + c * inner;
      double lanes[kLanes] = {};
      int64_t i = 0;
      for (; i + kLanes <= inner; i += kLanes) {
        for (int64_t k = 0; k < kLanes; ++k) lanes[k] += fn(first + i + k, c);
      }
      for (; i < inner; ++i) lanes[0] += fn(first + i, c);
      for (const double lane : lanes) sums[c] += lane;
    }
  }
}

// Returns the vectors of T in the scratch memory, which follow a vector of sums in double
// precision. Each vector has one element per channel.
template <typename T>
T* Vectors(const KernelArgs& args, int64_t channels) {
  return reinterpret_cast<T*>(args.scratch<double>() + channels);
}
template <typename T>
int64_t ScratchBytes(const ChannelLayout& layout, int vectors) {
  return layout.channels * static_cast<int64_t>(sizeof(double) + vectors * sizeof(T));
}

template <typename T>
void Normalize(const ChannelLayout& layout, const KernelArgs& args, const T* mean,
               const T* variance, T epsilon) {
  const T *x = args.input<T>(0), *scale = args.input<T>(1), *offset = args.input<T>(2);
  T* const y = args.output<T>(0);
  T* const factor = Vectors<T>(args, layout.channels);
  for (int64_t c = 0; c < layout.channels; ++c) {
    factor[c] = scale[c] / std::sqrt(variance[c] + epsilon);
  }
  ForEach(layout,
          [=](int64_t i, int64_t c) MF_INLINE { y[i] = (x[i] - mean[c]) * factor[c] + offset[c]; });
}

// Writes the mean and variance of each channel to outputs 3 and 4, then updates the moving averages
// in outputs 1 and 2.
template <typename T>
void TakeStatistics(const ChannelLayout& layout, const KernelArgs& args, T weight) {
  const T* const x = args.input<T>(0);
  double* const sums = args.scratch<double>();
  T *const mean = args.output<T>(3), *const variance = args.output<T>(4);
  const double n = static_cast<double>(layout.rows * layout.plane);
  Sum(layout, sums, [=](int64_t i, int64_t) MF_INLINE { return static_cast<double>(x[i]); });
  for (int64_t c = 0; c < layout.channels; ++c) {
    mean[c] = static_cast<T>(sums[c] / std::max(n, 1.0));
  }
  Sum(layout, sums, [=](int64_t i, int64_t c) MF_INLINE {
    const double centered = x[i] - mean[c];
    return centered * centered;
  });
  // If the channels have no elements, the moving averages become NaN.
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T one = n == 0 ? nan : T{1};
  const T bessel = n == 0 ? nan : static_cast<T>(n / std::max(n - 1, 1.0));
  const T *old_mean = args.input<T>(3), *old_variance = args.input<T>(4);
  T *const moved_mean = args.output<T>(1), *const moved_variance = args.output<T>(2);
  for (int64_t c = 0; c < layout.channels; ++c) {
    variance[c] = static_cast<T>(sums[c] / std::max(n, 1.0));
    moved_mean[c] = mean[c] * one;
    moved_variance[c] = variance[c] * bessel;
    if (weight == 1) continue;  // the old averages may be missing
    moved_mean[c] = old_mean[c] * (1 - weight) + moved_mean[c] * weight;
    moved_variance[c] = old_variance[c] * (1 - weight) + moved_variance[c] * weight;
  }
}

// Completes the plan of a kernel that can compute some of the channels: of all images, and of the
// vectors with one element per channel.
void DivideByChannels(const KernelContext& c, const ChannelLayout& whole, KernelPlan* plan) {
  const Shape& images = c.input_shape(0);
  const auto dim_of = [&](const Shape& shape) {
    return shape == images ? whole.dim : shape == Shape({whole.channels}) ? 0 : -1;
  };
  const auto element_bytes = static_cast<int64_t>(DataTypeSize(c.output_dtype(0)));
  DivisibleDim divisible = {.dim = whole.dim, .multiple = whole.PartMultiple(element_bytes)};
  const DimRange* const part = c.part();
  for (int i = 0; i < c.node().num_inputs(); ++i) {
    const int dim = dim_of(c.input_shape(i));
    if (dim < 0) continue;
    divisible.divided_inputs.push_back(i);
    if (part != nullptr) plan->part_inputs.push_back({i, {dim, part->first, part->count}});
  }
  plan->divisible_dims = {divisible};
  for (int i = 1; i < c.node().num_outputs() && part != nullptr; ++i) {
    const int dim = dim_of(c.output_shape(i));
    if (dim == 0) {
      plan->part_outputs.push_back({i, {dim, part->first, part->count}});
    } else if (part->first > 0) {
      plan->part_outputs.push_back({i, {}});  // the first part writes it
    }
  }
}

template <typename T>
KernelPlan BatchNorm(const KernelContext& c) {
  const ChannelLayout whole = ChannelLayout::Of(c, c.input_shape(0)), layout = whole.PartOf(c);
  const bool is_first_part = c.part() == nullptr || c.part()->first == 0;
  const T epsilon = c.attr<float>("epsilon"), weight = c.attr<float>("exponential_avg_factor");
  const bool training = c.attr<bool>("is_training");
  KernelPlan plan = {.kernel = MakeKernel([=](const KernelArgs& args) {
                       const int64_t channels = layout.channels;
                       if (training) {
                         TakeStatistics<T>(layout, args, weight);
                         Normalize<T>(layout, args, args.output<T>(3), args.output<T>(4), epsilon);
                       } else {
                         Normalize<T>(layout, args, args.input<T>(3), args.input<T>(4), epsilon);
                         for (int i = 1; i <= 2; ++i) {
                           std::copy_n(args.input<T>(i + 2), channels, args.output<T>(i));
                           std::fill_n(args.output<T>(i + 2), channels, T{0});
                         }
                       }
                       if (is_first_part) *args.output<T>(5) = T{0};
                     }),
                     .scratch_bytes = ScratchBytes<T>(layout, 1),
                     .in_place = {{0, 0}}};
  DivideByChannels(c, whole, &plan);
  return plan;
}

template <typename T>
KernelPlan BatchNormGrad(const KernelContext& c) {
  const ChannelLayout whole = ChannelLayout::Of(c, c.input_shape(0)), layout = whole.PartOf(c);
  const T epsilon = c.attr<float>("epsilon");
  const bool training = c.attr<bool>("is_training");
  KernelPlan plan = {
      .kernel = MakeKernel([=](const KernelArgs& args) {
        const T *dy = args.input<T>(0), *x = args.input<T>(1), *scale = args.input<T>(2);
        const T *mean = args.input<T>(3), *variance = args.input<T>(4);
        T *dx = args.output<T>(0), *dscale = args.output<T>(1), *doffset = args.output<T>(2);
        const int64_t channels = layout.channels;
        double* const sums = args.scratch<double>();
        T* const factor = Vectors<T>(args, channels);
        T *const slope = factor + channels, *const shift = slope + channels;
        Sum(layout, sums, [=](int64_t i, int64_t) MF_INLINE { return static_cast<double>(dy[i]); });
        for (int64_t ch = 0; ch < channels; ++ch) doffset[ch] = static_cast<T>(sums[ch]);
        Sum(layout, sums, [=](int64_t i, int64_t ch) MF_INLINE {
          return static_cast<double>(dy[i]) * (x[i] - mean[ch]);
        });
        const T n = static_cast<T>(std::max<int64_t>(layout.rows * layout.plane, 1));
        for (int64_t ch = 0; ch < channels; ++ch) {
          const T inverse = 1 / std::sqrt(variance[ch] + epsilon);
          dscale[ch] = static_cast<T>(sums[ch]) * inverse;
          factor[ch] = scale[ch] * inverse;
          shift[ch] = doffset[ch] / n;
          slope[ch] = dscale[ch] * inverse / n;
        }
        if (training) {
          ForEach(layout, [=](int64_t i, int64_t ch) MF_INLINE {
            dx[i] = (dy[i] - shift[ch] - (x[i] - mean[ch]) * slope[ch]) * factor[ch];
          });
        } else {
          ForEach(layout, [=](int64_t i, int64_t ch) MF_INLINE { dx[i] = dy[i] * factor[ch]; });
        }
      }),
      .scratch_bytes = ScratchBytes<T>(layout, 3),
      .in_place = {{0, 0}}};
  DivideByChannels(c, whole, &plan);
  return plan;
}

}  // namespace

void RegisterBatchNormCpu(KernelRegistry& kernels) {
  kernels.Register("FusedBatchNormGradV3", "CPU", [](const KernelContext& c) {
    return ForFloatingType(c, [&]<typename T>(TypeTag<T>) { return BatchNormGrad<T>(c); });
  });
  kernels.Register("FusedBatchNormV3", "CPU", [](const KernelContext& c) {
    return ForFloatingType(c, [&]<typename T>(TypeTag<T>) { return BatchNorm<T>(c); });
  });
}

}  // namespace mirrorflow
