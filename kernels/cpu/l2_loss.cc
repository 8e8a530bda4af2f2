// SPDX-License-Identifier: Apache-2.0
//
// L2Loss on the CPU: a reduction over all elements.
#include "kernels/cpu/reducer.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateL2Loss(const KernelContext& c) {
  const ReductionOperands operands = ReduceAll(c.input_shape(0));
  return ForType(FloatingTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return ReductionPlan<T, T, SumOfSquares>(operands, [](T sum) { return sum / 2; });
  });
}

}  // namespace

void RegisterL2LossCpu(KernelRegistry& kernels) { kernels.Register("L2Loss", "CPU", CreateL2Loss); }

}  // namespace mirrorflow
