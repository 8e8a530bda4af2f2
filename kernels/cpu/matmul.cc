// SPDX-License-Identifier: Apache-2.0
//
// MatMul on the CPU: Eigen for every dtype.
#include "Eigen/Core"
#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
void Product(const T* a, const T* b, T* out, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  Eigen::Map<const Matrix<T>> ma(a, ta ? k : m, ta ? m : k), mb(b, tb ? n : k, tb ? k : n);
  Eigen::Map<Matrix<T>> mo(out, m, n);
  if (ta && tb) {
    mo.noalias() = ma.transpose() * mb.transpose();
  } else if (ta) {
    mo.noalias() = ma.transpose() * mb;
  } else if (tb) {
    mo.noalias() = ma * mb.transpose();
  } else {
    mo.noalias() = ma * mb;
  }
}

template <typename T>
KernelPlan EigenMatMul(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) {
            Product(args.input<T>(0), args.input<T>(1), args.output<T>(0), m, n, k, ta, tb);
            return absl::OkStatus();
          })};
}

absl::StatusOr<KernelPlan> CreateMatMul(const KernelContext& c) {
  const bool ta = c.attr<bool>("transpose_a"), tb = c.attr<bool>("transpose_b");
  const int64_t m = c.output_shape(0).dim(0), n = c.output_shape(0).dim(1);
  const int64_t k = c.input_shape(0).dim(ta ? 0 : 1);
  absl::StatusOr<KernelPlan> plan = UnsupportedDataType(c.output_dtype(0));
  switch (c.output_dtype(0)) {
    case DT_FLOAT:
      plan = EigenMatMul<float>(m, n, k, ta, tb);
      break;
    case DT_DOUBLE:
      plan = EigenMatMul<double>(m, n, k, ta, tb);
      break;
    case DT_INT32:
      plan = EigenMatMul<int32_t>(m, n, k, ta, tb);
      break;
    case DT_INT64:
      plan = EigenMatMul<int64_t>(m, n, k, ta, tb);
      break;
    default:
      break;
  }
  if (plan.ok()) plan->flops = 2 * m * n * k;
  return plan;
}

}  // namespace

void RegisterMatMulCpu(KernelRegistry& kernels) { kernels.Register("MatMul", "CPU", CreateMatMul); }

}  // namespace mirrorflow
