// SPDX-License-Identifier: Apache-2.0
#include "ops/gather_nd.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

absl::Status CheckPolicy(const ShapeContext& c) {
  const std::string& policy = c.attr<std::string>("bad_indices_policy");
  if (policy.empty() || policy == "DEFAULT" || policy == "ERROR") return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("bad_indices_policy must be '', 'DEFAULT' or 'ERROR', got '", policy, "'"));
}

// The shape [i…, K] of the indices, split into the leading dimensions and K, which may be unknown.
struct Indices {
  Shape leading;
  int64_t depth;
};

absl::StatusOr<Indices> ReadIndices(const Shape& indices, const Shape& into) {
  const int last = indices.rank() - 1;
  const int64_t depth = indices.dim(last);
  if (depth > into.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last dimension of indices must be at most the rank of ", into.ToString(),
                     ", got ", indices.ToString()));
  }
  return Indices{Shape(indices.dims().first(last)), depth};
}

Shape Joined(const Shape& first, const Shape& rest, int64_t skipped) {
  Shape joined = first;
  for (int d = static_cast<int>(skipped); d < rest.rank(); ++d) joined.AddDim(rest.dim(d));
  return joined;
}

absl::Status GatherNdShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckPolicy(c));
  MF_ASSIGN_OR_RETURN(const Shape indices, c.WithRankAtLeast(1, 1));
  const Shape& params = c.input(0);
  if (params.unknown_rank() || indices.unknown_rank()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const Indices read, ReadIndices(indices, params));
  if (read.depth == kUnknownDim) return absl::OkStatus();
  return SetOutput(c, Joined(read.leading, params, read.depth));
}

// Checks the shape of the slices that replace or are added to those at `indices` of `whole`.
absl::Status CheckUpdates(const Shape& indices, const Shape& updates, const Shape& whole) {
  if (whole.unknown_rank() || indices.unknown_rank()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const Indices read, ReadIndices(indices, whole));
  if (read.depth == kUnknownDim) return absl::OkStatus();
  return CheckShape(Joined(read.leading, whole, read.depth), updates,
                    "updates must have the shape of the slices at indices");
}

absl::Status ScatterNdShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckPolicy(c));
  MF_ASSIGN_OR_RETURN(const Shape output, SizesInput(c, 2, "shape"));
  MF_ASSIGN_OR_RETURN(const Shape indices, c.WithRankAtLeast(0, 1));
  c.set_output(0, output);
  return CheckUpdates(indices, c.input(1), output);
}

// The sharding terms of the indices, the selected slices and the sliced tensor.
struct Terms {
  std::string indices, slices, whole;
};
Terms TermsOf(const Shape& indices, const Shape& slices, const Shape& whole) {
  const int leading = indices.rank() - 1;
  const std::string letters = LettersFor(slices);
  const int depth = static_cast<int>(indices.dim(leading));
  return {letters.substr(0, leading) + ".", letters,
          std::string(depth, '.') + letters.substr(leading)};
}

absl::StatusOr<ShardingRule> GatherNdSharding(const ShardContext& c) {
  const Terms terms = TermsOf(c.input(1), c.output(0), c.input(0));
  return MoveSharding(c, absl::StrCat(terms.whole, ",", terms.indices, "->", terms.slices), {0});
}

// A replica's slices can be added anywhere in the output, so the output is a partial sum.
absl::StatusOr<ShardingRule> ScatterNdSharding(const ShardContext& c) {
  const Terms terms = TermsOf(c.input(0), c.input(1), c.output(0));
  return MoveSharding(c, absl::StrCat(terms.indices, ",", terms.slices, ",.->", terms.whole), {1});
}

absl::Status TensorScatterUpdateShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckPolicy(c));
  const Shape& tensor = c.input(0);
  MF_ASSIGN_OR_RETURN(const Shape indices, c.WithRankAtLeast(1, 2));
  c.set_output(0, tensor);
  return CheckUpdates(indices, c.input(2), tensor);
}

// Every replica writes its shard of every slice.
absl::StatusOr<ShardingRule> TensorScatterUpdateSharding(const ShardContext& c) {
  const int leading = c.input(1).rank() - 1;
  const int depth = static_cast<int>(c.input(1).dim(leading));
  const std::string slice = LettersFor(c.input(0)).substr(depth);
  const std::string tensor = std::string(depth, '.') + slice;
  return MoveSharding(c,
                      absl::StrCat(tensor, ",", DotsFor(c.input(1)), ",", std::string(leading, '.'),
                                   slice, "->", tensor),
                      {0, 2});
}

absl::StatusOr<std::vector<Output>> TensorScatterUpdateGrad(const GradContext& c) {
  const Output indices = c.op.input(1), updates = c.op.input(2);
  const Output d_updates = ops::GatherNd(c.scope, c.dy[0], indices);
  const Output zeros = ops::ZerosLike(c.scope, updates);
  return std::vector<Output>{ops::TensorScatterUpdate(c.scope, c.dy[0], indices, zeros), Output(),
                             d_updates};
}

absl::StatusOr<std::vector<Output>> GatherNdGrad(const GradContext& c) {
  const Output params = c.op.input(0), indices = c.op.input(1);
  const Output shape = ops::ShapeOperand(c.scope, params, indices.dtype());
  return std::vector<Output>{ops::ScatterNd(c.scope, indices, c.dy[0], shape), Output()};
}

absl::StatusOr<std::vector<Output>> ScatterNdGrad(const GradContext& c) {
  return std::vector<Output>{Output(), ops::GatherNd(c.scope, c.dy[0], c.op.input(0)), Output()};
}

}  // namespace

void RegisterGatherNd(OpRegistry& ops) {
  ops.Define(ops::kGatherNd)
      .Doc("slices of params, each selected by one vector along the last dimension of `indices`")
      .Input("params: Tparams")
      .Input("indices: Tindices")
      .Output("output: Tparams")
      .Attr("Tparams: type")
      .Attr("Tindices: {int32, int64}")
      .Attr("bad_indices_policy: string = ''")
      .Shape(GatherNdShape)
      .Sharding(GatherNdSharding)
      .Gradient(GatherNdGrad);
  ops.Define("ScatterNd")
      .Doc("zeros with updates added at the positions in indices")
      .Input("indices: Tindices")
      .Input("updates: T")
      .StaticInput("shape: Tindices")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("Tindices: {int32, int64}")
      .Attr("bad_indices_policy: string = ''")
      .Shape(ScatterNdShape)
      .Sharding(ScatterNdSharding)
      .Gradient(ScatterNdGrad);
  ops.Define("TensorScatterUpdate")
      .Doc("the tensor with the slices at indices replaced by updates")
      .Input("tensor: T")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, bool}")
      .Attr("Tindices: {int32, int64}")
      .Attr("bad_indices_policy: string = ''")
      .Shape(TensorScatterUpdateShape)
      .Sharding(TensorScatterUpdateSharding)
      .Gradient(TensorScatterUpdateGrad);
}

namespace ops {

Output GatherNd(const Scope& scope, Output params, Output indices) {
  return Apply(scope, kGatherNd, {params, indices});
}

Output ScatterNd(const Scope& scope, Output indices, Output updates, Output shape) {
  return Apply(scope, "ScatterNd", {indices, updates, shape});
}

Output TensorScatterUpdate(const Scope& scope, Output tensor, Output indices, Output updates) {
  return Apply(scope, "TensorScatterUpdate", {tensor, indices, updates});
}

}  // namespace ops
}  // namespace mirrorflow
