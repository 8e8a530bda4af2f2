// SPDX-License-Identifier: Apache-2.0
#include "ops/softmax.h"

#include "ops/binary.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

absl::Status SoftmaxShape(ShapeContext& c) { return SetOutput(c, c.WithRankAtLeast(0, 1)); }

absl::StatusOr<ShardingRule> SoftmaxSharding(const ShardContext& c) {
  std::string term = LettersFor(c.input(0));
  term.back() = '.';  // a row is normalised as a whole
  return ShardingRule{.dims = term + "->" + term};
}

absl::StatusOr<std::vector<Output>> SoftmaxGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output y = c.op.output(0), dy = c.dy[0];
  const Output mean = ops::Sum(s, ops::Mul(s, dy, y), {-1}, {.keep_dims = true});
  return std::vector<Output>{ops::Mul(s, ops::Sub(s, dy, mean), y)};
}

absl::StatusOr<std::vector<Output>> LogSoftmaxGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output dy = c.dy[0], softmax = ops::Exp(s, c.op.output(0));
  const Output sum = ops::Sum(s, dy, {-1}, {.keep_dims = true});
  return std::vector<Output>{ops::Sub(s, dy, ops::Mul(s, sum, softmax))};
}

}  // namespace

void RegisterSoftmax(OpRegistry& ops) {
  ops.Define(ops::kSoftmax)
      .Doc("softmax[…,c] = exp(logits[…,c]) / sum_c exp(logits[…,c])")
      .Input("logits: T")
      .Output("softmax: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Shape(SoftmaxShape)
      .Sharding(SoftmaxSharding)
      .Gradient(SoftmaxGrad);
  ops.Define("LogSoftmax")
      .Doc("logsoftmax[…,c] = logits[…,c] - log sum_c exp(logits[…,c])")
      .Input("logits: T")
      .Output("logsoftmax: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Shape(SoftmaxShape)
      .Sharding(SoftmaxSharding)
      .Gradient(LogSoftmaxGrad);
}

namespace ops {

Output Softmax(const Scope& scope, Output logits) { return Apply(scope, kSoftmax, {logits}); }

Output LogSoftmax(const Scope& scope, Output logits) {
  return Apply(scope, "LogSoftmax", {logits});
}

}  // namespace ops
}  // namespace mirrorflow
