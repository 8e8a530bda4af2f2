// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/gradient_accumulation.h"

#include "framework/graph/shape_inference.h"
#include "framework/runtime/variable_layout.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/collectives.h"
#include "ops/constant.h"
#include "ops/control_flow/control_flow.h"
#include "ops/gather.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "train/graph_walk.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

Output ZerosOf(const Scope& s, const Shape& shape, DataType dtype) {
  return ops::Fill(s, ops::VectorConst(s, shape.dims()), ops::ScalarConst(s, dtype, 0));
}

// Accumulates sums over several steps. Each replica holds its part of every sum.
class Accumulators {
 public:
  Accumulators(const Scope& scope, Output is_last, Output weight, bool may_overflow)
      : s_(scope), is_last_(is_last), weight_(weight), may_overflow_(may_overflow) {}

  // Adds weight * value to the sum `name`. `shape` is the shape of `value`.
  void Add(absl::string_view name, const Output& value, const Shape& shape) {
    const DataType dtype = value.dtype();
    const Variable sum = CreateOptimizerState(s_, name, shape, initializers::Zeros(), dtype,
                                              VariableSynchronization::kOnRead);
    if (!s_.ok()) return;
    if (may_overflow_) s_.graph().SetAttr(sum.handle.node, kMayOverflowAttr, true);
    const Term part(s_, ops::LocalPart(s_, value));
    const Term total =
        Term(s_, ops::LocalPart(s_, sum.value)) + part * Term(s_, ops::Cast(s_, weight_, dtype));
    updates_.push_back(ops::AssignVariableOp(
        s_, sum.handle, ops::SelectV2(s_, is_last_, ops::ZerosLike(s_, total), total)));
    totals_.push_back(total);
    shapes_.push_back(shape);
  }

  // Returns the sums over all replicas, in the order of the Add() calls. They are zero except in
  // the last accumulated step.
  std::vector<Output> Reduce() const {
    return ops::If(
        s_, is_last_, totals_,
        [](const Scope& in, absl::Span<const Output> parts) {
          std::vector<Output> sums;
          for (const Output& part : parts) sums.push_back(ops::AllReduce(in, part));
          return sums;
        },
        [this](const Scope& in, absl::Span<const Output> parts) {
          std::vector<Output> zeros;
          for (size_t i = 0; i < parts.size(); ++i) {
            zeros.push_back(ZerosOf(in, shapes_[i], parts[i].dtype()));
          }
          return zeros;
        });
  }

  const std::vector<Operation>& updates() const { return updates_; }

 private:
  const Scope s_;
  const Output is_last_, weight_;
  const bool may_overflow_;
  std::vector<Output> totals_;
  std::vector<Shape> shapes_;
  std::vector<Operation> updates_;
};

}  // namespace

AccumulatedGradients AccumulateGradients(const Scope& scope,
                                         absl::Span<const GradientAndVariable> gradients,
                                         Output loss, Output weight, int64_t steps,
                                         bool may_overflow) {
  const Scope s = scope.SubScope("accumulate");
  AccumulatedGradients result;
  const Variable step = CreateOptimizerState(s, "step", {}, initializers::Zeros(), DT_INT64);
  const Variable weights =
      CreateOptimizerState(s, "weight", {}, initializers::Zeros(), loss.dtype());
  if (!s.ok()) return result;
  const Term count = Term(s, step.value) + 1;
  const Output is_last = ops::GreaterEqual(s, count, count.Number(static_cast<double>(steps)));
  const Term total_weight = Term(s, weights.value) + Term(s, ops::Cast(s, weight, loss.dtype()));
  auto restart = [&](const Variable& variable, const Term& next) {
    result.updates.push_back(
        ops::AssignVariableOp(s, variable.handle, ops::SelectV2(s, is_last, next.Number(0), next)));
  };
  restart(step, count);
  restart(weights, total_weight);
  Accumulators sums(s, is_last, weight, may_overflow);
  for (const GradientAndVariable& gv : gradients) {
    const Shape& shape = s.graph().values().at(gv.variable).handle_shape;
    sums.Add(gv.variable.node->name(), gv.gradient, shape);
    if (!s.ok()) return result;
  }
  sums.Add("loss", loss, Shape());
  const std::vector<Output> reduced = sums.Reduce();
  if (!s.ok()) return result;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Term sum(s, reduced[i]);
    const Term divisor(s, ops::Cast(s, total_weight, sum.output().dtype()));
    result.gradients.push_back({sum / divisor, gradients[i].variable});
  }
  result.is_last = is_last;
  result.gate = ops::LogicalAnd(s, is_last, ops::IsFinite(s, reduced.back()));
  const auto& updates = sums.updates();
  result.updates.insert(result.updates.end(), updates.begin(), updates.end());
  return result;
}

Output RowsOfBatch(const Scope& scope, Output loss) {
  const Scope s = scope.SubScope("rows");
  const std::vector<bool> ancestors = FindAncestors(s.graph(), {loss});
  for (Node* node : s.graph().Nodes()) {
    if (node->id() >= static_cast<NodeId>(ancestors.size()) || !ancestors[node->id()] ||
        node->op().role != OpRole::kPlaceholder) {
      continue;
    }
    const Shape& shape = s.shape(node->output(0));
    if (shape.unknown_rank() || shape.rank() == 0 || shape.dim(0) >= 0) continue;
    const Output zero = ops::ScalarConst(s, DT_INT32, 0);
    const Output rows = ops::GatherV2(s, ops::Shape(s, node->output(0)), zero, zero);
    return ops::Cast(s, rows, DT_INT64);
  }
  return ops::ScalarConst(s, DT_INT64, 1);
}

}  // namespace mirrorflow
