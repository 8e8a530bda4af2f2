// SPDX-License-Identifier: Apache-2.0
//
// Gelu and its gradient on the CPU. Both forms multiply x by a distribution function, computed from
// one exponential of a non-positive number, so nothing overflows and the tail keeps its precision.
#include <cmath>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

template <typename T>
struct AtPoint {
  T cdf;      // the factor that multiplies x
  T density;  // its derivative
};

// Returns the probability that a standard normal variable exceeds |x|.
MF_INLINE inline float UpperTail(float x) {
  constexpr float kRootOfHalf = 0.70710678f;
  const float half = 0.5f * x, square = half * x;
  return 0.5f * ErfcOfNonNegative(std::abs(x) * kRootOfHalf, square, std::fma(half, x, -square));
}
inline double UpperTail(double x) { return 0.5 * std::erfc(std::abs(x) * std::sqrt(0.5)); }

struct Normal {
  template <typename T>
  MF_INLINE static T Cdf(T x) {
    const T tail = UpperTail(x);
    return x < 0 ? tail : T(1) - tail;
  }
  template <typename T>
  MF_INLINE static AtPoint<T> At(T x) {
    constexpr T kDensityAtZero = T(0.39894228040143267794);
    return {Cdf(x), kDensityAtZero * ExpOfNonPositive(T(-0.5) * x * x)};
  }
};

// Computes the tanh approximation, using (1 + tanh(w / 2)) / 2 = 1 / (1 + e^-w).
struct Approximate {
  template <typename T>
  MF_INLINE static T Cdf(T x) {
    return Logistic(Exponent(x));
  }
  template <typename T>
  MF_INLINE static AtPoint<T> At(T x) {
    const T w = Exponent(x), e = ExpOfNonPositive(-std::abs(w)), d = T(1) / (T(1) + e);
    const T slope = T(kTwoRoots) + T(3 * kTwoRoots * kCubic) * x * x;
    return {(w < 0 ? e : T(1)) * d, e * d * d * slope};
  }

 private:
  static constexpr double kTwoRoots = 1.59576912160573071176;  // 2 * sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
  template <typename T>
  MF_INLINE static T Exponent(T x) {
    return x * (T(kTwoRoots) + T(kTwoRoots * kCubic) * x * x);
  }
};

template <typename Form, typename T>
KernelPlan Gelu(int64_t n) {
  return {.kernel = MakeKernel([n](const KernelArgs& args) {
            const T* const x = args.input<T>(0);
            T* const y = args.output<T>(0);
            WithWidestVectors([=]() MF_INLINE {
              MF_INDEPENDENT_ITERATIONS
              for (int64_t i = 0; i < n; ++i) y[i] = x[i] * Form::Cdf(x[i]);
            });
          }),
          .in_place = {{0, 0}}};
}

template <typename Form, typename T>
KernelPlan GeluGrad(int64_t n) {
  return {.kernel = MakeKernel([n](const KernelArgs& args) {
            const T *const dy = args.input<T>(0), *const x = args.input<T>(1);
            T* const dx = args.output<T>(0);
            WithWidestVectors([=]() MF_INLINE {
              MF_INDEPENDENT_ITERATIONS
              for (int64_t i = 0; i < n; ++i) {
                const AtPoint<T> at = Form::At(x[i]);
                dx[i] = dy[i] * (at.cdf + x[i] * at.density);
              }
            });
          }),
          .in_place = {{0, 0}, {1, 0}}};
}

// Returns make(form, type tag, element count) for the form and dtype of the node.
template <typename Make>
absl::StatusOr<KernelPlan> Create(const KernelContext& c, Make make) {
  const int64_t n = c.output_shape(0).num_elements();
  return ForType(FloatingTypes(), c.output_dtype(0), [&](auto tag) {
    return c.attr<bool>("approximate") ? make(Approximate(), tag, n) : make(Normal(), tag, n);
  });
}

}  // namespace

void RegisterGeluCpu(KernelRegistry& kernels) {
  kernels.Register("Gelu", "CPU", [](const KernelContext& c) {
    return Create(c, [](auto form, auto tag, int64_t n) {
      return Gelu<decltype(form), typename decltype(tag)::type>(n);
    });
  });
  kernels.Register("GeluGrad", "CPU", [](const KernelContext& c) {
    return Create(c, [](auto form, auto tag, int64_t n) {
      return GeluGrad<decltype(form), typename decltype(tag)::type>(n);
    });
  });
}

}  // namespace mirrorflow
