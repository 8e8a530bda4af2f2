// SPDX-License-Identifier: Apache-2.0
//
// Formulas of the element-wise ops, named after the ops. Each formula is a template for all types
// that it supports; 16-bit floats are passed as float.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_MATH_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_MATH_CUH_

#include "base.cuh"

#define MF_UNARY(Name)  \
  template <typename T> \
  __device__ inline auto Name(T x)
#define MF_BINARY(Name) \
  template <typename T> \
  __device__ inline auto Name(T x, T y)

namespace op {

template <typename T>
constexpr bool kFloating = Traits<T>::kIsFloating;

// ---- One operand ----

MF_UNARY(Abs) {
  if constexpr (kFloating<T>) {
    return fabs(x);
  } else {
    return x < 0 ? static_cast<T>(-x) : x;
  }
}
MF_UNARY(Acos) { return acos(x); }
MF_UNARY(Acosh) { return acosh(x); }
MF_UNARY(Asin) { return asin(x); }
MF_UNARY(Asinh) { return asinh(x); }
MF_UNARY(Atan) { return atan(x); }
MF_UNARY(Atanh) { return atanh(x); }
MF_UNARY(Ceil) { return ceil(x); }
MF_UNARY(Cos) { return cos(x); }
MF_UNARY(Cosh) { return cosh(x); }
MF_UNARY(Erf) { return erf(x); }
MF_UNARY(Erfc) { return erfc(x); }
MF_UNARY(Exp) { return exp(x); }
MF_UNARY(Expm1) { return expm1(x); }
MF_UNARY(Floor) { return floor(x); }
MF_UNARY(Inv) { return T(1) / x; }
MF_UNARY(Invert) { return static_cast<T>(~x); }
MF_UNARY(IsFinite) { return x - x == 0; }
MF_UNARY(IsInf) { return x == x && x - x != 0; }
MF_UNARY(IsNan) { return x != x; }
MF_UNARY(Lgamma) { return lgamma(x); }
MF_UNARY(Log) { return log(x); }
MF_UNARY(Log1p) { return log1p(x); }
MF_UNARY(LogicalNot) { return !x; }
MF_UNARY(Neg) { return static_cast<T>(-x); }
MF_UNARY(OnesLike) { return T(1); }
MF_UNARY(Reciprocal) { return T(1) / x; }
// `x > 0 ? x : 0` would turn NaN into 0.
MF_UNARY(Relu) { return x <= 0 ? T(0) : x; }
MF_UNARY(Relu6) { return x < 0 ? T(0) : x > 6 ? T(6) : x; }
// Rounds halves to even.
MF_UNARY(Rint) { return rint(x); }
MF_UNARY(Round) {
  if constexpr (kFloating<T>) {
    return rint(x);
  } else {
    return x;
  }
}
MF_UNARY(Rsqrt) { return T(1) / sqrt(x); }
MF_UNARY(Sigmoid) { return T(1) / (T(1) + exp(-x)); }
// NaN stays NaN.
MF_UNARY(Sign) { return x > 0 ? T(1) : x < 0 ? static_cast<T>(-1) : x; }
MF_UNARY(Sin) { return sin(x); }
MF_UNARY(Sinh) { return sinh(x); }
MF_UNARY(Softsign) { return x / (T(1) + fabs(x)); }
MF_UNARY(Sqrt) { return sqrt(x); }
MF_UNARY(Square) { return static_cast<T>(x * x); }
MF_UNARY(Tan) { return tan(x); }
MF_UNARY(Tanh) { return tanh(x); }
MF_UNARY(ZerosLike) { return T(0); }

MF_UNARY(Elu) { return x < 0 ? expm1(x) : x; }
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;
MF_UNARY(Selu) { return x < 0 ? T(kSeluScaleAlpha) * expm1(x) : T(kSeluScale) * x; }
// Computed as max(x, 0) + log(1 + e^-|x|), which cannot overflow. A subnormal tail is treated as 0.
MF_UNARY(Softplus) {
  const T tail = exp(-fabs(x));
  return (x < 0 ? T(0) : x) + (tail < Traits<T>::kSmallest ? T(0) : log1p(tail));
}
template <typename T>
__device__ inline T LeakyRelu(T x, float alpha) {
  return x > 0 ? x : x * static_cast<T>(alpha);
}

// Returns x times the normal distribution function, computed with erfc, which keeps its
// precision in the tail.
MF_UNARY(Gelu) { return x * (T(0.5) * erfc(x * T(-0.70710678118654752440))); }
constexpr double kTwoRoots = 1.59576912160573071176;  // 2 * sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;
// Uses (1 + tanh(w / 2)) / 2 = 1 / (1 + e^-w).
MF_UNARY(GeluExponent) { return x * (T(kTwoRoots) + T(kTwoRoots * kGeluCubic) * x * x); }
MF_UNARY(ApproximateGelu) { return x / (T(1) + exp(-GeluExponent(x))); }

// The derivative of Lgamma. Uses the recurrence until the asymptotic series is accurate, and
// reflection below 0 (Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18).
MF_UNARY(Digamma) {
  double v = x, sum = 0;
  if (v <= 0) {
    if (floor(v) == v) return T(BitsToFloat(0x7fc00000));
    sum = 3.14159265358979323846 / tan(3.14159265358979323846 * v);
    v = 1 - v;
  }
  for (; v < 10; v += 1) sum += 1 / v;
  const double r = 1 / (v * v);
  const double series =
      r *
      (1.0 / 12 -
       r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * 691.0 / 32760)))));
  return static_cast<T>(log(v) - 0.5 / v - series - sum);
}

