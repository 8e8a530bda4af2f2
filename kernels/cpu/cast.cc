// SPDX-License-Identifier: Apache-2.0
//
// Cast on the CPU, for all pairs of dtypes.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/reduced_precision.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Converts a floating-point number to int32 or int64. Out-of-range numbers, whose conversion is
// undefined behaviour in C++, become the smallest integer, as on x86.
template <typename To, typename From>
To RoundTowardsZero(From x) {
  constexpr From kLimit = From(uint64_t{1} << (8 * sizeof(To) - 1));
  return x >= -kLimit && x < kLimit ? static_cast<To>(x) : std::numeric_limits<To>::min();
}

template <typename To, typename From>
To Convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint8_t>) {
    return static_cast<uint8_t>(RoundTowardsZero<int32_t>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint32_t>) {
    return static_cast<uint32_t>(RoundTowardsZero<int64_t>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = From(uint64_t{1} << 63);
    const auto low = static_cast<uint64_t>(RoundTowardsZero<int64_t>(x < kHalf ? x : x - kHalf));
    return x < kHalf ? low : low ^ uint64_t { 1 } << 63;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return RoundTowardsZero<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// The type to read elements as: bools are bytes, which the compiler can widen to vectors.
template <typename From>
using Stored = std::conditional_t<std::is_same_v<From, bool>, uint8_t, From>;

template <typename From, typename To>
KernelPlan CastPlan(int64_t n) {
  KernelPlan plan;
  plan.kernel = MakeKernel([n](const KernelArgs& args) {
    const auto* x = args.input<Stored<From>>(0);
    To* y = args.output<To>(0);
    if constexpr (std::is_same_v<From, To>) {
      if (n > 0) std::memmove(y, x, n * sizeof(To));
    } else {
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) y[i] = Convert<To>(x[i]);
    }
  });
  if (sizeof(From) == sizeof(To)) plan.in_place = {{0, 0}};
  return plan;
}

using CastTypes = TypeList<float, double, int32_t, int64_t, uint8_t, bool, uint32_t, uint64_t>;
using Reduced = uint16_t;  // half or bfloat16

// Casts from or to half or bfloat16, or both, through blocks of floats. Both widen to float without
// rounding.
template <typename From, typename To>
KernelPlan CastThroughFloat(DataType from, DataType to, int64_t n) {
  KernelPlan plan;
  plan.kernel = MakeKernel([=](const KernelArgs& args) {
    const auto* x = args.input<Stored<From>>(0);
    To* y = args.output<To>(0);
    constexpr int64_t kBlock = 512;
    for (int64_t i = 0; i < n; i += kBlock, x += kBlock, y += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      float block[kBlock];
      if constexpr (std::is_same_v<From, Reduced>) {
        WidenReduced(from, x, block, count);
      } else {
        for (int64_t j = 0; j < count; ++j) block[j] = ToFloatForRounding(x[j]);
      }
      if constexpr (std::is_same_v<To, Reduced>) {
        RoundToReduced(to, block, y, count);
      } else {
        for (int64_t j = 0; j < count; ++j) y[j] = Convert<To>(block[j]);
      }
    }
  });
  if (sizeof(From) == sizeof(To)) plan.in_place = {{0, 0}};
  return plan;
}

absl::StatusOr<KernelPlan> CreateCast(const KernelContext& c) {
  const DataType source = c.input_dtype(0), target = c.output_dtype(0);
  const int64_t n = c.output_shape(0).num_elements();
  if (IsReducedFloat(source) && IsReducedFloat(target)) {
    return source == target ? CastPlan<Reduced, Reduced>(n)
                            : CastThroughFloat<Reduced, Reduced>(source, target, n);
  }
  if (IsReducedFloat(source)) {
    return ForType(CastTypes(), target, [&]<typename To>(TypeTag<To>) {
      return CastThroughFloat<Reduced, To>(source, target, n);
    });
  }
  return ForType(CastTypes(), source,
                 [&]<typename From>(TypeTag<From>) -> absl::StatusOr<KernelPlan> {
                   if (IsReducedFloat(target))
                     return CastThroughFloat<From, Reduced>(source, target, n);
                   return ForType(CastTypes(), target,
                                  [&]<typename To>(TypeTag<To>) { return CastPlan<From, To>(n); });
                 });
}

}  // namespace

void RegisterCastCpu(KernelRegistry& kernels) { kernels.Register("Cast", "CPU", CreateCast); }

}  // namespace mirrorflow
