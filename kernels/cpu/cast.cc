// SPDX-License-Identifier: Apache-2.0
//
// Cast on the CPU, for all pairs of dtypes.
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// A float type to int32 or int64. C++ leaves open what becomes of a number that does not fit; this
// is what x86 does.
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
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return RoundTowardsZero<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
KernelPlan CastPlan(int64_t n) {
  KernelPlan plan;
  plan.kernel = MakeKernel([n](const KernelArgs& args, Lane&) {
    // Of a bool its byte: the compiler widens bytes to vectors.
    using Stored = std::conditional_t<std::is_same_v<From, bool>, uint8_t, From>;
    const Stored* x = args.input<Stored>(0);
    To* y = args.output<To>(0);
    if constexpr (std::is_same_v<From, To>) {
      if (n > 0) std::memmove(y, x, n * sizeof(To));
    } else {
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) y[i] = Convert<To>(x[i]);
    }
    return absl::OkStatus();
  });
  if (sizeof(From) == sizeof(To)) plan.in_place = {{0, 0}};
  return plan;
}

absl::StatusOr<KernelPlan> CreateCast(const KernelContext& c) {
  return ForType(AllTypes(), c.input_dtype(0), [&](auto from) {
    return ForType(AllTypes(), c.output_dtype(0), [&](auto to) {
      return CastPlan<typename decltype(from)::type, typename decltype(to)::type>(
          c.output_shape(0).num_elements());
    });
  });
}

}  // namespace

void RegisterCastCpu(KernelRegistry& kernels) { kernels.Register("Cast", "CPU", CreateCast); }

}  // namespace mirrorflow
