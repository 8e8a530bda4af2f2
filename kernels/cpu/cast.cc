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

template <typename From, typename To>
KernelPlan CastPlan(int64_t n) {
  KernelPlan plan;
  plan.kernel = MakeKernel([n](const KernelArgs& args) {
    // Reads bools as bytes, which the compiler can widen to vectors.
    using Stored = std::conditional_t<std::is_same_v<From, bool>, uint8_t, From>;
    const Stored* x = args.input<Stored>(0);
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

// Splits `n` elements into blocks and calls convert(begin, count) for each.
constexpr int64_t kBlock = 512;
template <typename Fn>
void ForEachBlock(int64_t n, const Fn& convert) {
  for (int64_t i = 0; i < n; i += kBlock) convert(i, std::min(kBlock, n - i));
}

// Casts from half or bfloat16, which widen to float without rounding.
template <typename To>
KernelPlan CastFromReduced(DataType from, int64_t n) {
  return {.kernel = MakeKernel([from, n](const KernelArgs& args) {
            const uint16_t* x = args.input<uint16_t>(0);
            To* y = args.output<To>(0);
            ForEachBlock(n, [&](int64_t i, int64_t count) {
              float block[kBlock];
              WidenReduced(from, x + i, block, count);
              for (int64_t j = 0; j < count; ++j) y[i + j] = Convert<To>(block[j]);
            });
          })};
}

template <typename From>
KernelPlan CastToReduced(DataType to, int64_t n) {
  return {.kernel = MakeKernel([to, n](const KernelArgs& args) {
            using Stored = std::conditional_t<std::is_same_v<From, bool>, uint8_t, From>;
            const Stored* x = args.input<Stored>(0);
            uint16_t* y = args.output<uint16_t>(0);
            ForEachBlock(n, [&](int64_t i, int64_t count) {
              float block[kBlock];
              for (int64_t j = 0; j < count; ++j) block[j] = ToFloatForRounding(x[i + j]);
              RoundToReduced(to, block, y + i, count);
            });
          })};
}

KernelPlan CastBetweenReduced(DataType from, DataType to, int64_t n) {
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            const uint16_t* x = args.input<uint16_t>(0);
            uint16_t* y = args.output<uint16_t>(0);
            ForEachBlock(n, [&](int64_t i, int64_t count) {
              float block[kBlock];
              if (from == to) {
                std::memmove(y + i, x + i, count * sizeof(uint16_t));
              } else {
                WidenReduced(from, x + i, block, count);
                RoundToReduced(to, block, y + i, count);
              }
            });
          }),
          .in_place = {{0, 0}}};
}

absl::StatusOr<KernelPlan> CreateCast(const KernelContext& c) {
  const DataType source = c.input_dtype(0), target = c.output_dtype(0);
  const int64_t n = c.output_shape(0).num_elements();
  if (IsReducedFloat(source) && IsReducedFloat(target)) {
    return CastBetweenReduced(source, target, n);
  }
  if (IsReducedFloat(source)) {
    return ForType(CastTypes(), target, [&](auto to) {
      return CastFromReduced<typename decltype(to)::type>(source, n);
    });
  }
  if (IsReducedFloat(target)) {
    return ForType(CastTypes(), source, [&](auto from) {
      return CastToReduced<typename decltype(from)::type>(target, n);
    });
  }
  return ForType(CastTypes(), c.input_dtype(0), [&](auto from) {
    return ForType(CastTypes(), c.output_dtype(0), [&](auto to) {
      return CastPlan<typename decltype(from)::type, typename decltype(to)::type>(
          c.output_shape(0).num_elements());
    });
  });
}

}  // namespace

void RegisterCastCpu(KernelRegistry& kernels) { kernels.Register("Cast", "CPU", CreateCast); }

}  // namespace mirrorflow
