// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/confusion_matrix.h"

#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/gather.h"
#include "ops/matrix_diag.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "train/losses/reductions.h"
#include "train/metrics/accumulate.h"

namespace mirrorflow {
namespace metrics {
namespace {

constexpr int64_t kMaxClasses = 30000;  // so that an int32 can number all pairs of classes

Output Integer(const Scope& s, int64_t value) {
  return ops::ScalarConst(s, DT_INT64, static_cast<double>(value));
}

// Returns whether 0 <= classes < num_classes, for each element.
Output IsClass(const Scope& s, Output classes, int64_t num_classes) {
  return ops::LogicalAnd(s, ops::GreaterEqual(s, classes, Integer(s, 0)),
                         ops::Less(s, classes, Integer(s, num_classes)));
}

// The confusion matrix of one batch. Invalid after an error.
struct MatrixOfBatch {
  Output matrix;
  NanSources sources;
};

MatrixOfBatch CountPairs(const Scope& s, absl::string_view what, Output predictions, Output labels,
                         int64_t num_classes, const ConfusionMatrixOptions& options) {
  if (!CheckEqualShapes(s, what, predictions, labels, 1)) return {};
  if (num_classes < 1 || num_classes > kMaxClasses) {
    FailLoss(s, what, "num_classes out of range; expected 1 to ", kMaxClasses, ", got ",
             num_classes);
    return {};
  }
  const Output p = AsType(s, predictions, DT_INT64), y = AsType(s, labels, DT_INT64);
  const Output counts = ops::LogicalAnd(s, IsClass(s, p, num_classes), IsClass(s, y, num_classes));
  Output weights = ApplyWeights(s, what, y, options.sample_weight).weights;
  if (!weights.valid()) return {};
  if (options.ignore_class.has_value()) {
    const Output is_ignored = ops::Equal(s, y, Integer(s, *options.ignore_class));
    weights = ops::SelectV2(s, is_ignored, ops::ScalarConst(s, DT_DOUBLE, 0), weights);
  }
  // UnsortedSegmentSum ignores negative segments.
  const Output pair = ops::AddV2(s, ops::Mul(s, y, Integer(s, num_classes)), p);
  const Output segment = ops::Cast(s, ops::SelectV2(s, counts, pair, Integer(s, -1)), DT_INT32);
  const auto flat = [&](Output x) { return ops::Reshape(s, x, Shape({kUnknownDim})); };
  const Output sums = ops::UnsortedSegmentSum(
      s, flat(weights), flat(segment),
      ops::ScalarConst(s, DT_INT32, static_cast<double>(num_classes * num_classes)));
  return {ops::Reshape(s, sums, Shape({num_classes, num_classes})),
          {.values = {predictions, labels}, .weights = weights}};
}

constexpr char kTotal[] = "total_confusion_matrix";

}  // namespace

Metric ConfusionMatrix(const Scope& scope, Output predictions, Output labels, int64_t num_classes,
                       const ConfusionMatrixOptions& options) {
  constexpr absl::string_view kWhat = "confusion_matrix";
  const Scope s = MetricScope(scope, options.name, kWhat);
  const MatrixOfBatch batch = CountPairs(s, kWhat, predictions, labels, num_classes, options);
  return Accumulate(s, {{kTotal, batch.matrix}}, batch.sources,
                    [](const Scope&, absl::Span<const Output> totals) { return totals[0]; });
}

Metric MeanIoU(const Scope& scope, Output predictions, Output labels, int64_t num_classes,
               const ConfusionMatrixOptions& options) {
  const Scope s = MetricScope(scope, options.name, "mean_io_u");
  const MatrixOfBatch batch = CountPairs(s, "mean_io_u", predictions, labels, num_classes, options);
  return Accumulate(
      s, {{kTotal, batch.matrix}}, batch.sources,
      [](const Scope& s, absl::Span<const Output> totals) {
        const Output hits = ops::MatrixDiagPart(s, totals[0]);
        const Output either = ops::Sub(
            s, ops::AddV2(s, ops::Sum(s, totals[0], {0}), ops::Sum(s, totals[0], {1})), hits);
        const Output occurs =
            ops::Cast(s, ops::Greater(s, either, ops::ScalarConst(s, DT_DOUBLE, 0)), DT_DOUBLE);
        const Output sum = ops::Sum(s, ops::DivNoNan(s, hits, either), {0});
        return ops::Cast(s, ops::DivNoNan(s, sum, ops::Sum(s, occurs, {0})), DT_FLOAT);
      });
}

}  // namespace metrics
}  // namespace mirrorflow
