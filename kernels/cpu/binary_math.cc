// SPDX-License-Identifier: Apache-2.0
//
// Mathematical functions with two operands on the CPU: quotients and logarithms that are defined at
// 0, angles, and gamma functions.
#include <cmath>
#include <limits>

#include "kernels/cpu/binary_loops.h"
#include "unsupported/Eigen/SpecialFunctions"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateApproximateEqual(const KernelContext& c) {
  const int64_t n = c.output_shape(0).num_elements();
  const float limit = c.node().attr<float>("tolerance");
  return ForType(FloatingTypes(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
    return KernelPlan{
        .kernel = MakeKernel([n, tolerance = static_cast<T>(limit)](const KernelArgs& args) {
          const T *x = args.input<T>(0), *y = args.input<T>(1);
          bool* z = args.output<bool>(0);
          MF_INDEPENDENT_ITERATIONS
          for (int64_t i = 0; i < n; ++i) z[i] = std::abs(x[i] - y[i]) < tolerance;
        })};
  });
}

// Eigen's polygamma is NaN at infinity, where every derivative tends to 0.
template <typename T>
T Polygamma(T a, T x) {
  const bool falls = a >= 1 && std::floor(a) == a && x == std::numeric_limits<T>::infinity();
  return falls ? T(0) : Eigen::numext::polygamma(a, x);
}

}  // namespace

void RegisterBinaryMathCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr FloatingTypes kFloating;

  add("ApproximateEqual", CreateApproximateEqual);
  add("Atan2", Binary(kFloating, [](auto y, auto x) { return std::atan2(y, x); }));
  add("MulNoNan",
      Binary(kFloating, [](auto x, auto y) { return y == 0 ? decltype(x)(0) : x * y; }));
  add("NextAfter", Binary(kFloating, [](auto x1, auto x2) { return std::nextafter(x1, x2); }));
  add("Polygamma", Binary(kFloating, [](auto a, auto x) { return Polygamma(a, x); }));
  add("Xdivy", Binary(kFloating, [](auto x, auto y) { return x == 0 ? x : x / y; }));
  add("Xlog1py", Binary(kFloating, [](auto x, auto y) { return x == 0 ? x : x * std::log1p(y); }));
  add("Xlogy", Binary(kFloating, [](auto x, auto y) { return x == 0 ? x : x * std::log(y); }));
}

}  // namespace mirrorflow
