// SPDX-License-Identifier: Apache-2.0
//
// MatMul on the CPU: oneDNN for large products of floats, Eigen for everything else.
#include <algorithm>

#include "Eigen/Core"
#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/onednn.h"

namespace mirrorflow {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
void Product(const ProductGeometry& g, const T* a, const T* b, T* out) {
  const int64_t m = g.m, n = g.n, k = g.k;
  const bool ta = g.transpose_a, tb = g.transpose_b;
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

// A call of oneDNN costs what Eigen needs for about this many operations.
constexpr double kMinOneDnnFlops = 65536;

template <typename T>
absl::StatusOr<KernelPlan> EigenMatMul(const ProductGeometry& g) {
  return KernelPlan{.kernel = MakeKernel([g](const KernelArgs& args, Lane&) {
                      Product(g, args.input<T>(0), args.input<T>(1), args.output<T>(0));
                      return absl::OkStatus();
                    })};
}

absl::StatusOr<KernelPlan> FloatMatMul(const ProductGeometry& g, double flops) {
  if (flops >= kMinOneDnnFlops) {
    absl::StatusOr<KernelPlan> plan = OneDnnProduct(g);
    if (!absl::IsUnimplemented(plan.status())) return plan;
  }
  return EigenMatMul<float>(g);
}

absl::StatusOr<KernelPlan> CreateMatMul(const KernelContext& c) {
  const bool transpose_a = c.attr<bool>("transpose_a");
  const ProductGeometry g = {.m = c.output_shape(0).dim(0),
                             .n = c.output_shape(0).dim(1),
                             .k = c.input_shape(0).dim(transpose_a ? 0 : 1),
                             .transpose_a = transpose_a,
                             .transpose_b = c.attr<bool>("transpose_b")};
  const double flops = 2.0 * g.m * g.n * g.k;
  absl::StatusOr<KernelPlan> plan = UnsupportedDataType(c.output_dtype(0));
  switch (c.output_dtype(0)) {
    case DT_FLOAT:
      plan = FloatMatMul(g, flops);
      break;
    case DT_DOUBLE:
      plan = EigenMatMul<double>(g);
      break;
    case DT_INT32:
      plan = EigenMatMul<int32_t>(g);
      break;
    case DT_INT64:
      plan = EigenMatMul<int64_t>(g);
      break;
    default:
      break;
  }
  // A double holds every count below 2^53, and no product of sizes overflows it.
  if (plan.ok()) plan->flops = static_cast<int64_t>(std::min(flops, 9e18));
  return plan;
}

}  // namespace

void RegisterMatMulCpu(KernelRegistry& kernels) { kernels.Register("MatMul", "CPU", CreateMatMul); }

}  // namespace mirrorflow
