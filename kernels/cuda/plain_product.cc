// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/plain_product.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_kernel.h"
#include "ops/matmul.h"

namespace mirrorflow {
namespace {

std::string MatrixText(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  return absl::StrCat("product::Matrix<", rows, ", ", columns, ", ", row_step, ", ", column_step,
                      ">");
}

}  // namespace

KernelPlan MakePlainProduct(const KernelContext& c, bool transpose_a, bool transpose_b) {
  constexpr int64_t kTile = 16;  // as in code/product.cuh
  const Shape &a = c.input_shape(0), &b = c.input_shape(1), &out = c.output_shape(0);
  const int rank = out.rank();
  const int64_t m = out.dim(rank - 2), n = out.dim(rank - 1);
  const int64_t k = a.dim(a.rank() - (transpose_a ? 2 : 1));
  const Shape batch = BatchDims(out);
  const int64_t tiles = DivideUp(m, kTile) * DivideUp(n, kTile);
  CudaStage stage{
      .body = absl::StrCat(
          "  using A = ", MatrixText(m, k, transpose_a ? 1 : k, transpose_a ? m : 1),
          ";\n  using B = ", MatrixText(k, n, transpose_b ? 1 : n, transpose_b ? k : 1),
          ";\n  const int64 batch = product::Batch<A, B>();\n", "  product::Multiply<A, B>(a0 + (",
          BroadcastText("batch", batch, BatchDims(a)), ") * ", m * k, ", a1 + (",
          BroadcastText("batch", batch, BatchDims(b)), ") * ", k * n, ", z0 + batch * ", m * n,
          ");"),
      .grid = {.x = static_cast<unsigned int>(batch.num_elements() * tiles),
               .threads = static_cast<unsigned int>(kTile),
               .threads_y = static_cast<unsigned int>(kTile)}};
  return MakeCudaKernel(c, {std::move(stage)}, {.includes = {"product.cuh"}});
}

}  // namespace mirrorflow
