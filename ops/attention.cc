// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/broadcast_gradient.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/matmul.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/softmax.h"
#include "ops/strided_slice.h"
#include "ops/transpose.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

using Outputs = absl::StatusOr<std::vector<Output>>;

// ---- shapes and shardings -------------------------------------------------------------------

struct Dims {
  int64_t batch, heads, queries, keys, depth, value_depth;
};

absl::Status Merge(const ShapeContext& c, int i, std::initializer_list<int64_t*> dims) {
  MF_ASSIGN_OR_RETURN(const Shape shape, c.WithRank(i, static_cast<int64_t>(dims.size())));
  std::vector<int64_t> known;
  for (const int64_t* dim : dims) known.push_back(*dim);
  MF_ASSIGN_OR_RETURN(const Shape merged,
                      MergeShapes(Shape(known), shape, c.node().op().inputs[i].name,
                                  " does not match the operands before it"));
  int d = 0;
  for (int64_t* dim : dims) *dim = merged.dim(d++);
  return absl::OkStatus();
}

bool HeadsInside(const Node& node) { return node.attr<bool>("heads_inside"); }

// Merges the dimensions of input `i`, which has `rows` rows of `columns` elements per head, into
// `d`.
absl::Status MergeRows(const ShapeContext& c, int i, Dims* d, int64_t* rows, int64_t* columns) {
  return HeadsInside(c.node()) ? Merge(c, i, {&d->batch, rows, &d->heads, columns})
                               : Merge(c, i, {&d->batch, &d->heads, rows, columns});
}
Shape RowsShape(const ShapeContext& c, const Dims& d, int64_t rows, int64_t columns) {
  return HeadsInside(c.node()) ? Shape({d.batch, rows, d.heads, columns})
                               : Shape({d.batch, d.heads, rows, columns});
}

// Merges the dimensions of q, k and v, which are inputs `first` to `first` + 2.
absl::StatusOr<Dims> MergeOperands(const ShapeContext& c, int first) {
  Dims d = {kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim};
  MF_RETURN_IF_ERROR(MergeRows(c, first, &d, &d.queries, &d.depth));
  MF_RETURN_IF_ERROR(MergeRows(c, first + 1, &d, &d.keys, &d.depth));
  MF_RETURN_IF_ERROR(MergeRows(c, first + 2, &d, &d.keys, &d.value_depth));
  return d;
}

// Checks that the mask, if input `i` exists, broadcasts to all pairs of queries and keys.
absl::Status CheckMask(const ShapeContext& c, int i, const Dims& d) {
  const int64_t masks = c.attr<int64_t>("num_masks");
  if (masks > 1) {
    return absl::InvalidArgumentError(absl::StrCat("num_masks must be 0 or 1, got ", masks));
  }
  if (masks == 0) return absl::OkStatus();
  const Shape pairs({d.batch, d.heads, d.queries, d.keys});
  const absl::StatusOr<Shape> shape = BroadcastShapes(pairs, c.input(i));
  if (shape.ok() && (shape->unknown_rank() || shape->IsCompatibleWith(pairs))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("mask must broadcast to ", pairs.ToString(), ", got ", c.input(i).ToString()));
}

absl::Status AttentionShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Dims d, MergeOperands(c, 0));
  MF_RETURN_IF_ERROR(CheckMask(c, 3, d));
  return SetOutputs(
      c, {RowsShape(c, d, d.queries, d.value_depth), Shape({d.batch, d.heads, d.queries})});
}

absl::Status AttentionGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Dims d, MergeOperands(c, 1));
  for (const int i : {0, 4}) {
    MF_RETURN_IF_ERROR(MergeRows(c, i, &d, &d.queries, &d.value_depth));
  }
  MF_RETURN_IF_ERROR(Merge(c, 5, {&d.batch, &d.heads, &d.queries}));
  MF_RETURN_IF_ERROR(CheckMask(c, 6, d));
  return SetOutputs(c, {RowsShape(c, d, d.queries, d.depth), RowsShape(c, d, d.keys, d.depth),
                        RowsShape(c, d, d.keys, d.value_depth)});
}

