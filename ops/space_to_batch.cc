// SPDX-License-Identifier: Apache-2.0
#include "ops/space_to_batch.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

// The limit for operands: sums and products of two such numbers cannot overflow.
constexpr int64_t kMaxNumber = int64_t{1} << 30;

// Returns operand i, a [rows] or [rows,2] tensor of integers from `min_number` to kMaxNumber, or
// nullopt if the operand is not yet known.
absl::StatusOr<std::optional<std::vector<int64_t>>> Numbers(const ShapeContext& c, int i, int rank,
                                                            int64_t min_number) {
  MF_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, rank));
  const std::string& name = c.node().op().inputs[i].name;
  if (rank == 2 && shape.dim(1) != 2 && shape.dim(1) != kUnknownDim) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must have shape [?,2], got ", shape.ToString()));
  }
  MF_ASSIGN_OR_RETURN(std::optional<std::vector<int64_t>> numbers, c.integers(i));
  for (const int64_t number : numbers.value_or(std::vector<int64_t>())) {
    if (number >= min_number && number <= kMaxNumber) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " must have elements from ", min_number,
                                                   " to ", kMaxNumber, ", got ", number));
  }
  return numbers;
}

struct Blocks {
  std::vector<int64_t> sizes;
  std::vector<int64_t> margins;  // paddings or crops, before and after each dimension
  int64_t count = 1;             // positions in a block
};

// Reads the sizes and margins of the blocks. Returns nullopt if they are not known.
absl::StatusOr<std::optional<Blocks>> ReadBlocks(const ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const auto sizes, Numbers(c, 1, 1, 1));
  MF_ASSIGN_OR_RETURN(const auto margins, Numbers(c, 2, 2, 0));
  if (!sizes.has_value() || !margins.has_value()) return std::optional<Blocks>();
  if (margins->size() != 2 * sizes->size()) {
    return absl::InvalidArgumentError(absl::StrCat(c.node().op().inputs[2].name,
                                                   " must have one row for each of ", sizes->size(),
                                                   " blocks, got ", c.input(2).ToString()));
  }
  Blocks blocks = {*sizes, *margins};
  for (const int64_t size : *sizes) {
    MF_ASSIGN_OR_RETURN(blocks.count, CheckedMultiply(blocks.count, size));
  }
  return std::optional<Blocks>(blocks);
}

absl::StatusOr<Shape> InputWithSpace(const ShapeContext& c, const std::optional<Blocks>& blocks) {
  const int dims = blocks.has_value() ? static_cast<int>(blocks->sizes.size()) : 0;
  return c.WithRankAtLeast(0, 1 + dims);
}

absl::Status SpaceToBatchShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<Blocks> blocks, ReadBlocks(c));
  MF_ASSIGN_OR_RETURN(Shape output, InputWithSpace(c, blocks));
  if (output.unknown_rank()) return absl::OkStatus();
  if (!blocks.has_value()) return SetOutput(c, Shape::UnknownDims(output.rank()));
  if (output.dim(0) != kUnknownDim) {
    MF_ASSIGN_OR_RETURN(const int64_t batch, CheckedMultiply(output.dim(0), blocks->count));
    output.set_dim(0, batch);
  }
  for (size_t i = 0; i < blocks->sizes.size(); ++i) {
    const int d = static_cast<int>(i) + 1;
    if (output.dim(d) == kUnknownDim) continue;
    const int64_t padded = output.dim(d) + blocks->margins[2 * i] + blocks->margins[2 * i + 1];
    if (padded % blocks->sizes[i] != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("dimension ", d, " plus its paddings must be a multiple of the block size ",
                       blocks->sizes[i], ", got ", padded));
    }
    output.set_dim(d, padded / blocks->sizes[i]);
  }
  return SetOutput(c, output);
}

absl::Status BatchToSpaceShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<Blocks> blocks, ReadBlocks(c));
  MF_ASSIGN_OR_RETURN(Shape output, InputWithSpace(c, blocks));
  if (output.unknown_rank()) return absl::OkStatus();
  if (!blocks.has_value()) return SetOutput(c, Shape::UnknownDims(output.rank()));
  if (output.dim(0) != kUnknownDim) {
    if (output.dim(0) % blocks->count != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the batch size must be a multiple of the ",
                                                     blocks->count, " positions in a block, got ",
                                                     output.dim(0)));
    }
    output.set_dim(0, output.dim(0) / blocks->count);
  }
  for (size_t i = 0; i < blocks->sizes.size(); ++i) {
    const int d = static_cast<int>(i) + 1;
    if (output.dim(d) == kUnknownDim) continue;
    MF_ASSIGN_OR_RETURN(const int64_t whole, CheckedMultiply(output.dim(d), blocks->sizes[i]));
    const int64_t cropped = whole - blocks->margins[2 * i] - blocks->margins[2 * i + 1];
    if (cropped < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("crops of dimension ", d, " must add up to at most ", whole, ", got ",
                       blocks->margins[2 * i], " and ", blocks->margins[2 * i + 1]));
    }
    output.set_dim(d, cropped);
  }
  return SetOutput(c, output);
}

// The batch must not be sharded either, because the output interleaves the images of all replicas.
absl::StatusOr<ShardingRule> BlocksSharding(const ShardContext& c) {
  std::string term = LettersFor(c.input(0));
  const int64_t dims = c.input(1).dim(0);
  for (int d = 0; d <= dims; ++d) term[d] = '.';
  return MoveSharding(c, absl::StrCat(term, ",.,..->", term), {0});
}

absl::StatusOr<std::vector<Output>> SpaceToBatchGrad(const GradContext& c) {
  return std::vector<Output>{ops::BatchToSpaceND(c.scope, c.dy[0], c.op.input(1), c.op.input(2)),
                             Output(), Output()};
}
absl::StatusOr<std::vector<Output>> BatchToSpaceGrad(const GradContext& c) {
  return std::vector<Output>{ops::SpaceToBatchND(c.scope, c.dy[0], c.op.input(1), c.op.input(2)),
                             Output(), Output()};
}

}  // namespace

void RegisterSpaceToBatch(OpRegistry& ops) {
  ops.Define("SpaceToBatchND")
      .Doc(
          "pads images with zeros and cuts them into blocks; each output image holds the elements "
          "at one position of all blocks")
      .Input("input: T")
      .StaticInput("block_shape: Tblock_shape")
      .StaticInput("paddings: Tpaddings")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tblock_shape: {int32, int64} = int32")
      .Attr("Tpaddings: {int32, int64} = int32")
      .Shape(SpaceToBatchShape)
      .Sharding(BlocksSharding)
      .Gradient(SpaceToBatchGrad);
  ops.Define("BatchToSpaceND")
      .Doc("assembles images from blocks; the inverse of SpaceToBatchND")
      .Input("input: T")
      .StaticInput("block_shape: Tblock_shape")
      .StaticInput("crops: Tcrops")
      .Output("output: T")
      .Attr("T: type")
      .Attr("Tblock_shape: {int32, int64} = int32")
      .Attr("Tcrops: {int32, int64} = int32")
      .Shape(BatchToSpaceShape)
      .Sharding(BlocksSharding)
      .Gradient(BatchToSpaceGrad);
}

namespace ops {

Output SpaceToBatchND(const Scope& scope, Output input, Output block_shape, Output paddings) {
  return Apply(scope, "SpaceToBatchND", {input, block_shape, paddings});
}

Output BatchToSpaceND(const Scope& scope, Output input, Output block_shape, Output crops) {
  return Apply(scope, "BatchToSpaceND", {input, block_shape, crops});
}

}  // namespace ops
}  // namespace mirrorflow
