// SPDX-License-Identifier: Apache-2.0
//
// Variable reads and writes. In a plan, a read is a view of the variable's memory and runs no
// kernel; the copy here is for nodes that run outside a plan.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateRead(const KernelContext& c) { return MakeIndexed(c, "a0[i]"); }

// The value in input 1 may be a read of the same variable.
KernelPlan MakeAssign(const KernelContext& c, absl::string_view value) {
  const int64_t n = c.input_shape(1).num_elements();
  return MakeCudaKernel(
      c,
      {{.body = absl::StrCat("  Elementwise<", n, ">(a0, [&](auto i) { return ", value, "; });"),
        .grid = ElementwiseGrid(n)}},
      {.includes = {"math.cuh"}});
}

absl::StatusOr<KernelPlan> CreateAssign(const KernelContext& c) { return MakeAssign(c, "a1[i]"); }

template <bool kAdd>
absl::StatusOr<KernelPlan> CreateAccumulate(const KernelContext& c) {
  if (c.input_dtype(1) == DT_BOOL) return UnsupportedDataType(DT_BOOL);
  return MakeAssign(
      c, kAdd ? "op::Add(Load(a0[i]), Load(a1[i]))" : "op::Sub(Load(a0[i]), Load(a1[i]))");
}

}  // namespace

void RegisterVariableCuda(KernelRegistry& kernels) {
  kernels.Register("AssignAddVariableOp", kGpu, CreateAccumulate<true>);
  kernels.Register("AssignSubVariableOp", kGpu, CreateAccumulate<false>);
  kernels.Register("AssignVariableOp", kGpu, CreateAssign);
  kernels.Register("ReadVariableOp", kGpu, CreateRead);
}

}  // namespace mirrorflow