// Returns `,` and the mask's term, or an empty string if input `i` does not exist. Dimensions that
// the mask is broadcast along must not be sharded.
std::string MaskTerm(const ShardContext& c, int i) {
  if (i >= c.num_inputs()) return "";
  const Shape &mask = c.input(i), &rows = c.input(0);
  const int dims[] = {0, HeadsInside(c.node()) ? 2 : 1};  // batch and heads
  std::string term(mask.rank(), '.');
  for (int d = 0; d < 2; ++d) {
    const int at = mask.rank() - 4 + d;
    if (at >= 0 && mask.dim(at) == rows.dim(dims[d])) term[at] = static_cast<char>('a' + d);
  }
  return absl::StrCat(",", term);
}

// Returns the sharding term of an operand or result that has rows for each head.
const char* RowsTerm(const ShardContext& c) { return HeadsInside(c.node()) ? "a.b." : "ab.."; }

// Examples and heads are independent, so both dimensions can be sharded.
absl::StatusOr<ShardingRule> AttentionSharding(const ShardContext& c) {
  const char* const rows = RowsTerm(c);
  return ShardingRule{
      .dims = absl::StrCat(rows, ",", rows, ",", rows, MaskTerm(c, 3), "->", rows, ",ab.")};
}
absl::StatusOr<ShardingRule> AttentionGradSharding(const ShardContext& c) {
  const std::string rows = RowsTerm(c), three = absl::StrCat(rows, ",", rows, ",", rows);
  return ShardingRule{
      .dims = absl::StrCat(three, ",", rows, ",", rows, ",ab.", MaskTerm(c, 6), "->", three),
      .linearity = Linearity::kMulti,
      .linear_inputs = {0}};
}

// ---- expansion into TensorFlow's ops --------------------------------------------------------

// Builds the formulas of both ops from TensorFlow's ops, in log_sum's dtype and with heads as the
// second dimension. `first` is the index of input q.
class AttentionFormulas {
 public:
  AttentionFormulas(const Scope& scope, const Node& op, int first)
      : s_(scope),
        dtype_(op.attr<DataType>("U")),
        result_dtype_(op.output_dtype(0)),
        heads_inside_(HeadsInside(op)),
        q_(Rows(op.input(first))),
        k_(Rows(op.input(first + 1))),
        v_(Rows(op.input(first + 2))),
        scale_(ops::ScalarConst(scope, dtype_, op.attr<float>("scale"))) {
    scores_ = ops::Mul(s_, ops::BatchMatMulV2(s_, q_, k_, {.adj_y = true}), scale_);
    if (op.attr<int64_t>("num_masks") > 0) {
      masked_ = ops::AddV2(s_, scores_, Wide(op.inputs().back()));
      scores_ = masked_;
    }
    if (op.attr<bool>("causal")) scores_ = Causal(scores_);
  }

  Output Wide(Output x) const { return ops::CastTo(s_, x, dtype_); }
  // Converts an operand that has rows for each head to the dtype and layout of the formulas.
  Output Rows(Output x) const { return SwapHeads(Wide(x)); }
  // Converts a result that has rows for each head to the op's dtype and layout.
  Output Result(Output x) const { return SwapHeads(ops::CastTo(s_, x, result_dtype_)); }
  Output Scores() const { return scores_; }
  // Returns the sum of scores and mask, before causal masking.
  Output Masked() const { return masked_; }
  Output Values() const { return ops::BatchMatMulV2(s_, ops::Softmax(s_, scores_), v_); }
  Output LogSum() const {
    const Output largest = ops::Max(s_, scores_, {-1}, {.keep_dims = true});
    const Output sum = ops::Sum(s_, ops::Exp(s_, ops::Sub(s_, scores_, largest)), {-1});
    return ops::AddV2(s_, ops::Squeeze(s_, largest, {{-1}}), ops::Log(s_, sum));
  }

