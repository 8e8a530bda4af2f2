// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

// A dimension of the output, with its strides in the input and the output.
struct Dim {
  int64_t size, in_stride, out_stride;
};

// Drops dimensions of size 1 and merges adjacent dimensions that stay adjacent.
std::vector<Dim> Collapse(const Shape& in, const Shape& out, absl::Span<const int64_t> perm) {
  const std::vector<int64_t> in_strides = in.Strides(), out_strides = out.Strides();
  std::vector<Dim> dims;
  for (int d = 0; d < out.rank(); ++d) {
    const Dim dim{out.dim(d), in_strides[perm[d]], out_strides[d]};
    if (dim.size == 1) continue;
    if (!dims.empty() && dims.back().in_stride == dim.in_stride * dim.size) {
      dims.back() = {dims.back().size * dim.size, dim.in_stride, dim.out_stride};
    } else {
      dims.push_back(dim);
    }
  }
  return dims;
}

// Returns the expression for the offset of matrix `matrix` in an operand. `outer` lists the
// dimensions outside the matrix.
std::string MatrixText(absl::Span<const Dim> outer, int64_t Dim::*stride) {
  std::vector<IndexDim> dims;
  for (const Dim& dim : outer) dims.push_back({dim.size, dim.*stride});
  return OffsetText("matrix", std::move(dims));
}

absl::StatusOr<KernelPlan> CreateTranspose(const KernelContext& c) {
  MF_RETURN_IF_ERROR(CheckMovable(c.output_dtype(0)));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, c.integers(1));
  std::vector<Dim> dims = Collapse(c.input_shape(0), c.output_shape(0), perm);
  // Transposes matrices in tiles if reads and writes are contiguous along different dimensions
  // that are both long.
  constexpr int64_t kLong = 16;
  const auto read =
      std::find_if(dims.begin(), dims.end(), [](const Dim& d) { return d.in_stride == 1; });
  const bool has_matrices = read != dims.end() && read + 1 != dims.end() && read->size >= kLong &&
                            dims.back().size >= kLong;
  constexpr int64_t kTile = 32;  // as in move.cuh
  const int64_t tiles =
      has_matrices ? DivideUp(dims.back().size, kTile) * DivideUp(read->size, kTile) : 0;
  const int64_t blocks =
      has_matrices ? c.output_shape(0).num_elements() / (dims.back().size * read->size) * tiles : 0;
  if (blocks == 0 || blocks > std::numeric_limits<int32_t>::max()) {
    std::vector<IndexDim> strides;
    for (const Dim& dim : dims) strides.push_back({dim.size, dim.in_stride});
    return MoveKernel(c, absl::StrCat("a0[", OffsetText("i", std::move(strides)), "]"));
  }
  const Dim columns = *read, rows = dims.back();
  dims.pop_back();
  dims.erase(read);
  const std::string body =
      absl::StrCat("  const uint32 matrix = blockIdx.x / ", tiles, ";\n  TransposeTile<", rows.size,
                   ", ", columns.size, ", ", rows.in_stride, ", ", columns.out_stride, ">(a0 + (",
                   MatrixText(dims, &Dim::in_stride), "), z0 + (",
                   MatrixText(dims, &Dim::out_stride), "), blockIdx.x % ", tiles, ");");
  const CudaGrid grid{
      .x = static_cast<unsigned int>(blocks), .threads = 32, .threads_y = 8};  // kTileStep
  return MakeCudaKernel(c, {{.body = body, .grid = grid}}, {.includes = {"move.cuh"}});
}

// The input is a permutation if every position is written and still holds the written value
// afterwards.
absl::StatusOr<KernelPlan> CreateInvertPermutation(const KernelContext& c) {
  const int64_t n = c.input_shape(0).num_elements();
  const std::string inside = absl::StrCat("a0[i] >= 0 && a0[i] < ", n);
  const CudaGrid grid = ElementwiseGrid(n);
  const auto for_each = [n](absl::string_view text) {
    return absl::StrCat("  ForEach<", n, ">([&](auto i) { ", text, " });");
  };
  return MakeCudaKernel(
      c,
      {{.body = for_each("z0[i] = 0;"), .grid = grid},
       {.body = for_each(absl::StrCat("if (", inside, ") z0[a0[i]] = i;")), .grid = grid},
       {.body = for_each(absl::StrCat("if (!(", inside, ") || z0[a0[i]] != i) fail(a0[i]);")),
        .grid = grid}},
      {.error = absl::StrCat("x is not a permutation; expected each integer from 0 to ", n - 1,
                             " once, got")});
}

}  // namespace

void RegisterTransposeCuda(KernelRegistry& kernels) {
  kernels.Register("InvertPermutation", kGpu, CreateInvertPermutation);
  kernels.Register("Transpose", kGpu, CreateTranspose);
}

}  // namespace mirrorflow
