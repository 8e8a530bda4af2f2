// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/plain_product.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {
namespace {

std::string MatrixText(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  return absl::StrCat("product::Matrix<", rows, ", ", columns, ", ", row_step, ", ", column_step,
                      ">");
}

}  // namespace

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
  const std::vector<int64_t> a_steps = a.Strides(), b_steps = b.Strides();
  const auto step = [&](const Shape& of, const std::vector<int64_t>& steps, int d) {
    const int own = d - (rank - of.rank());
    return own >= 0 && of.dim(own) != 1 ? steps[own] : 0;
  };
  for (int d = 0; d < rank - 2; ++d) {
    p.batch.push_back({out.dim(d), step(a, a_steps, d), step(b, b_steps, d)});
  }
  return p;
}

KernelPlan MakePlainProduct(const KernelContext& c, const PlainProduct& p) {
  constexpr int64_t kTile = 16;  // as in code/product.cuh
  int64_t batch = 1;
  std::vector<IndexDim> a, b;
  for (const PlainProduct::BatchDim& dim : p.batch) {
    batch *= dim.size;
    a.push_back({dim.size, dim.a_step});
    b.push_back({dim.size, dim.b_step});
  }
  const int64_t tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile);
  CudaStage stage{
      .body = absl::StrCat("  using A = ", MatrixText(p.m, p.k, p.a_row_step, p.a_column_step),
                           ";\n  using B = ", MatrixText(p.k, p.n, p.b_row_step, p.b_column_step),
                           ";\n  const int64 batch = product::Batch<A, B>();\n",
                           "  product::Multiply<A, B>(a0 + ", OffsetText("batch", std::move(a)),
                           ", a1 + ", OffsetText("batch", std::move(b)), ", z0 + batch * ",
                           p.m * p.n, ");"),
      .grid = {.x = static_cast<unsigned int>(batch * tiles),
               .threads = static_cast<unsigned int>(kTile),
               .threads_y = static_cast<unsigned int>(kTile)}};
  KernelPlan plan = MakeCudaKernel(c, {std::move(stage)}, {.includes = {"product.cuh"}});
  const double flops = 2.0 * static_cast<double>(batch) * static_cast<double>(p.m) *
                       static_cast<double>(p.n) * static_cast<double>(p.k);
  plan.flops = static_cast<int64_t>(std::min(flops, 9e18));
  return plan;
}

}  // namespace mirrorflow
