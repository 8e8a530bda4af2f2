// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops with two operands on the CPU: a table of formulas, applied to runs of elements.
#include <cmath>
#include <type_traits>

#include "kernels/cpu/binary_loops.h"

namespace mirrorflow {
namespace {

// If incompatible_shape_error is false, the shapes need not broadcast. If they do not, the operands
// compare unequal as a whole, and the result is a scalar.
template <bool kEqual>
absl::StatusOr<KernelPlan> CreateEqual(const KernelContext& c) {
  if (!BroadcastShapes(c.input_shape(0), c.input_shape(1)).ok()) {
    return KernelPlan{
        .kernel = MakeKernel([](const KernelArgs& args) { *args.output<bool>(0) = !kEqual; })};
  }
  return Binary(AllTypes(), [](auto x, auto y) { return (x == y) == kEqual; })(c);
}

// Also rounds floating-point quotients towards zero.
struct TruncateDiv : IntegerDivision {
  template <typename T>
  T operator()(T x, T y, bool& bad) const {
    if constexpr (std::is_integral_v<T>) return Div()(x, y, bad);
    return std::trunc(x / y);
  }
};

struct TruncateMod : IntegerDivision {
  template <typename T>
  T operator()(T x, T y, bool& bad) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(Wrapping(x) - Wrapping(Div()(x, y, bad)) * Wrapping(y));
    } else {
      return std::fmod(x, y);
    }
  }
};

struct FloorDiv : IntegerDivision {
  template <typename T>
  T operator()(T x, T y, bool& bad) const {
    if constexpr (std::is_integral_v<T>) {
      const T q = Div()(x, y, bad);
      // Div rounds a negative inexact quotient up, which makes it one too large.
      const bool inexact = y != 0 && static_cast<T>(Wrapping(q) * Wrapping(y)) != x;
      return inexact && (x < 0) != (y < 0) ? q - 1 : q;
    } else {
      return std::floor(x / y);
    }
  }
};

struct FloorMod : IntegerDivision {
  template <typename T>
  T operator()(T x, T y, bool& bad) const {
    if constexpr (std::is_integral_v<T>) {
      const T q = FloorDiv()(x, y, bad);
      return static_cast<T>(Wrapping(x) - Wrapping(q) * Wrapping(y));
    } else {
      const T m = std::fmod(x, y);
      return m != 0 && (m < 0) != (y < 0) ? m + y : m;
    }
  }
};

struct Pow {
  static constexpr char kError[] =
      "integer raised to a negative power; expected exponents of at least 0";

  template <typename T>
  T operator()(T x, T y, bool& bad) const {
    if constexpr (std::is_integral_v<T>) {
      bad |= y < 0;
      auto result = Wrapping(T(1)), factor = Wrapping(x);
      // Invariant: the power is result * factor^y.
      for (; y > 0; y >>= 1, factor *= factor) {
        if (y & 1) result *= factor;
      }
      return static_cast<T>(result);
    } else {
      return std::pow(x, y);
    }
  }
};

}  // namespace

void RegisterBinaryCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;
  constexpr SignedTypes kSigned;
  constexpr NumericTypes kNumeric;

  const auto sum = [](auto x, auto y) { return Wrapping(x) + Wrapping(y); };
  add("Add", Binary(kNumeric, sum));
  add("AddV2", Binary(kNumeric, sum));
  add("Div", Binary(kNumeric, Div()));
  add("DivNoNan",
      Binary(kFloating, [](auto x, auto y) { return y == 0 ? decltype(x)(0) : x / y; }));
  add("Equal", CreateEqual<true>);
  add("FloorDiv", Binary(kNumeric, FloorDiv()));
  add("FloorMod", Binary(kNumeric, FloorMod()));
  add("Greater", Binary(kNumeric, [](auto x, auto y) { return x > y; }));
  add("GreaterEqual", Binary(kNumeric, [](auto x, auto y) { return x >= y; }));
  add("Less", Binary(kNumeric, [](auto x, auto y) { return x < y; }));
  add("LessEqual", Binary(kNumeric, [](auto x, auto y) { return x <= y; }));
  add("LogicalAnd", Binary(BoolTypes(), [](bool x, bool y) -> bool { return x & y; }));
  add("LogicalOr", Binary(BoolTypes(), [](bool x, bool y) -> bool { return x | y; }));
  // A NaN operand wins: both tests fail if only y is NaN, and the second succeeds if x is NaN.
  add("Maximum", Binary(kNumeric, [](auto x, auto y) { return x > y || x != x ? x : y; }));
  add("Minimum", Binary(kNumeric, [](auto x, auto y) { return x < y || x != x ? x : y; }));
  add("Mod", Binary(kSigned, TruncateMod()));
  add("Mul", Binary(kNumeric, [](auto x, auto y) { return Wrapping(x) * Wrapping(y); }));
  add("NotEqual", CreateEqual<false>);
  add("Pow", Binary(kSigned, Pow()));
  add("RealDiv", Binary(kFloating, [](auto x, auto y) { return x / y; }));
  add("SquaredDifference", Binary(kSigned, [](auto x, auto y) {
        const auto d = Wrapping(x) - Wrapping(y);
        return d * d;
      }));
  add("Sub", Binary(kNumeric, [](auto x, auto y) { return Wrapping(x) - Wrapping(y); }));
  add("TruncateDiv", Binary(kNumeric, TruncateDiv()));
  add("TruncateMod", Binary(kSigned, TruncateMod()));
}

}  // namespace mirrorflow
