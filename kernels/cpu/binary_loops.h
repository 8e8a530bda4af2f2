// SPDX-License-Identifier: Apache-2.0
//
// Loops for tables of element-wise formulas with two operands, which broadcast. Binary(types, fn)
// returns the kernel factory for one formula.
#ifndef MIRRORFLOW_KERNELS_CPU_BINARY_LOOPS_H_
#define MIRRORFLOW_KERNELS_CPU_BINARY_LOOPS_H_

#include <type_traits>
#include <utility>

#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

// Whether a formula can fail. Only integer formulas can; they report failure in a `bool& bad`
// argument.
template <typename Fn, typename T>
constexpr bool kCanFail = std::is_integral_v<T>&& std::is_invocable_v<Fn, T, T, bool&>;

template <typename Fn, typename T>
auto Apply(T x, T y, bool& bad) {
  if constexpr (std::is_invocable_v<Fn, T, T, bool&>) {
    return Fn{}(x, y, bad);
  } else {
    return Fn{}(x, y);
  }
}

// Computes one run. Each operand either advances along the run or stays at one element.
template <typename Fn, bool kXMoves, bool kYMoves, typename T, typename R>
bool ApplyRun(const T* x, const T* y, R* z, int64_t n) {
  bool bad = false;
  const T x0 = *x, y0 = *y;
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    z[i] = static_cast<R>(Apply<Fn, T>(kXMoves ? x[i] : x0, kYMoves ? y[i] : y0, bad));
  }
  return bad;
}

template <typename Fn, typename T>
KernelPlan BinaryPlan(const KernelContext& c) {
  using Value = decltype(Apply<Fn, T>(T(), T(), std::declval<bool&>()));
  using R = std::conditional_t<std::is_same_v<Value, bool>, bool, T>;
  const Shape &out = c.output_shape(0), &left = c.input_shape(0), &right = c.input_shape(1);
  const BroadcastLoop<2> loop(out, {&left, &right});
  const auto run = !loop.moves(0)  ? ApplyRun<Fn, false, true, T, R>
                   : loop.moves(1) ? ApplyRun<Fn, true, true, T, R>
                                   : ApplyRun<Fn, true, false, T, R>;
  KernelPlan plan;
  plan.kernel = MakeKernel([loop, run](const KernelArgs& args, Lane&) {
    const T *x = args.input<T>(0), *y = args.input<T>(1);
    R* z = args.output<R>(0);
    bool bad = false;
    loop.ForEachRun([&](int64_t at, const auto& from) {
      bad |= run(x + from[0], y + from[1], z + at, loop.run_length());
    });
    if constexpr (kCanFail<Fn, T>) {
      if (bad) return absl::InvalidArgumentError(Fn::kError);
    }
    return absl::OkStatus();
  });
  plan.fails_on_data = kCanFail<Fn, T>;
  if (sizeof(T) == sizeof(R)) {
    if (left == out) plan.in_place.push_back({0, 0});
    if (right == out) plan.in_place.push_back({1, 0});
  }
  return plan;
}

template <typename Types, typename Fn>
KernelFactory Binary(Types, Fn) {
  return [](const KernelContext& c) {
    return ForType(Types(), c.input_dtype(0),
                   [&]<typename T>(TypeTag<T>) { return BinaryPlan<Fn, T>(c); });
  };
}

struct IntegerDivision {
  static constexpr char kError[] = "integer division by zero; expected nonzero divisors";
};

// Rounds towards zero. The smallest integer divided by -1 wraps around instead of trapping.
struct Div : IntegerDivision {
  template <typename T>
  T operator()(T x, T y, bool& bad) const {
    if constexpr (std::is_integral_v<T>) {
      bad |= y == 0;
      if (y == 0) return 0;
      if (std::is_signed_v<T> && y == T(-1)) return static_cast<T>(-Wrapping(x));
    }
    return static_cast<T>(x / y);
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_BINARY_LOOPS_H_
