// SPDX-License-Identifier: Apache-2.0
#include "ops/concat.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/slice.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

std::vector<int> InputsFrom(int first, int n) {
  std::vector<int> inputs(n);
  for (int i = 0; i < n; ++i) inputs[i] = first + i;
  return inputs;
}

// The indices of the axis and of the first value among the inputs of Concat or ConcatV2.
struct ConcatInputs {
  explicit ConcatInputs(const Node& node)
      : n(static_cast<int>(node.attr<int64_t>("N"))),
        axis(node.op().inputs[0].name == "concat_dim" ? 0 : n),
        first(axis == 0 ? 1 : 0) {}
  int n, axis, first;
};

// --- Concat, ConcatV2 and ConcatOffset ---------------------------------------------------------

absl::StatusOr<Shape> ConcatShapes(absl::Span<const Shape> shapes, int axis) {
  Shape output = shapes[0];
  for (size_t i = 1; i < shapes.size(); ++i) {
    if (shapes[i].rank() != output.rank()) {
      return absl::InvalidArgumentError(absl::StrCat("inputs must have equal ranks, got ",
                                                     shapes[0].ToString(), " and, for input ", i,
                                                     ", ", shapes[i].ToString()));
    }
    const int64_t a = output.dim(axis), b = shapes[i].dim(axis);
    const bool known = a != kUnknownDim && b != kUnknownDim;
    Shape other = shapes[i];
    other.set_dim(axis, a);
    absl::StatusOr<Shape> merged = output.MergeWith(other);
    if (!merged.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("inputs must have equal dimensions except dimension ", axis, ", got ",
                       shapes[0].ToString(), " and, for input ", i, ", ", shapes[i].ToString()));
    }
    int64_t size = kUnknownDim;
    if (known && __builtin_add_overflow(a, b, &size)) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", axis, " overflows"));
    }
    output = *std::move(merged);
    output.set_dim(axis, size);
  }
  return output;
}

absl::Status ConcatShape(ShapeContext& c) {
  const ConcatInputs at(c.node());
  const int end = at.first + at.n;
  // All ranks are equal, so one known rank determines them all.
  int rank = -1;
  for (int i = at.first; i < end; ++i) {
    if (!c.input(i).unknown_rank()) rank = c.input(i).rank();
  }
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> given_axis, IntegerInput(c, at.axis));
  if (rank < 0) return absl::OkStatus();
  std::vector<Shape> shapes;
  for (int i = at.first; i < end; ++i) {
    MF_ASSIGN_OR_RETURN(Shape shape, c.WithRank(i, rank));
    shapes.push_back(std::move(shape));
  }
  c.set_output(0, Shape::UnknownDims(rank));
  if (rank == 0) {
    return absl::InvalidArgumentError("inputs must have at least one dimension, got scalars");
  }
  if (!given_axis.has_value()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*given_axis, rank));
  MF_ASSIGN_OR_RETURN(const Shape output, ConcatShapes(shapes, axis));
  c.set_output(0, output);
  const bool is_short = rank == 1 && output.dim(0) <= kMaxKnownElements;
  if (!is_short || output.dim(0) == kUnknownDim) return absl::OkStatus();
  KnownElements elements;
  for (int i = at.first; i < end; ++i) {
    const std::optional<KnownElements> part = ElementsOf(c, i);
    if (!part.has_value()) return absl::OkStatus();
    elements.insert(elements.end(), part->begin(), part->end());
  }
  SetVector(c, 0, elements);
  return absl::OkStatus();
}

// The axis must not be sharded: concatenating shards along it would interleave the pieces.
absl::StatusOr<ShardingRule> ConcatSharding(const ShardContext& c) {
  const ConcatInputs at(c.node());
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axis, c.integers(at.axis));
  std::string term = LettersFor(c.output(0));
  MF_ASSIGN_OR_RETURN(const int d, NormalizeAxis(axis[0], c.output(0).rank()));
  term[d] = '.';
  std::vector<std::string> terms(c.num_inputs(), term);
  terms[at.axis] = DotsFor(c.input(at.axis));
  return MoveSharding(c, absl::StrCat(absl::StrJoin(terms, ","), "->", term),
                      InputsFrom(at.first, at.n));
}