// ---- Two operands ----

MF_BINARY(Add) { return static_cast<T>(x + y); }
MF_BINARY(AddV2) { return static_cast<T>(x + y); }
MF_BINARY(Atan2) { return atan2(x, y); }
MF_BINARY(BitwiseAnd) { return static_cast<T>(x & y); }
MF_BINARY(BitwiseOr) { return static_cast<T>(x | y); }
MF_BINARY(BitwiseXor) { return static_cast<T>(x ^ y); }
// Rounds integers towards zero. Division by 0 gives 0, and the caller reports it. The smallest
// integer divided by -1 wraps around.
MF_BINARY(Div) {
  if constexpr (kFloating<T>) {
    return x / y;
  } else {
    if (y == 0) return T(0);
    if (Traits<T>::kIsSigned && y == static_cast<T>(-1)) return static_cast<T>(T(0) - x);
    return static_cast<T>(x / y);
  }
}
MF_BINARY(DivNoNan) { return y == 0 ? T(0) : x / y; }
MF_BINARY(Equal) { return x == y; }
MF_BINARY(FloorDiv) {
  if constexpr (kFloating<T>) {
    return floor(x / y);
  } else {
    const T q = Div(x, y);
    const bool inexact = y != 0 && static_cast<T>(q * y) != x;
    return inexact && (x < 0) != (y < 0) ? static_cast<T>(q - 1) : q;
  }
}
MF_BINARY(FloorMod) {
  if constexpr (kFloating<T>) {
    const T m = fmod(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
  } else {
    return static_cast<T>(x - FloorDiv(x, y) * y);
  }
}
MF_BINARY(Greater) { return x > y; }
MF_BINARY(GreaterEqual) { return x >= y; }
MF_BINARY(Less) { return x < y; }
MF_BINARY(LessEqual) { return x <= y; }
MF_BINARY(LogicalAnd) { return x && y; }
MF_BINARY(LogicalOr) { return x || y; }
// Propagates NaN: both comparisons are false if y is NaN, and the second is true if x is NaN.
MF_BINARY(Maximum) { return x > y || x != x ? x : y; }
MF_BINARY(Minimum) { return x < y || x != x ? x : y; }
MF_BINARY(Mul) { return static_cast<T>(x * y); }
MF_BINARY(MulNoNan) { return y == 0 ? T(0) : x * y; }
MF_BINARY(NextAfter) { return nextafter(x, y); }
MF_BINARY(NotEqual) { return x != y; }
MF_BINARY(Pow) {
  if constexpr (kFloating<T>) {
    return pow(x, y);
  } else {
    T result = 1;
    // invariant: the power is result * x^y
    for (; y > 0; y >>= 1, x = static_cast<T>(x * x)) {
      if (y & 1) result = static_cast<T>(result * x);
    }
    return result;
  }
}
MF_BINARY(RealDiv) { return x / y; }
template <typename T>
__device__ inline int ShiftOf(T y) {
  return y < 0 ? 0 : y >= Traits<T>::kBits ? Traits<T>::kBits - 1 : static_cast<int>(y);
}
MF_BINARY(LeftShift) { return static_cast<T>(static_cast<uint64>(x) << ShiftOf(y)); }
MF_BINARY(RightShift) { return static_cast<T>(x >> ShiftOf(y)); }
MF_BINARY(SquaredDifference) { return static_cast<T>((x - y) * (x - y)); }
MF_BINARY(Sub) { return static_cast<T>(x - y); }
MF_BINARY(TruncateDiv) {
  if constexpr (kFloating<T>) {
    return trunc(x / y);
  } else {
    return Div(x, y);
  }
}
MF_BINARY(TruncateMod) {
  if constexpr (kFloating<T>) {
    return fmod(x, y);
  } else {
    return static_cast<T>(x - Div(x, y) * y);
  }
}
MF_BINARY(Mod) { return TruncateMod(x, y); }
MF_BINARY(Xdivy) { return x == 0 ? x : x / y; }
MF_BINARY(Xlog1py) { return x == 0 ? x : x * log1p(y); }
MF_BINARY(Xlogy) { return x == 0 ? x : x * log(y); }
template <typename T>
__device__ inline bool ApproximateEqual(T x, T y, float tolerance) {
  return fabs(x - y) < static_cast<T>(tolerance);
}

// Returns the sum over all k >= 0 of 1 / (x + k)^s, from the Euler-Maclaurin formula (NIST
// DLMF 25.11.28).
__device__ inline double HurwitzZeta(double s, double x) {
  double sum = 0;
  for (int k = 0; k < 12; ++k, x += 1) sum += pow(x, -s);
  double term = pow(x, -s);
  sum += x * term / (s - 1) + 0.5 * term;
  // Bernoulli numbers over factorials: B2 / 2!, B4 / 4!, …
  constexpr double kB[] = {1.0 / 12,           -1.0 / 720,     1.0 / 30240,
                           -1.0 / 1209600,     1.0 / 47900160, -691.0 / 1307674368000.0,
                           1.0 / 74724249600.0};
  double factor = s * term / x;
  for (int j = 0; j < 7; ++j) {
    sum += kB[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / (x * x);
  }
  return sum;
}
// The x-th derivative of Digamma at y.
MF_BINARY(Polygamma) {
  const double order = x, at = y;
  const T nan = T(BitsToFloat(0x7fc00000));
  if (!(order >= 0) || floor(order) != order) return nan;
  if (order == 0) return Digamma(y);
  if (at == Traits<double>::Highest()) return T(0);
  // The value at a pole is infinite if both one-sided limits are the same infinity.
  if (at <= 0 && floor(at) == at) return fmod(order, 2.0) == 1 ? Traits<T>::Highest() : nan;
  if (!(at > 0)) return nan;
  const double sign = fmod(order, 2.0) == 1 ? 1 : -1;
  return static_cast<T>(sign * exp(lgamma(order + 1)) * HurwitzZeta(order + 1, at));
}

// ---- Gradients ----

// The gradients of y = op(x) take dy and either y or x, in the order of the op's operands.
template <typename T>
__device__ inline T EluGrad(T dy, T y) {
  return y < 0 ? (y + 1) * dy : dy;
}
template <typename T>
__device__ inline T GeluGrad(T dy, T x) {
  const T density = T(0.39894228040143267794) * exp(T(-0.5) * x * x);
  return dy * (T(0.5) * erfc(x * T(-0.70710678118654752440)) + x * density);
}
template <typename T>
__device__ inline T ApproximateGeluGrad(T dy, T x) {
  // The exponent is never positive, so nothing overflows.
  const T w = GeluExponent(x), e = exp(-fabs(w)), d = T(1) / (T(1) + e);
  const T slope = T(kTwoRoots) + T(3 * kTwoRoots * kGeluCubic) * x * x;
  return dy * ((w < 0 ? e : T(1)) * d + x * (e * d * d * slope));
}
template <typename T>
__device__ inline T LeakyReluGrad(T dy, T x, float alpha) {
  return x > 0 ? dy : dy * static_cast<T>(alpha);
}
template <typename T>
__device__ inline T ReciprocalGrad(T y, T dy) {
  return -dy * y * y;
}
// Multiplies instead of selecting, so that an infinite or NaN gradient propagates.
template <typename T>
__device__ inline T ReluGrad(T dy, T x) {
  return static_cast<T>(dy * (x > 0 ? T(1) : T(0)));
}
template <typename T>
__device__ inline T Relu6Grad(T dy, T x) {
  return static_cast<T>(dy * (x > 0 && x < 6 ? T(1) : T(0)));
}
template <typename T>
__device__ inline T RsqrtGrad(T y, T dy) {
  return T(-0.5) * dy * (y * y * y);
}
template <typename T>
__device__ inline T SeluGrad(T dy, T y) {
  return y < 0 ? dy * (y + T(kSeluScaleAlpha)) : dy * T(kSeluScale);
}
template <typename T>
__device__ inline T SigmoidGrad(T y, T dy) {
  return dy * y * (T(1) - y);
}
template <typename T>
__device__ inline T SoftplusGrad(T dy, T x) {
  return dy / (exp(-x) + T(1));
}
template <typename T>
__device__ inline T SoftsignGrad(T dy, T x) {
  const T d = T(1) + fabs(x);
  return dy / (d * d);
}
template <typename T>
__device__ inline T SqrtGrad(T y, T dy) {
  return T(0.5) * dy / y;
}
template <typename T>
__device__ inline T TanhGrad(T y, T dy) {
  return dy * (T(1) - y * y);
}

// ---- Others ----

// NaN fails every comparison: x stays NaN, and a NaN limit has no effect.
template <typename T>
__device__ inline T ClipByValue(T x, T low, T high) {
  const T below = high < x ? high : x;
  return below < low ? low : below;
}

// Rounds towards zero. NaN and out-of-range values become the smallest integer of the type.
template <typename To, typename From>
__device__ inline To RoundTowardsZero(From x) {
  constexpr From kLimit = From(uint64{1} << (Traits<To>::kBits - 1));
  return x >= -kLimit && x < kLimit ? static_cast<To>(x) : Traits<To>::Lowest();
}
template <typename To, typename From>
__device__ inline To Cast(From x) {
  if constexpr (Same<To, bool>::kValue) {
    return x != 0;
  } else if constexpr (kFloating<From> && !kFloating<To>) {
    if constexpr (sizeof(To) < 4) {
      return static_cast<To>(RoundTowardsZero<int>(x));
    } else if constexpr (Traits<To>::kIsSigned) {
      return RoundTowardsZero<To>(x);
    } else if constexpr (sizeof(To) == 4) {
      return static_cast<To>(RoundTowardsZero<int64>(x));
    } else {
      constexpr From kHalf = From(uint64{1} << 63);
      const auto low = static_cast<uint64>(RoundTowardsZero<int64>(x < kHalf ? x : x - kHalf));
      return x < kHalf ? low : low ^ uint64 { 1 } << 63;
    }
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace op

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_MATH_CUH_
