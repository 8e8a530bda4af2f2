// SPDX-License-Identifier: Apache-2.0
//
// MatMul and BatchMatMulV2: cuBLASLt, and our own plain product for dtypes and ways to broadcast
// that it has not.
#include "ops/matmul.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/plain_product.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

// The dimensions in front of the matrices.
Shape BatchDims(const Shape& matrices) {
  return Shape(matrices.dims().subspan(0, matrices.rank() - 2));
}

// Where the product has no terms: zeros, or the bias.
KernelPlan WithoutTerms(const KernelContext& c, bool bias, int64_t n) {
  return MakeIndexed(c, bias ? absl::StrCat("Load(a2[i % ", n, "])") : "0");
}

PlainProduct PlainProductOf(const KernelContext& c, bool transpose_a, bool transpose_b) {
  const Shape &a = c.input_shape(0), &b = c.input_shape(1), &out = c.output_shape(0);
  const int rank = out.rank();
  const int64_t m = out.dim(rank - 2), n = out.dim(rank - 1);
  const int64_t k = a.dim(a.rank() - (transpose_a ? 2 : 1));
  PlainProduct p{.m = m,
                 .n = n,
                 .k = k,
                 .a_row_step = transpose_a ? 1 : k,
                 .a_column_step = transpose_a ? m : 1,
                 .b_row_step = transpose_b ? 1 : n,
                 .b_column_step = transpose_b ? k : 1};
  const std::vector<int64_t> a_steps = Strides(a), b_steps = Strides(b);
  const auto step = [&](const Shape& of, const std::vector<int64_t>& steps, int d) {
    const int own = d - (rank - of.rank());
    return own >= 0 && of.dim(own) != 1 ? steps[own] : 0;
  };
  for (int d = 0; d < rank - 2; ++d) {
    p.batch.push_back({out.dim(d), step(a, a_steps, d), step(b, b_steps, d)});
  }
  return p;
}

absl::StatusOr<KernelPlan> CreateProduct(const KernelContext& c, bool transpose_a,
                                         bool transpose_b) {
  const Shape &a = c.input_shape(0), &b = c.input_shape(1), &out = c.output_shape(0);
  CublasProduct p{.dtype = c.output_dtype(0),
                  .m = out.dim(out.rank() - 2),
                  .n = out.dim(out.rank() - 1),
                  .k = a.dim(a.rank() - (transpose_a ? 2 : 1)),
                  .transpose_a = transpose_a,
                  .transpose_b = transpose_b,
                  .batch = BatchDims(out).num_elements(),
                  .bias = c.node().input_index(ops::kFusedBias) >= 0,
                  .allow_tf32 = c.options().allow_tf32};
  if (out.num_elements() == 0 || p.k == 0) return WithoutTerms(c, p.bias, p.n);
  const int64_t in_a = BatchDims(a).num_elements(), in_b = BatchDims(b).num_elements();
  // One matrix for rows upon rows: a single product.
  if (p.batch > 1 && in_a == p.batch && in_b == 1 && !transpose_a) {
    p.m *= p.batch;
    p.batch = 1;
  }
  p.batch_a = in_a > 1;
  p.batch_b = in_b > 1;
  const bool simple = (!p.batch_a || in_a == p.batch) && (!p.batch_b || in_b == p.batch);
  absl::StatusOr<KernelPlan> plan =
      simple || p.batch == 1 ? MakeCublasProduct(p) : UnsupportedDataType(p.dtype);
  if (absl::IsUnimplemented(plan.status()) && !p.bias) {
    plan = MakePlainProduct(c, PlainProductOf(c, transpose_a, transpose_b));
  }
  const double flops = 2.0 * BatchDims(out).num_elements() * out.dim(out.rank() - 2) * p.n * p.k;
  // A double holds every count below 2^53, and no product of sizes overflows it.
  if (plan.ok()) plan->flops = static_cast<int64_t>(std::min(flops, 9e18));
  return plan;
}

}  // namespace

void RegisterMatMulCuda(KernelRegistry& kernels) {
  kernels.Register("BatchMatMulV2", kGpu, [](const KernelContext& c) {
    return CreateProduct(c, c.attr<bool>("adj_x"), c.attr<bool>("adj_y"));
  });
  for (const std::string& op : {std::string(ops::kMatMul), ops::WithBias(ops::kMatMul)}) {
    kernels.Register(op, kGpu, [](const KernelContext& c) {
      return CreateProduct(c, c.attr<bool>("transpose_a"), c.attr<bool>("transpose_b"));
    });
  }
}

}  // namespace mirrorflow