  Output Weights(Output log_sum) const {
    return ops::Exp(s_, ops::Sub(s_, scores_, ops::ExpandDims(s_, log_sum, -1)));
  }
  // Returns the gradient of the scores.
  Output ScoreGradient(Output weights, Output dy, Output y) const {
    const Output products = ops::Sum(s_, ops::Mul(s_, dy, y), {-1}, {.keep_dims = true});
    const Output dweights = ops::BatchMatMulV2(s_, dy, v_, {.adj_y = true});
    return ops::Mul(s_, weights, ops::Sub(s_, dweights, products));
  }
  Output QueryGradient(Output dscores) const {
    return ops::Mul(s_, ops::BatchMatMulV2(s_, dscores, k_), scale_);
  }
  Output KeyGradient(Output dscores) const {
    return ops::Mul(s_, ops::BatchMatMulV2(s_, dscores, q_, {.adj_x = true}), scale_);
  }

 private:
  Output SwapHeads(Output x) const {
    return heads_inside_ ? ops::Transpose(s_, x, {0, 2, 1, 3}) : x;
  }
  Output Causal(Output scores) const {
    const Output shape = ops::Shape(s_, scores);
    const auto numbers = [&](int64_t dim) {
      return ops::Range(s_, ops::ScalarConst(s_, DT_INT32, 0), ops::ElementOf(s_, shape, dim),
                        ops::ScalarConst(s_, DT_INT32, 1));
    };
    const Output seen = ops::LessEqual(s_, numbers(3), ops::ExpandDims(s_, numbers(2), -1));
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    return ops::SelectV2(s_, seen, scores, ops::ScalarConst(s_, dtype_, kNever));
  }

  const Scope s_;
  const DataType dtype_, result_dtype_;
  const bool heads_inside_;
  const Output q_, k_, v_, scale_;
  Output scores_, masked_;
};

Outputs ExpandAttention(const Scope& s, const Node& op) {
  const AttentionFormulas a(s, op, 0);
  return std::vector<Output>{a.Result(a.Values()), a.LogSum()};
}

Outputs ExpandAttentionGrad(const Scope& s, const Node& op) {
  const AttentionFormulas a(s, op, 1);
  const Output dy = a.Rows(op.input(0)), y = a.Rows(op.input(4));
  const Output weights = a.Weights(op.input(5));
  const Output dscores = a.ScoreGradient(weights, dy, y);
  const Output dv = ops::BatchMatMulV2(s, weights, dy, {.adj_x = true});
  return std::vector<Output>{a.Result(a.QueryGradient(dscores)), a.Result(a.KeyGradient(dscores)),
                             a.Result(dv)};
}

// ---- gradient -------------------------------------------------------------------------------

// The gradient op computes the gradients through y. The mask's gradient and the gradients through
// log_sum are rarely needed, so they are built from TensorFlow's ops; unused nodes are pruned.
Outputs GradientOfAttention(const GradContext& c) {
  const Scope& s = c.scope;
  const Node& op = c.op;
  const bool has_mask = op.attr<int64_t>("num_masks") > 0;
  std::vector<Output> grads(op.num_inputs());
  const DataType dtype = op.output_dtype(0);
  const Output y = op.output(0), log_sum = op.output(1);
  if (c.dy[0].valid()) {
    ops::AttentionOptions options{.scale = op.attr<float>("scale"),
                                  .causal = op.attr<bool>("causal"),
                                  .heads_inside = HeadsInside(op)};
    if (has_mask) options.mask = op.input(3);
    const auto of_y = ops::ScaledDotProductAttentionGrad(s, c.dy[0], op.input(0), op.input(1),
                                                         op.input(2), y, log_sum, options);
    grads[0] = of_y.dq;
    grads[1] = of_y.dk;
    grads[2] = of_y.dv;
  }
  if (!has_mask && !c.dy[1].valid()) return grads;
  const AttentionFormulas a(s, op, 0);
  const Output weights = a.Weights(log_sum);
  Output dscores;
  if (c.dy[0].valid()) dscores = a.ScoreGradient(weights, a.Rows(c.dy[0]), a.Rows(y));
  if (c.dy[1].valid()) {
    const Output of_log_sum = ops::Mul(s, weights, ops::ExpandDims(s, c.dy[1], -1));
    const auto add = [&](Output* grad, Output more) {
      *grad = grad->valid() ? ops::AddV2(s, *grad, more) : more;
    };
    add(&grads[0], a.Result(a.QueryGradient(of_log_sum)));
    add(&grads[1], a.Result(a.KeyGradient(of_log_sum)));
    add(&dscores, of_log_sum);
  }
  if (has_mask && s.ok()) {
    const GradContext sum{s, *a.Masked().node, {}};
    grads[3] = ops::CastTo(s, SumToOperand(sum, 1, dscores), dtype);
  }
  return grads;
}

