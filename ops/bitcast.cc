// SPDX-License-Identifier: Apache-2.0
#include "ops/bitcast.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status BitcastShape(ShapeContext& c) {
  const int64_t from = static_cast<int64_t>(DataTypeSize(c.attr<DataType>("T"))),
                to = static_cast<int64_t>(DataTypeSize(c.attr<DataType>("type")));
  Shape shape = c.input(0);
  if (from > to) {
    if (!shape.unknown_rank()) shape.AddDim(from / to);
  } else if (from < to) {
    MF_ASSIGN_OR_RETURN(shape, c.WithRankAtLeast(0, 1));
    if (shape.unknown_rank()) return absl::OkStatus();
    const int64_t last = shape.dim(shape.rank() - 1);
    if (last != to / from && last != kUnknownDim) {
      return absl::InvalidArgumentError(absl::StrCat("the last dimension must have size ",
                                                     to / from, ", got ", shape.ToString()));
    }
    shape = Shape(shape.dims().subspan(0, shape.rank() - 1));
  }
  return SetOutput(c, shape);
}

// The dimension that the cast adds or removes is not sharded, so that the bytes of an element stay
// together.
absl::StatusOr<ShardingRule> BitcastSharding(const ShardContext& c) {
  const Shape &in = c.input(0), &out = c.output(0);
  std::string from = LettersFor(in), to = LettersFor(out);
  if (in.rank() > out.rank()) from.back() = '.';
  if (out.rank() > in.rank()) to.back() = '.';
  return ShardingRule{.dims = absl::StrCat(from, "->", to)};
}

}  // namespace

void RegisterBitcast(OpRegistry& ops) {
  constexpr absl::string_view kTypes =
      "{bfloat16, half, float, double, int64, int32, uint8, uint16, int8, int16, complex64, "
      "complex128, uint32, uint64}";
  ops.Define("Bitcast")
      .Doc("the same bytes, reinterpreted as elements of dtype `type`")
      .Input("input: T")
      .Output("output: type")
      .Attr(absl::StrCat("T: ", kTypes))
      .Attr(absl::StrCat("type: ", kTypes))
      .Shape(BitcastShape)
      .Sharding(BitcastSharding)
      .NoGradient("the bits of a number are not a continuous function of it");
}

namespace ops {

Output Bitcast(const Scope& scope, Output input, DataType dtype) {
  return Build(scope, "Bitcast", {input}).Attr("type", dtype).One();
}

}  // namespace ops
}  // namespace mirrorflow
