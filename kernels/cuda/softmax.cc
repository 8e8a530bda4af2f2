// SPDX-License-Identifier: Apache-2.0
//
// Softmax, LogSoftmax and the cross entropies, along the last dimension.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/reduce_stages.h"

namespace mirrorflow {
namespace {

// Makes a kernel that calls `function` of softmax.cuh with `operands`.
KernelPlan MakeRows(const KernelContext& c, absl::string_view function, int64_t rows,
                    int64_t columns, absl::string_view operands, CudaKernelOptions options) {
  const TeamShape team = TeamForRows(rows, columns);
  const std::string type = CudaValueType(c.output_dtype(0));
  options.includes = {"softmax.cuh"};
  return MakeCudaKernel(
      c,
      {{.body = absl::StrCat("  ", function, "<", rows, ", ", columns, ", ", team.along, ", ",
                             team.across, ", ", type, ">(\n", "      ", operands, ");"),
        .grid = {.x = team.BlocksFor(rows), .threads = team.threads()}}},
      std::move(options));
}

// Returns the text of a lambda that returns element [r, c] of input i, which broadcasts to a
// matrix.
std::string MatrixText(const KernelContext& c, int i) {
  const Shape& shape = c.input_shape(i);
  const int rank = shape.rank();
  const bool columns = rank >= 1 && shape.dim(rank - 1) != 1;
  const bool rows = rank >= 2 && shape.dim(0) != 1;
  return absl::StrCat("[&](auto r, auto c) { return Load(a", i, "[",
                      rows ? absl::StrCat("r * ", shape.dim(1)) : "0", columns ? " + c" : "",
                      "]); }");
}

std::string RowsText(int64_t columns) {
  return absl::StrCat("[&](auto r, auto c) { return Load(a0[r * ", columns, " + c]); }");
}

absl::StatusOr<KernelPlan> MakeSoftmax(const KernelContext& c, absl::string_view function) {
  const Shape& shape = c.output_shape(0);
  const int64_t columns = shape.dim(shape.rank() - 1);
  const int64_t rows = columns == 0 ? 0 : shape.num_elements() / columns;
  return MakeRows(c, function, rows, columns, absl::StrCat(RowsText(columns), ", z0"),
                  {.in_place = {{0, 0}}});
}

absl::StatusOr<KernelPlan> CreateSparseEntropy(const KernelContext& c) {
  const int64_t rows = c.input_shape(0).dim(0), columns = c.input_shape(0).dim(1);
  return MakeRows(
      c, "SparseEntropy", rows, columns, absl::StrCat(RowsText(columns), ", a1, z0, z1, fail"),
      {.in_place = {{0, 1}},
       .error = absl::StrCat("label is out of range; expected [0, ", columns, "), got")});
}

// The loss of a row without classes is 0, the empty sum.
absl::StatusOr<KernelPlan> CreateDenseEntropy(const KernelContext& c) {
  const int64_t rows = c.output_shape(1).dim(0), columns = c.output_shape(1).dim(1);
  if (columns == 0) {
    return MakeCudaKernel(
        c, {{.body = absl::StrCat("  Elementwise<", rows, ">(z0, [](auto) { return 0; });"),
             .grid = ElementwiseGrid(rows)}});
  }
  return MakeRows(c, "DenseEntropy", rows, columns,
                  absl::StrCat(MatrixText(c, 0), ", ", MatrixText(c, 1), ", z0, z1"), {});
}

}  // namespace

void RegisterSoftmaxCuda(KernelRegistry& kernels) {
  kernels.Register("LogSoftmax", kGpu,
                   [](const KernelContext& c) { return MakeSoftmax(c, "LogSoftmax"); });
  kernels.Register("Softmax", kGpu,
                   [](const KernelContext& c) { return MakeSoftmax(c, "Softmax"); });
  kernels.Register("SoftmaxCrossEntropyWithLogits", kGpu, CreateDenseEntropy);
  kernels.Register("SparseSoftmaxCrossEntropyWithLogits", kGpu, CreateSparseEntropy);
}

}  // namespace mirrorflow