OpBuilder& Attrs(OpBuilder& op) {
  return op.Input("mask: num_masks * T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("U: {float, double} = float")
      .Attr("scale: float = 1.0")
      .Attr("causal: bool = false")
      .Attr("num_masks: int >= 0 = 0")
      .Attr("heads_inside: bool = false")
      .Traits(kOwnOp | kSumsProducts);
}

}  // namespace

void RegisterAttention(OpRegistry& ops) {
  Attrs(ops.Define(ops::kScaledDotProductAttention)
            .Doc("y = softmax(scale * q · kᵀ + mask) · v, per head")
            .Input("q: T")
            .Input("k: T")
            .Input("v: T"))
      .Output("y: T")
      .Output("log_sum: U")
      .Shape(AttentionShape)
      .Sharding(AttentionSharding)
      .Expand(ExpandAttention)
      .Gradient(GradientOfAttention);
  Attrs(ops.Define(ops::kScaledDotProductAttentionGrad)
            .Doc("the gradients of q, k and v of ScaledDotProductAttention")
            .Input("dy: T")
            .Input("q: T")
            .Input("k: T")
            .Input("v: T")
            .Input("y: T")
            .Input("log_sum: U"))
      .Output("dq: T")
      .Output("dk: T")
      .Output("dv: T")
      .Shape(AttentionGradShape)
      .Sharding(AttentionGradSharding)
      .Expand(ExpandAttentionGrad)
      .NoGradient("second derivatives of attention are not implemented");
}

namespace ops {
namespace {

std::vector<Output> Finish(NodeBuilder node, const AttentionOptions& options, int num_outputs) {
  std::vector<Output> masks;
  if (options.mask.valid()) masks.push_back(options.mask);
  return OutputsOf(std::move(node)
                       .InputList(masks)
                       .Attr("num_masks", static_cast<int64_t>(masks.size()))
                       .Attr("scale", options.scale)
                       .Attr("causal", options.causal)
                       .Attr("heads_inside", options.heads_inside)
                       .Finish(),
                   num_outputs);
}

}  // namespace

AttentionOutputs ScaledDotProductAttention(const Scope& scope, Output q, Output k, Output v,
                                           const AttentionOptions& options) {
  AttentionOptions scaled = options;
  if (options.scale == 0 && scope.ok()) {
    const mirrorflow::Shape& shape = scope.shape(q);
    const int64_t depth = shape.unknown_rank() || shape.rank() != 4 ? kUnknownDim : shape.dim(3);
    if (depth == kUnknownDim) {
      scope.Fail(absl::InvalidArgumentError(
          absl::StrCat(kScaledDotProductAttention,
                       ": the last dimension of q must be known unless a scale is set, got shape ",
                       shape.ToString())));
      return {};
    }
    scaled.scale = static_cast<float>(1 / std::sqrt(std::max<double>(depth, 1)));
  }
  const DataType sum_dtype = q.valid() && q.dtype() == DT_DOUBLE ? DT_DOUBLE : DT_FLOAT;
  const std::vector<Output> y =
      Finish(Build(scope, kScaledDotProductAttention, {q, k, v}).Attr("U", sum_dtype), scaled, 2);
  return {y[0], y[1]};
}

AttentionGradOutputs ScaledDotProductAttentionGrad(const Scope& scope, Output dy, Output q,
                                                   Output k, Output v, Output y, Output log_sum,
                                                   const AttentionOptions& options) {
  const std::vector<Output> d =
      Finish(Build(scope, kScaledDotProductAttentionGrad, {dy, q, k, v, y, log_sum}), options, 3);
  return {d[0], d[1], d[2]};
}

}  // namespace ops
}  // namespace mirrorflow
