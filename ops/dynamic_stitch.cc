// SPDX-License-Identifier: Apache-2.0
#include "ops/dynamic_stitch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/gather.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status StitchShape(ShapeContext& c) {
  const int n = static_cast<int>(c.attr<int64_t>("N"));
  int64_t num_rows = 0;  // becomes kUnknownDim if any index is unknown
  Shape row = Shape::UnknownRank();
  for (int k = 0; k < n; ++k) {
    MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> indices, c.integers(k));
    for (int64_t i : indices.value_or(std::vector<int64_t>())) {
      if (i < 0 || i >= std::numeric_limits<int32_t>::max()) {
        return absl::InvalidArgumentError(absl::StrCat("indices must be >= 0, got ", i));
      }
      if (num_rows != kUnknownDim) num_rows = std::max(num_rows, i + 1);
    }
    if (!indices.has_value()) num_rows = kUnknownDim;
    const Shape &at = c.input(k), &data = c.input(n + k);
    if (at.unknown_rank() || data.unknown_rank()) continue;
    const bool long_enough = data.rank() >= at.rank();
    if (!long_enough || !Shape(data.dims().subspan(0, at.rank())).IsCompatibleWith(at)) {
      return absl::InvalidArgumentError(absl::StrCat("data ", k, " must start with the dimensions ",
                                                     "of its indices ", at.ToString(), ", got ",
                                                     data.ToString()));
    }
    MF_ASSIGN_OR_RETURN(
        row, MergeShapes(row, Shape(data.dims().subspan(at.rank())), "the rows of data ", k,
                         " must have the same shape as those of the data before it"));
  }
  if (row.unknown_rank()) return absl::OkStatus();
  Shape output({num_rows});
  for (int64_t d : row.dims()) output.AddDim(d);
  return SetOutput(c, output);
}

absl::StatusOr<ShardingRule> StitchSharding(const ShardContext& c) {
  const int n = c.num_inputs() / 2;
  const std::string row = LettersFor(c.output(0)).substr(1);
  std::vector<std::string> terms;
  std::vector<int> data;
  for (int k = 0; k < n; ++k) terms.push_back(DotsFor(c.input(k)));
  for (int k = 0; k < n; ++k) {
    terms.push_back(DotsFor(c.input(k)) + row);
    data.push_back(n + k);
  }
  return MoveSharding(c, absl::StrCat(absl::StrJoin(terms, ","), "->.", row), data);
}

// Returns true if all indices are known and no two are equal.
bool AreDistinct(const Scope& s, absl::Span<const Output> indices) {
  std::set<int64_t> seen;
  for (const Output& some : indices) {
    const Tensor& known = s.graph().values().at(some).constant;
    if (!known.has_value()) return false;
    for (int32_t i : known.flat<int32_t>()) {
      if (!seen.insert(i).second) return false;
    }
  }
  return true;
}

// Marks the rows of each data tensor that appear in the result: the last row for each index.
// Stitching the row numbers finds them.
std::vector<Output> LastRows(const Scope& s, absl::Span<const Output> indices) {
  const Output zero = ops::ScalarConst(s, DT_INT32, 0), one = ops::ScalarConst(s, DT_INT32, 1);
  std::vector<Output> numbers, is_last;
  Output first = zero;
  for (const Output& some : indices) {
    const Output end = ops::AddV2(s, first, ops::Size(s, some));
    numbers.push_back(ops::ReshapeLike(s, ops::Range(s, first, end, one), some));
    first = end;
  }
  const Output last_rows = ops::DynamicStitch(s, indices, numbers);
  for (size_t k = 0; k < indices.size(); ++k) {
    is_last.push_back(ops::Equal(s, ops::GatherV2(s, last_rows, indices[k], zero), numbers[k]));
  }
  return is_last;
}

absl::StatusOr<std::vector<Output>> StitchGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const int n = c.op.num_inputs() / 2;
  const absl::Span<const Output> indices = c.op.inputs().first(n);
  std::vector<Output> grads(n);
  const Output axis = ops::ScalarConst(s, DT_INT32, 0);
  for (const Output& some : indices) grads.push_back(ops::GatherV2(s, c.dy[0], some, axis));
  if (AreDistinct(s, indices)) return grads;

  const std::vector<Output> is_last = LastRows(s, indices);
  const Output nothing = ops::ScalarConst(s, c.dy[0].dtype(), 0);
  for (int k = 0; k < n; ++k) {
    const Shape at = s.shape(indices[k]), data = s.shape(c.op.input(n + k));
    if (at.unknown_rank() || data.unknown_rank()) {
      return absl::InvalidArgumentError("the gradient requires known ranks of indices and data");
    }
    Output mask = is_last[k];
    for (int d = at.rank(); d < data.rank(); ++d) {
      mask = ops::ExpandDims(s, mask, int64_t{-1});
    }
    grads[n + k] = ops::SelectV2(s, mask, grads[n + k], nothing);
  }
  return grads;
}

}  // namespace

void RegisterDynamicStitch(OpRegistry& ops) {
  ops.Define("DynamicStitch")
      .Doc(
          "merged[indices[k][i]] = data[k][i]; if an index occurs more than once, its last row "
          "wins")
      .StaticInput("indices: N * int32")
      .Input("data: N * T")
      .Output("merged: T")
      .Attr("N: int >= 1")
      .Attr("T: type")
      .Shape(StitchShape)
      .Sharding(StitchSharding)
      .Gradient(StitchGrad);
}

namespace ops {

Output DynamicStitch(const Scope& scope, absl::Span<const Output> indices,
                     absl::Span<const Output> data) {
  return Build(scope, "DynamicStitch").InputList(indices).InputList(data).One();
}

}  // namespace ops
}  // namespace mirrorflow
