// SPDX-License-Identifier: Apache-2.0
//
// SpaceToBatchND and BatchToSpaceND on the CPU. The elements at the same position of each block
// form a box in both tensors: in space, the box is strided by the block size, and in the batch, it
// is part of one group of images.
#include <algorithm>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

// Limits the positions in a block, because a plan contains one move per position. Blocks of images
// never have more.
constexpr int64_t kMaxPositions = int64_t{1} << 16;

// Returns the moves between `space` [N,S…,rest] and `batch` [positions·N,s…,rest].
absl::StatusOr<std::vector<Move>> Moves(const KernelContext& c, const Shape& space,
                                        const Shape& batch, bool to_batch) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> block, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> margins, c.integers(2));
  const std::vector<int64_t> in_space = space.Strides(), in_batch = batch.Strides();
  const int dims = static_cast<int>(block.size());
  int64_t positions = 1;
  for (const int64_t size : block) positions *= size;
  if (positions > kMaxPositions) {
    return absl::UnimplementedError("blocks have too many positions; expected at most 2^16");
  }
  std::vector<Move> moves;
  for (int64_t position = 0; position < positions; ++position) {
    int64_t space_offset = 0, batch_offset = position * space.dim(0) * in_batch[0], rest = position;
    std::vector<StridedCopy::Dim> box = {{space.dim(0), in_space[0], in_batch[0]}};
    box.resize(dims + 1);
    for (int i = dims - 1; i >= 0; --i) {
      const int d = i + 1;
      const int64_t at = rest % block[i] - margins[2 * i];  // in space, for the first block
      rest /= block[i];
      // The blocks k whose position is inside the space: 0 <= at + block * k < size.
      const int64_t first = at >= 0 ? 0 : (-at + block[i] - 1) / block[i];
      const int64_t end = at >= space.dim(d) ? 0 : (space.dim(d) - at - 1) / block[i] + 1;
      box[d] = {std::max<int64_t>(0, std::min(end, batch.dim(d)) - first), in_space[d] * block[i],
                in_batch[d]};
      space_offset += (at + first * block[i]) * in_space[d];
      batch_offset += first * in_batch[d];
    }
    box.push_back({space.num_elements_from(dims + 1), 1, 1});
    if (!to_batch) {
      for (StridedCopy::Dim& dim : box) std::swap(dim.in_stride, dim.out_stride);
      std::swap(space_offset, batch_offset);
    }
    const bool empty =
        std::any_of(box.begin(), box.end(), [](const auto& dim) { return dim.size <= 0; });
    if (empty) continue;
    moves.push_back({0, 0, StridedCopy(c.output_dtype(0), box, space_offset, batch_offset)});
  }
  return moves;
}

absl::StatusOr<KernelPlan> CreateSpaceToBatch(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(std::vector<Move> moves, Moves(c, c.input_shape(0), out, true));
  const DataType dtype = c.output_dtype(0);
  const bool padded = c.input_shape(0).num_elements() != out.num_elements();
  return CopyKernel(dtype, std::move(moves), padded ? BytesOf(dtype, out) : 0);
}

absl::StatusOr<KernelPlan> CreateBatchToSpace(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(std::vector<Move> moves,
                      Moves(c, c.output_shape(0), c.input_shape(0), false));
  return CopyKernel(c.output_dtype(0), std::move(moves));
}

}  // namespace

void RegisterSpaceToBatchCpu(KernelRegistry& kernels) {
  kernels.Register("SpaceToBatchND", "CPU", CreateSpaceToBatch);
  kernels.Register("BatchToSpaceND", "CPU", CreateBatchToSpace);
}

}  // namespace mirrorflow
