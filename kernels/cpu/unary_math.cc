// SPDX-License-Identifier: Apache-2.0
//
// Trigonometric, hyperbolic, error and gamma functions on the CPU.
#include <cmath>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/unary_loops.h"
#include "unsupported/Eigen/SpecialFunctions"

namespace mirrorflow {
namespace {

// Computes a quotient of two polynomials on [-4, 4], as in Eigen, within four units in the last
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

inline double Erf(double x) { return std::erf(x); }

MF_INLINE inline float Erfc(float x) {
  const float square = x * x;
  const float y = ErfcOfNonNegative(std::abs(x), square, std::fma(x, x, -square));
  return x < 0 ? 2.0f - y : y;
}
inline double Erfc(double x) { return std::erfc(x); }

// Computes the digamma function. Returns NaN at the poles, because the two sides tend to infinities
// of opposite signs; Eigen returns one of them.
template <typename T>
T Digamma(T x) {
  const bool pole = x <= 0 && std::floor(x) == x;
  return pole ? std::numeric_limits<T>::quiet_NaN() : Eigen::numext::digamma(x);
}

}  // namespace

void RegisterUnaryMathCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;

  add("Acos", Scalars(kFloating, [](auto x) { return std::acos(x); }));
  add("Acosh", Scalars(kFloating, [](auto x) { return std::acosh(x); }));
  add("Asin", Scalars(kFloating, [](auto x) { return std::asin(x); }));
  add("Asinh", Scalars(kFloating, [](auto x) { return std::asinh(x); }));
  add("Atan", Scalars(kFloating, [](auto x) { return std::atan(x); }));
  add("Atanh", Scalars(kFloating, [](auto x) { return std::atanh(x); }));
  add("Cosh", Scalars(kFloating, [](auto x) { return std::cosh(x); }));
  add("Digamma", Scalars(kFloating, [](auto x) { return Digamma(x); }));
  add("Erf", WideScalars(kFloating, [](auto x) MF_INLINE { return Erf(x); }));
  add("Erfc", WideScalars(kFloating, [](auto x) MF_INLINE { return Erfc(x); }));
  // Avoids std::lgamma, which writes a global variable: kernels run on several threads.
  add("Lgamma", Scalars(kFloating, [](auto x) { return Eigen::numext::lgamma(x); }));
  add("Sinh", Scalars(kFloating, [](auto x) { return std::sinh(x); }));
  add("Tan", Scalars(kFloating, [](auto x) { return std::tan(x); }));
}

}  // namespace mirrorflow
