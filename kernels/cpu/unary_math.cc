// SPDX-License-Identifier: Apache-2.0
//
// Trigonometric, hyperbolic, error and gamma functions on the CPU.
#include <immintrin.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/unary_loops.h"
#include "unsupported/Eigen/SpecialFunctions"

namespace mirrorflow {
namespace {

using libmvec::DoubleVector;
using libmvec::FloatVector;

// Computes a quotient of two polynomials on [-4, 4], as in Eigen, within six units in the last
// place. Beyond that range the result is 1 or -1 in float. Selects instead of returning early, so
// that NaN passes through and loops over it vectorise.
MF_INLINE inline float Erf(float v) {
  const float x = v > 4.0f ? 4.0f : v < -4.0f ? -4.0f : v;
  const float x2 = x * x;
  float p = x2 * -2.72614225801306e-10f + 2.77068142495902e-08f;
  p = x2 * p + -2.10102402082508e-06f;
  p = x2 * p + -5.69250639462346e-05f;
  p = x2 * p + -7.34990630326855e-04f;
  p = x2 * p + -2.95459980854025e-03f;
  p = x2 * p + -1.60960333262415e-02f;
  float q = x2 * -1.45660718464996e-05f + -2.13374055278905e-04f;
  q = x2 * q + -1.68282697438203e-03f;
  q = x2 * q + -7.37332916720468e-03f;
  q = x2 * q + -1.42647390514189e-02f;
  const float y = x * p / q;
  return y > 1.0f ? 1.0f : y < -1.0f ? -1.0f : y;
}

MF_INLINE inline float Erfc(float x) {
  const float square = x * x;
  const float y = ErfcOfNonNegative(std::abs(x), square, std::fma(x, x, -square));
  return x < 0 ? 2.0f - y : y;
}

constexpr double kPi = 3.14159265358979323846;

// In vector expressions, `condition ? a : b` selects element by element.
DoubleVector Rounded(DoubleVector x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT); }
DoubleVector Abs(DoubleVector x) { return x < 0 ? -x : x; }
bool HasNegative(DoubleVector x) { return _mm256_movemask_pd(x) != 0; }

// For floats, the gamma functions are computed in double precision, so that the rounding errors of
// differences near a root of the function are negligible. Both shift the operand to at least kShift
// by the recurrence gamma(x + 1) = x gamma(x), and use Stirling's series there.
constexpr int kShift = 8;

// Returns log gamma(x) for x >= 0.
DoubleVector LgammaOfNonNegative(DoubleVector x) {
  DoubleVector product = x * 0 + 1;
  const DoubleVector z = x < kShift ? x + kShift : x;
  for (int i = 0; i < kShift; ++i) product = x < kShift ? product * (x + i) : product;
  const DoubleVector r = 1 / z, r2 = r * r;
  // The coefficients are B(2k) / (2k (2k - 1)), where B are the Bernoulli numbers.
  DoubleVector series = r2 * (1.0 / 156) - 691.0 / 360360;
  series = series * r2 + 1.0 / 1188;
  series = series * r2 - 1.0 / 1680;
  series = series * r2 + 1.0 / 1260;
  series = series * r2 - 1.0 / 360;
  series = series * r2 + 1.0 / 12;
  constexpr double kHalfLog2Pi = 0.91893853320467274178;
  return (z - 0.5) * (libmvec::log(z) - 1) + (kHalfLog2Pi - 0.5) + series * r -
         libmvec::log(product);
}

// Uses gamma(x) gamma(-x) = -pi / (x sin(pi x)) for negative x. The poles are infinite.
DoubleVector Lgamma(DoubleVector x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const DoubleVector size = Abs(x), of_size = LgammaOfNonNegative(size);
  DoubleVector y = of_size;
  if (HasNegative(x)) {
    const DoubleVector sine = libmvec::sin(kPi * (size - Rounded(size)));
    y = x < 0 ? libmvec::log(kPi / (size * Abs(sine))) - of_size : of_size;
  }
  return size == kInfinity ? size : y;
}

// Returns NaN at the poles, because the two sides tend to infinities of opposite signs.
DoubleVector Digamma(DoubleVector x) {
  // Uses digamma(x) = digamma(1 - x) - pi / tan(pi x).
  const DoubleVector a = x < 0 ? 1 - x : x;
  const DoubleVector z = a < kShift ? a + kShift : a;
  DoubleVector y = x * 0;
  for (int i = 0; i < kShift; i += 2) {  // two terms, so that there are fewer divisions
    const DoubleVector first = a + i, second = first + 1;
    y += (first + second) / (first * second);
  }
  const DoubleVector r = 1 / z, r2 = r * r;
  // The coefficients are B(2k) / 2k.
  DoubleVector series = r2 * (-3617.0 / 8160) + 1.0 / 12;
  series = series * r2 - 691.0 / 32760;
  series = series * r2 + 1.0 / 132;
  series = series * r2 - 1.0 / 240;
  series = series * r2 + 1.0 / 252;
  series = series * r2 - 1.0 / 120;
  series = series * r2 + 1.0 / 12;
  y = libmvec::log(z) - 0.5 * r - series * r2 - (a < kShift ? y : 0);
  const DoubleVector from_pole = x - Rounded(x);
  if (HasNegative(x)) y -= x < 0 ? kPi / libmvec::tan(kPi * from_pole) : 0;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return ((x <= 0) & (from_pole == 0)) ? x * 0 + kNan : y;
}

// Applies a function of doubles to floats.
template <typename Fn>
FloatVector InDouble(FloatVector x, Fn fn) {
  using HalfVector = float __attribute__((vector_size(16)));
  const auto compute = [fn](HalfVector half) {
    return __builtin_convertvector(fn(__builtin_convertvector(half, DoubleVector)), HalfVector);
  };
  const HalfVector low = compute(__builtin_shufflevector(x, x, 0, 1, 2, 3));
  const HalfVector high = compute(__builtin_shufflevector(x, x, 4, 5, 6, 7));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}

// For doubles, the vector versions are not accurate enough near the roots.
double Digamma(double x) {
  const bool pole = x <= 0 && std::floor(x) == x;
  return pole ? std::numeric_limits<double>::quiet_NaN() : Eigen::numext::digamma(x);
}
// std::lgamma writes a global variable, and kernels run on several threads.
double Lgamma(double x) { return Eigen::numext::lgamma(x); }

// Makes the kernel of a function with two overloads: a vector of doubles, for float operands, and a
// double.
template <typename Fn>
KernelFactory GammaFunction(Fn) {
  return [](const KernelContext& c) {
    const KernelFactory create =
        c.input_dtype(0) == DT_FLOAT
            ? Vectors(TypeList<float>(), [](FloatVector x) { return InDouble(x, Fn{}); })
            : Scalars(TypeList<double>(), Fn());
    return create(c);
  };
}

}  // namespace

void RegisterUnaryMathCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;

  add("Acos", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::acos(x); }));
  add("Acosh", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::acosh(x); }));
  add("Asin", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::asin(x); }));
  add("Asinh", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::asinh(x); }));
  add("Atan", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::atan(x); }));
  add("Atanh", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::atanh(x); }));
  add("Cosh", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::cosh(x); }));
  add("Digamma", GammaFunction([](auto x) { return Digamma(x); }));
  add("Erf", WideVectors([](float x) MF_INLINE { return Erf(x); },
                         [](auto x) MF_INLINE { return libmvec::erf(x); }));
  add("Erfc", WideVectors([](float x) MF_INLINE { return Erfc(x); },
                          [](auto x) MF_INLINE { return libmvec::erfc(x); }));
  add("Lgamma", GammaFunction([](auto x) { return Lgamma(x); }));
  add("Sinh", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::sinh(x); }));
  add("Tan", Vectors(kFloating, [](auto x) MF_INLINE { return libmvec::tan(x); }));
}

}  // namespace mirrorflow
