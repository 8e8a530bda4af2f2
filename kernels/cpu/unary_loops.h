// SPDX-License-Identifier: Apache-2.0
//
// Loops for tables of element-wise formulas with one operand. Scalars(), WideScalars() and Blocks()
// return the kernel factory for one formula.
#ifndef MIRRORFLOW_KERNELS_CPU_UNARY_LOOPS_H_
#define MIRRORFLOW_KERNELS_CPU_UNARY_LOOPS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "Eigen/Core"
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

// Like Scalars(), for a formula that takes longer than reading its operand. `Fn` must be MF_INLINE.
template <typename Types, typename Fn>
KernelFactory WideScalars(Types, Fn) {
  return [](const KernelContext& c) {
    return ForType(Types(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
      return UnaryPlan(c, [](const KernelArgs& args, int64_t n) {
        const T* const x = args.input<T>(0);
        T* const y = args.output<T>(0);
        WithWidestVectors([=]() MF_INLINE {
          MF_INDEPENDENT_ITERATIONS
          for (int64_t i = 0; i < n; ++i) y[i] = Fn{}(x[i]);
        });
      });
    });
  };
}

// Like Scalars(), for an expression of Eigen arrays. Eigen receives only blocks of a fixed size. In
// an array of n elements, it would use a different formula, with different last digits, for the
// elements before and after the aligned vectors, so results would depend on an element's position.
template <typename Fn>
KernelFactory Blocks(Fn) {
  return [](const KernelContext& c) {
    return ForType(FloatingTypes(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
      constexpr int kBlock = 64 / sizeof(T);
      using Block = Eigen::Array<T, kBlock, 1>;
      return UnaryPlan(c, [](const KernelArgs& args, int64_t n) {
        const T* x = args.input<T>(0);
        T* y = args.output<T>(0);
        int64_t i = 0;
        for (; i + kBlock <= n; i += kBlock) {
          Eigen::Map<Block>(y + i) = Fn{}(Eigen::Map<const Block>(x + i));
        }
        if (i == n) return;
        // The block is padded with copies of one element, so that a single element, which is common
        // in small steps, goes straight from memory into a register.
        Block tail = Block::Constant(x[i]);
        if (i + 1 < n) std::copy(x + i, x + n, tail.data());
        tail = Fn{}(tail).eval();
        y[i] = tail[0];
        if (i + 1 < n) std::copy(tail.data() + 1, tail.data() + (n - i), y + i + 1);
      });
    });
  };
}

// Returns e^x for a block. Unlike Eigen's exp, which never returns less than the smallest normal
// number, it underflows to 0.
template <typename Block>
auto ExpToZero(const Block& x) {
  auto y = x.exp().eval();
  using T = typename decltype(y)::Scalar;
  const T smallest = std::log(std::numeric_limits<T>::min());
  for (int i = 0; i < y.size(); ++i) y[i] = x[i] < smallest ? T(0) : y[i];
  return y;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_UNARY_LOOPS_H_
