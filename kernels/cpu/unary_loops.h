// SPDX-License-Identifier: Apache-2.0
//
// Kernel factories for tables of element-wise formulas with one operand: Scalars(), Vectors() and
// WideVectors().
#ifndef MIRRORFLOW_KERNELS_CPU_UNARY_LOOPS_H_
#define MIRRORFLOW_KERNELS_CPU_UNARY_LOOPS_H_

#include <type_traits>

#include "kernels/cpu/libmvec.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

inline bool SameSize(const KernelContext& c) {
  return DataTypeSize(c.input_dtype(0)) == DataTypeSize(c.output_dtype(0));
}

template <typename Run>
KernelPlan UnaryPlan(const KernelContext& c, Run run) {
  KernelPlan plan;
  const int64_t n = c.output_shape(0).num_elements();
  plan.kernel = MakeKernel([n, run](const KernelArgs& args) { run(args, n); });
  if (SameSize(c)) plan.in_place = {{0, 0}};
  return plan;
}

// Computes y[i] = Fn(x[i]) for arithmetic that the compiler vectorises.
template <typename Types, typename Fn>
KernelFactory Scalars(Types, Fn) {
  return [](const KernelContext& c) {
    return ForType(Types(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
      using Value = decltype(Fn{}(T()));
      using R = std::conditional_t<std::is_same_v<Value, bool>, bool, T>;
      return UnaryPlan(c, [](const KernelArgs& args, int64_t n) {
        const T* x = args.input<T>(0);
        R* y = args.output<R>(0);
        MF_INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<R>(Fn{}(x[i]));
      });
    });
  };
}

// Like Scalars(), for a formula of vectors (libmvec.h).
template <typename Types, typename Fn>
KernelFactory Vectors(Types, Fn) {
  return [](const KernelContext& c) {
    return ForType(Types(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
      return UnaryPlan(c, [](const KernelArgs& args, int64_t n) {
        libmvec::ForEachVector(args.input<T>(0), args.output<T>(0), n, Fn{});
      });
    });
  };
}

// Like Vectors() for doubles. For floats, the compiler vectorises the scalar formula `FloatFn`,
// with AVX-512 if the processor has it. Both formulas must be MF_INLINE.
template <typename FloatFn, typename DoubleFn>
KernelFactory WideVectors(FloatFn, DoubleFn) {
  return [](const KernelContext& c) {
    if (c.input_dtype(0) != DT_FLOAT) return Vectors(TypeList<double>(), DoubleFn())(c);
    return absl::StatusOr<KernelPlan>(UnaryPlan(c, [](const KernelArgs& args, int64_t n) {
      const float* const x = args.input<float>(0);
      float* const y = args.output<float>(0);
      WithWidestVectors([=]() MF_INLINE {
        MF_INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < n; ++i) y[i] = FloatFn{}(x[i]);
      });
    }));
  };
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_UNARY_LOOPS_H_
