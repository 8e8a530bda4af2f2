// SPDX-License-Identifier: Apache-2.0
//
// Reductions along given dimensions on the CPU: a table of ops.
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cpu/reducer.h"
#include "kernels/cpu/type_list.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

absl::StatusOr<ReductionOperands> OperandsOf(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDimsMask(in.rank(), axes));
  return ReductionOperands{CollapseDims(in, reduced), in.num_elements(),
                           c.output_shape(0).num_elements()};
}

template <template <typename> typename Op, typename Types>
absl::StatusOr<KernelPlan> CreateReduction(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ReductionOperands operands, OperandsOf(c));
  return ForType(Types(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return ReductionPlan<T, T, Op>(operands, [](T result) { return result; });
  });
}

// The mean of no elements is 0/0. That is NaN for floating-point types, and 0 for integers,
// which have no NaN.
absl::StatusOr<KernelPlan> CreateMean(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ReductionOperands operands, OperandsOf(c));
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    using A = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    const int64_t count = operands.out_size > 0 ? operands.in_size / operands.out_size : 0;
    return ReductionPlan<T, A, SumOf>(operands, [count](A sum) {
      if (std::is_integral_v<T> && count == 0) return T(0);
      return static_cast<T>(sum / static_cast<A>(count));
    });
  });
}

// Integer norms are rounded towards zero. If their sum of squares wraps around to a negative
// number, the norm is the smallest integer, as on x86.
absl::StatusOr<KernelPlan> CreateEuclideanNorm(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ReductionOperands operands, OperandsOf(c));
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return ReductionPlan<T, T, SumOfSquares>(operands, [](T sum) {
      if (std::is_integral_v<T> && sum < 0) return std::numeric_limits<T>::min();
      return static_cast<T>(std::sqrt(sum));
    });
  });
}

}  // namespace

void RegisterReductionCpu(KernelRegistry& kernels) {
  kernels.Register("All", "CPU", CreateReduction<AllOf, BoolTypes>);
  kernels.Register("Any", "CPU", CreateReduction<AnyOf, BoolTypes>);
  kernels.Register("EuclideanNorm", "CPU", CreateEuclideanNorm);
  kernels.Register("Max", "CPU", CreateReduction<MaxOf, NumericTypes>);
  kernels.Register("Mean", "CPU", CreateMean);
  kernels.Register("Min", "CPU", CreateReduction<MinOf, NumericTypes>);
  kernels.Register("Prod", "CPU", CreateReduction<ProdOf, NumericTypes>);
  kernels.Register("Sum", "CPU", CreateReduction<SumOf, NumericTypes>);
}

}  // namespace mirrorflow
