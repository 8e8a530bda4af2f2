// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/accuracy.h"

#include <limits>

#include "ops/arg_max.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/one_hot.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "train/losses/reductions.h"
#include "train/metrics/accumulate.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace metrics {
namespace {

Output ClassOf(const Scope& s, Output values) {
  return ops::ArgMax(s, values, -1, {.output_type = DT_INT64});
}

// Checks that predictions [batch, …, classes] have a known last dimension.
bool CheckClasses(const Scope& s, absl::string_view what, const Output& predictions) {
  if (!CheckMinRank(s, what, predictions, 1)) return false;
  const Shape shape = s.shape(predictions);
  if (shape.dim(shape.rank() - 1) >= 1) return true;
  FailLoss(s, what, "expected predictions with a known last dimension, got ", shape.ToString());
  return false;
}

// Builds a top-k accuracy. `labels` are class indices. `compared` is passed to WeightedMean.
Metric TopK(const Scope& s, absl::string_view what, Output predictions, Output labels,
            const std::vector<Output>& compared, const TopKAccuracyOptions& options) {
  if (options.k < 1) {
    FailLoss(s, what, "k out of range; expected at least 1, got ", options.k);
    return {};
  }
  const Shape shape = s.shape(predictions);
  const DataType dtype = predictions.dtype();
  const auto classes = static_cast<double>(shape.dim(shape.rank() - 1));
  const Output is_label =
      ops::OneHot(s, labels, ops::ScalarConst(s, DT_INT32, classes),
                  ops::ScalarConst(s, DT_INT32, 1), ops::ScalarConst(s, DT_INT32, 0));
  const Output lowest = ops::ScalarConst(s, dtype, -std::numeric_limits<double>::infinity());
  const Output at_label =
      ops::Max(s, ops::SelectV2(s, ops::Cast(s, is_label, DT_BOOL), predictions, lowest), {-1},
               {.keep_dims = true});
  const Output larger =
      ops::Sum(s, ops::Cast(s, ops::Greater(s, predictions, at_label), DT_INT32), {-1});
  const Output is_top =
      ops::Less(s, larger, ops::ScalarConst(s, DT_INT32, static_cast<double>(options.k)));
  const Output is_finite =
      ops::IsFinite(s, ops::AddV2(s, ops::Max(s, ops::Abs(s, predictions), {-1}),
                                  ops::Squeeze(s, at_label, {.axis = {-1}})));
  return WeightedMean(s, what, ops::Cast(s, ops::LogicalAnd(s, is_top, is_finite), DT_DOUBLE),
                      options.sample_weight, compared);
}

}  // namespace

Metric SparseCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                                 const MetricOptions& options) {
  constexpr absl::string_view kWhat = "sparse_categorical_accuracy";
  const Scope s = MetricScope(scope, options.name, kWhat);
  if (!CheckSparseLabels(s, kWhat, predictions, labels)) return {};
  const Output is_right = ops::Equal(s, ClassOf(s, predictions), AsType(s, labels, DT_INT64));
  return WeightedMean(s, kWhat, ops::Cast(s, is_right, DT_DOUBLE), options.sample_weight,
                      {predictions, labels});
}

Metric CategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                           const MetricOptions& options) {
  constexpr absl::string_view kWhat = "categorical_accuracy";
  const Scope s = MetricScope(scope, options.name, kWhat);
  if (!CheckEqualShapes(s, kWhat, predictions, labels, 1)) return {};
  const Output is_right = ops::Equal(s, ClassOf(s, predictions), ClassOf(s, labels));
  return WeightedMean(s, kWhat, ops::Cast(s, is_right, DT_DOUBLE), options.sample_weight,
                      {predictions, labels});
}

Metric BinaryAccuracy(const Scope& scope, Output predictions, Output labels,
                      const BinaryAccuracyOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckEqualShapes(s, "binary_accuracy", predictions, labels)) return {};
  if (!CheckNumbers(s, "binary_accuracy", {{"threshold", options.threshold, kInsideFraction}})) {
    return {};
  }
  const Output threshold = ops::ScalarConst(s, predictions.dtype(), options.threshold);
  const Output predicted = ops::Cast(s, ops::Greater(s, predictions, threshold), DT_DOUBLE);
  const Output is_right = ops::Equal(s, predicted, AsType(s, labels, DT_DOUBLE));
  return WeightedMean(s, "binary_accuracy", ops::Cast(s, is_right, DT_DOUBLE),
                      options.sample_weight, {predictions, labels});
}

Metric SparseTopKCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                                     const TopKAccuracyOptions& options) {
  constexpr absl::string_view kWhat = "sparse_top_k_categorical_accuracy";
  const Scope s = MetricScope(scope, options.name, kWhat);
  if (!CheckClasses(s, kWhat, predictions)) return {};
  if (!CheckSparseLabels(s, kWhat, predictions, labels)) return {};
  return TopK(s, kWhat, predictions, labels, {predictions}, options);
}

Metric TopKCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                               const TopKAccuracyOptions& options) {
  constexpr absl::string_view kWhat = "top_k_categorical_accuracy";
  const Scope s = MetricScope(scope, options.name, kWhat);
  if (!CheckClasses(s, kWhat, predictions)) return {};
  if (!CheckEqualShapes(s, kWhat, predictions, labels)) return {};
  return TopK(s, kWhat, predictions, ClassOf(s, labels), {predictions, labels}, options);
}

Output Accuracy(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("accuracy");
  const Output predicted = ops::ArgMax(s, logits, 1, {.output_type = DT_INT32});
  if (!CheckEqualShapes(s, "accuracy", predicted, labels)) return Output();
  const Output hits = ops::Equal(s, predicted, ops::Cast(s, labels, DT_INT32));
  Output right = ops::Cast(s, hits, DT_FLOAT);
  if (IsFloating(logits.dtype())) {
    const Output nan = ops::ScalarConst(s, DT_FLOAT, std::numeric_limits<double>::quiet_NaN());
    right = ops::SelectV2(s, ops::Any(s, ops::IsNan(s, logits), {1}), nan, right);
  }
  return ops::Mean(s, right);
}

}  // namespace metrics
}  // namespace mirrorflow