// Returns slices of dy with static bounds, or an empty vector if the pieces have unknown sizes
// along the axis.
absl::StatusOr<std::vector<Output>> StaticConcatGrad(const GradContext& c, const ConcatInputs& at) {
  const Scope& s = c.scope;
  const Tensor axis_value = s.graph().values().at(c.op.input(at.axis)).constant;
  const int rank = s.shape(c.dy[0]).unknown_rank() ? 0 : s.shape(c.dy[0]).rank();
  std::vector<Output> grads;
  if (!axis_value.has_value() || rank == 0) return grads;
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> given, IntegersOf(axis_value));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given[0], rank));
  const absl::Span<const Output> values = c.op.inputs().subspan(at.first, at.n);
  for (const Output& value : values) {
    const Shape& piece = s.shape(value);
    if (piece.unknown_rank() || piece.dim(axis) == kUnknownDim) return grads;
  }
  std::vector<int64_t> begin(rank, 0), size(rank, -1);
  for (const Output& value : values) {
    size[axis] = s.shape(value).dim(axis);
    grads.push_back(ops::Slice(s, c.dy[0], ops::VectorConst(s, begin), ops::VectorConst(s, size)));
    begin[axis] += size[axis];
  }
  return grads;
}

absl::StatusOr<std::vector<Output>> ConcatGrad(const GradContext& c) {
  const ConcatInputs at(c.op);
  MF_ASSIGN_OR_RETURN(std::vector<Output> grads, StaticConcatGrad(c, at));
  if (grads.empty()) {
    const auto shapes = ops::ShapeN(c.scope, c.op.inputs().subspan(at.first, at.n));
    const auto offsets = ops::ConcatOffset(c.scope, c.op.input(at.axis), shapes);
    for (int i = 0; i < at.n; ++i) {
      grads.push_back(ops::Slice(c.scope, c.dy[0], offsets[i], shapes[i]));
    }
  }
  grads.insert(grads.begin() + at.axis, Output());
  return grads;
}

absl::Status ConcatOffsetShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> given_axis, IntegerInput(c, 0));
  std::vector<Shape> shapes;
  for (int i = 1; i < c.num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(const Shape vector, c.WithRank(i, 1));
    c.set_output(i - 1, vector);
    MF_ASSIGN_OR_RETURN(Shape shape, c.input_as_shape(i));
    shapes.push_back(std::move(shape));
  }
  if (!given_axis.has_value() || shapes[0].unknown_rank()) return absl::OkStatus();
  const int rank = shapes[0].rank();
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(*given_axis, rank, "concat_dim"));
  KnownElements offset(rank, 0);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].unknown_rank()) return absl::OkStatus();
    MF_RETURN_IF_ERROR(ConcatShapes({shapes[0], shapes[i]}, axis).status());
    SetVector(c, static_cast<int>(i), offset);
    const int64_t size = shapes[i].dim(axis);
    if (size == kUnknownDim) offset[axis].reset();
    int64_t next = 0;
    if (offset[axis].has_value() && __builtin_add_overflow(*offset[axis], size, &next)) {
      return absl::InvalidArgumentError(absl::StrCat("offset of input ", i + 1, " overflows"));
    }
    if (offset[axis].has_value()) offset[axis] = next;
  }
  return absl::OkStatus();
}

// --- Pack and Unpack -------------------------------------------------------------------------

absl::Status PackShape(ShapeContext& c) {
  Shape piece = Shape::UnknownRank();
  for (int i = 0; i < c.num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(piece, MergeShapes(piece, c.input(i), "input ", i,
                                           " must have the same shape as the inputs before it"));
  }
  if (piece.unknown_rank()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), piece.rank() + 1));
  c.set_output(0, WithDim(piece, axis, c.num_inputs()));
  if (piece.rank() != 0) return absl::OkStatus();
  KnownElements elements;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const std::optional<KnownElements> element = ElementsOf(c, i);
    if (!element.has_value()) return absl::OkStatus();
    elements.push_back((*element)[0]);
  }
  SetVector(c, 0, elements);
  return absl::OkStatus();
}

// The sharding terms of the packed tensor and of a piece, with one letter for each dimension except
// the new one.
struct PackTerms {
  std::string packed;
  std::string piece;
};
absl::StatusOr<PackTerms> TermsOfPack(const ShardContext& c, const Shape& packed) {
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node().attr<int64_t>("axis"), packed.rank()));
  PackTerms terms{LettersFor(packed), LettersFor(packed)};
  terms.packed[axis] = '.';
  terms.piece.erase(axis, 1);
  return terms;
}

absl::StatusOr<ShardingRule> PackSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const PackTerms terms, TermsOfPack(c, c.output(0)));
  const std::vector<std::string> pieces(c.num_inputs(), terms.piece);
  return MoveSharding(c, absl::StrCat(absl::StrJoin(pieces, ","), "->", terms.packed),
                      InputsFrom(0, c.num_inputs()));
}

absl::StatusOr<std::vector<Output>> PackGrad(const GradContext& c) {
  return ops::Unpack(c.scope, c.dy[0], c.op.num_inputs(), {.axis = c.op.attr<int64_t>("axis")});
}

