// SPDX-License-Identifier: Apache-2.0
//
// Variable reads and writes on the CPU. In a plan, a read is a view of the variable's memory and
// runs no kernel, unless it must copy. EvaluateNode always copies.
#include <cstring>

#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateRead(const KernelContext& c) {
  const size_t bytes = c.output_shape(0).num_elements() * DataTypeSize(c.output_dtype(0));
  return KernelPlan{.kernel = MakeKernel([bytes](const KernelArgs& args) {
                      std::memmove(args.output<char>(0), args.variable<char>(0), bytes);
                    })};
}

absl::StatusOr<KernelPlan> CreateAssign(const KernelContext& c) {
  const size_t bytes = c.input_shape(1).num_elements() * DataTypeSize(c.input_dtype(1));
  return KernelPlan{.kernel = MakeKernel([bytes](const KernelArgs& args) {
                      // Use memmove, because the value may be a read of the same variable.
                      std::memmove(args.variable<char>(0), args.input<char>(1), bytes);
                    })};
}

template <bool kAdd>
absl::StatusOr<KernelPlan> CreateAccumulate(const KernelContext& c) {
  const int64_t n = c.input_shape(1).num_elements();
  return ForType(NumericTypes(), c.input_dtype(1), [n]<typename T>(TypeTag<T>) {
    return KernelPlan{.kernel = MakeKernel([n](const KernelArgs& args) {
                        T* variable = args.variable<T>(0);
                        const T* value = args.input<T>(1);
                        for (int64_t i = 0; i < n; ++i) {
                          const auto x = Wrapping(variable[i]), y = Wrapping(value[i]);
                          variable[i] = static_cast<T>(kAdd ? x + y : x - y);
                        }
                      })};
  });
}

}  // namespace

void RegisterVariableCpu(KernelRegistry& kernels) {
  kernels.Register("ReadVariableOp", "CPU", CreateRead);
  kernels.Register("AssignVariableOp", "CPU", CreateAssign);
  kernels.Register("AssignAddVariableOp", "CPU", CreateAccumulate<true>);
  kernels.Register("AssignSubVariableOp", "CPU", CreateAccumulate<false>);
}

}  // namespace mirrorflow
