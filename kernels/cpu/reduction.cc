// SPDX-License-Identifier: Apache-2.0
//
// Reductions along given dimensions on the CPU: a table of ops.
#include <algorithm>
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

// Returns make(operands), a plan that threads can divide by columns if the results are one row,
// which combines the rows of the input.
template <typename Make>
absl::StatusOr<KernelPlan> WithOperands(const KernelContext& c, Make make) {
  const Shape& in = c.input_shape(0);
  const DimRange* const part = c.part();
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedDimsMask(in.rank(), axes));
  const KernelContext& all = part != nullptr ? c.undivided() : c;
  ReductionOperands operands{CollapseDims(in, reduced), in.num_elements(),
                             all.output_shape(0).num_elements()};
  const bool has_columns = operands.out_size < operands.in_size && operands.dims.kept.empty() &&
                           !operands.dims.inner_is_reduced;
  if (!has_columns) return make(operands);
  int dim = 0, out_dim = 0;  // the first dimension of the columns
  for (; reduced[dim] || in.dim(dim) == 1; ++dim) {
    if (!reduced[dim] || c.attr<bool>("keep_dims")) ++out_dim;
  }
  const int64_t per_index = in.num_elements_from(dim + 1);  // columns
  if (part != nullptr) operands.dims.columns = part->count * per_index;
  MF_ASSIGN_OR_RETURN(KernelPlan plan, make(operands));
  constexpr int64_t kLeastColumns = 16;
  plan.divisible_dims = {{.dim = out_dim,
                          .multiple = std::max<int64_t>(kLeastColumns / per_index, 1),
                          .divided_inputs = {0}}};
  if (part != nullptr) plan.part_inputs = {{0, {dim, part->first, part->count}}};
  return plan;
}

template <template <typename> typename Op, typename Types>
absl::StatusOr<KernelPlan> CreateReduction(const KernelContext& c) {
  return WithOperands(c, [&](const ReductionOperands& operands) {
    return ForType(Types(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      return ReductionPlan<T, T, Op>(operands, [](T result) { return result; });
    });
  });
}

// The mean of no elements is 0/0. That is NaN for floating-point types, and 0 for integers,
// which have no NaN.
absl::StatusOr<KernelPlan> CreateMean(const KernelContext& c) {
  return WithOperands(c, [&](const ReductionOperands& operands) {
    const int64_t count = operands.out_size > 0 ? operands.in_size / operands.out_size : 0;
    return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      using A = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
      return ReductionPlan<T, A, SumOf>(operands, [count](A sum) {
        if (std::is_integral_v<T> && count == 0) return T(0);
        return static_cast<T>(sum / static_cast<A>(count));
      });
    });
  });
}

// Integer norms are rounded towards zero. If their sum of squares wraps around to a negative
// number, the norm is the smallest integer, as on x86.
absl::StatusOr<KernelPlan> CreateEuclideanNorm(const KernelContext& c) {
  return WithOperands(c, [&](const ReductionOperands& operands) {
    return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      return ReductionPlan<T, T, SumOfSquares>(operands, [](T sum) {
        if (std::is_integral_v<T> && sum < 0) return std::numeric_limits<T>::min();
        return static_cast<T>(std::sqrt(sum));
      });
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