absl::Status UnpackShape(ShapeContext& c) {
  const int64_t num = c.attr<int64_t>("num");
  const Shape& value = c.input(0);
  if (value.unknown_rank()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), value.rank()));
  if (value.dim(axis) != kUnknownDim && value.dim(axis) != num) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimension ", axis, " must have size ", num, ", got ", value.ToString()));
  }
  Shape piece;
  for (int d = 0; d < value.rank(); ++d) {
    if (d != axis) piece.AddDim(value.dim(d));
  }
  const std::optional<KnownElements> elements = ElementsOf(c, 0);
  for (int i = 0; i < num; ++i) {
    c.set_output(i, piece);
    if (elements.has_value()) SetScalar(c, i, (*elements)[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> UnpackSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const PackTerms terms, TermsOfPack(c, c.input(0)));
  const std::vector<std::string> pieces(c.num_outputs(), terms.piece);
  return MoveSharding(c, absl::StrCat(terms.packed, "->", absl::StrJoin(pieces, ",")), {0});
}

absl::StatusOr<std::vector<Output>> UnpackGrad(const GradContext& c) {
  std::vector<Output> pieces(c.dy.begin(), c.dy.end());
  for (int i = 0; i < c.op.num_outputs(); ++i) {
    if (!pieces[i].valid()) pieces[i] = ops::ZerosLike(c.scope, c.op.output(i));
  }
  return std::vector<Output>{ops::Pack(c.scope, pieces, {.axis = c.op.attr<int64_t>("axis")})};
}

}  // namespace

void RegisterConcat(OpRegistry& ops) {
  ops.Define("Concat")
      .Doc("the values concatenated along dimension `concat_dim`")
      .StaticInput("concat_dim: int32")
      .Input("values: N * T")
      .Output("output: T")
      .Attr("N: int >= 2")
      .Attr("T: type")
      .Shape(ConcatShape)
      .Sharding(ConcatSharding)
      .Gradient(ConcatGrad);
  ops.Define("ConcatV2")
      .Doc("the values concatenated along dimension `axis`")
      .Input("values: N * T")
      .StaticInput("axis: Tidx")
      .Output("output: T")
      .Attr("N: int >= 2")
      .Attr("T: type")
      .Attr("Tidx: {int32, int64} = int32")
      .Traits(kKeepsPrecision)
      .Shape(ConcatShape)
      .Sharding(ConcatSharding)
      .Gradient(ConcatGrad);
  ops.Define("ConcatOffset")
      .Doc("for tensors of these shapes, the offset of each in their concatenation")
      .StaticInput("concat_dim: int32")
      .Input("shape: N * shape_type")
      .Output("offset: N * shape_type")
      .Attr("N: int >= 2")
      .Attr("shape_type: {int32, int64} = int32")
      .Shape(ConcatOffsetShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("shapes are not continuous values");
  ops.Define("Pack")
      .Doc("the values stacked along a new dimension `axis`")
      .Input("values: N * T")
      .Output("output: T")
      .Attr("N: int >= 1")
      .Attr("T: type")
      .Attr("axis: int = 0")
      .Shape(PackShape)
      .Sharding(PackSharding)
      .Gradient(PackGrad);
  ops.Define("Unpack")
      .Doc("the `num` slices along dimension `axis`, without that dimension")
      .Input("value: T")
      .Output("output: num * T")
      .Attr("num: int >= 0")
      .Attr("T: type")
      .Attr("axis: int = 0")
      .Shape(UnpackShape)
      .Sharding(UnpackSharding)
      .Gradient(UnpackGrad);
}

namespace ops {

Output ConcatV2(const Scope& scope, absl::Span<const Output> values, Output axis) {
  return Build(scope, "ConcatV2").InputList(values).Input(axis).One();
}

Output ConcatV2(const Scope& scope, absl::Span<const Output> values, int64_t axis) {
  return ConcatV2(scope, values, OperandConst(scope, "axis", axis));
}

Output Concat(const Scope& scope, Output concat_dim, absl::Span<const Output> values) {
  return Build(scope, "Concat", {concat_dim}).InputList(values).One();
}

std::vector<Output> ConcatOffset(const Scope& scope, Output concat_dim,
                                 absl::Span<const Output> shapes) {
  Node* node = Build(scope, "ConcatOffset", {concat_dim}).InputList(shapes).Finish();
  return OutputsOf(node, shapes.size());
}

Output Pack(const Scope& scope, absl::Span<const Output> values, const PackOptions& options) {
  return Build(scope, "Pack").InputList(values).Attr("axis", options.axis).One();
}

std::vector<Output> Unpack(const Scope& scope, Output value, int64_t num,
                           const UnpackOptions& options) {
  Node* node = Build(scope, "Unpack", {value}).Attr("num", num).Attr("axis", options.axis).Finish();
  return OutputsOf(node, num);
}

}  // namespace ops
}  // namespace mirrorflow
