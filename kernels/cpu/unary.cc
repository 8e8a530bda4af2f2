// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops with one operand on the CPU: a table of formulas.
#include <cmath>
#include <type_traits>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/unary_loops.h"

namespace mirrorflow {
void RegisterUnaryCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;
  constexpr SignedTypes kSigned;
  constexpr NumericTypes kNumeric;

  add("Abs", Scalars(kSigned, [](auto x) {
        if constexpr (std::is_floating_point_v<decltype(x)>) {
          return std::abs(x);  // also correct for -0
        } else {
          return x < 0 ? -Wrapping(x) : Wrapping(x);
        }
      }));
  add("Ceil", Scalars(kFloating, [](auto x) { return std::ceil(x); }));
  add("Cos", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::cos(x); }));
  add("Exp", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::exp(x); }));
  add("Expm1", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::expm1(x); }));
  add("Floor", Scalars(kFloating, [](auto x) { return std::floor(x); }));
  const auto reciprocal = Scalars(kFloating, [](auto x) { return 1 / x; });
  add("Inv", reciprocal);
  add("IsFinite", Scalars(kFloating, [](auto x) { return x - x == 0; }));
  add("IsInf", Scalars(kFloating, [](auto x) { return x == x && x - x != 0; }));
  add("IsNan", Scalars(kFloating, [](auto x) { return x != x; }));
  add("Log", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::log(x); }));
  add("Log1p", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::log1p(x); }));
  add("LogicalNot", Scalars(BoolTypes(), [](bool x) { return !x; }));
  add("Neg", Scalars(kSigned, [](auto x) { return -Wrapping(x); }));
  add("OnesLike", Scalars(AllTypes(), [](auto x) { return decltype(x)(1); }));
  add("Reciprocal", reciprocal);
  // `x > 0 ? x : 0` would turn NaN into 0. The result is never -0.
  add("Relu", Scalars(kNumeric, [](auto x) { return x <= 0 ? decltype(x)(0) : x; }));
  // The processor rounds halves to even.
  add("Rint", Scalars(kFloating, [](auto x) { return std::nearbyint(x); }));
  add("Round", Scalars(kSigned, [](auto x) {
        if constexpr (std::is_floating_point_v<decltype(x)>) return std::nearbyint(x);
        return x;
      }));
  add("Rsqrt", Scalars(kFloating, [](auto x) { return 1 / std::sqrt(x); }));
  add("Sigmoid", WideVectors([](float x) MF_INLINE { return Logistic(x); },
                             [](auto x) MF_INLINE { return 1 / (1 + libmvec::exp(-x)); }));
  // NaN stays NaN.
  add("Sign", Scalars(kSigned, [](auto x) {
        using T = decltype(x);
        return x > 0 ? T(1) : x < 0 ? T(-1) : x;
      }));
  add("Sin", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::sin(x); }));
  add("Sqrt", Scalars(kFloating, [](auto x) { return std::sqrt(x); }));
  add("Square", Scalars(kNumeric, [](auto x) { return Wrapping(x) * Wrapping(x); }));
  add("Tanh", WideVectors([](float x) MF_INLINE { return Tanh(x); },
                          [](auto x) MF_INLINE { return libmvec::tanh(x); }));
  add("ZerosLike", Scalars(AllTypes(), [](auto x) { return decltype(x)(0); }));
}

}  // namespace mirrorflow
