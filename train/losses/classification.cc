// SPDX-License-Identifier: Apache-2.0
#include "train/losses/classification.h"

#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/clip_by_value.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/softmax.h"
#include "ops/softmax_xent.h"
#include "ops/unary.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace losses {
namespace {

constexpr double kEpsilon = 1e-7;  // Keras' backend.epsilon()

Output Number(const Scope& s, const Output& like, double value) {
  return ops::ScalarConst(s, like.dtype(), value);
}

Output Clip(const Scope& s, Output x, double low, double high) {
  return ops::ClipByValue(s, x, Number(s, x, low), Number(s, x, high));
}

Output OneMinus(const Scope& s, Output x) { return ops::Sub(s, Number(s, x, 1), x); }

bool CheckSmoothing(const Scope& s, absl::string_view what, double label_smoothing) {
  return CheckNumbers(s, what, {{"label_smoothing", label_smoothing, kFraction}});
}

// Returns y (1 - smoothing) + smoothing * share.
Output Smooth(const Scope& s, Output y, double smoothing, double share) {
  if (smoothing == 0) return y;
  const Output kept = ops::Mul(s, y, Number(s, y, 1 - smoothing));
  return ops::AddV2(s, kept, Number(s, y, smoothing * share));
}

// Casts labels, which are distributions over classes, to the predictions' dtype and smooths them.
Output ClassLabels(const Scope& s, absl::string_view what, const Output& predictions, Output labels,
                   double smoothing) {
  const Output y = AsType(s, labels, predictions.dtype());
  if (smoothing == 0) return y;
  const Shape shape = s.shape(predictions);
  const int64_t classes = shape.dim(shape.rank() - 1);
  if (classes < 1) {
    return FailLoss(s, what,
                    "label_smoothing requires a known number of classes; expected predictions with "
                    "a known last dimension, got ",
                    shape.ToString());
  }
  return Smooth(s, y, smoothing, 1.0 / static_cast<double>(classes));
}

// Divides predictions by their sum along the last dimension, and clips them.
Output Normalized(const Scope& s, Output p) {
  p = ops::RealDiv(s, p, ops::Sum(s, p, {-1}, {.keep_dims = true}));
  return Clip(s, p, kEpsilon, 1 - kEpsilon);
}

// Returns -y log p - (1 - y) log(1 - p), with clipped probabilities.
Output BinaryTerms(const Scope& s, Output p, Output y) {
  p = Clip(s, p, kEpsilon, 1 - kEpsilon);
  const Output if_one = ops::Mul(s, y, ops::Log(s, p));
  const Output if_zero = ops::Mul(s, OneMinus(s, y), ops::Log(s, OneMinus(s, p)));
  return ops::Neg(s, ops::AddV2(s, if_one, if_zero));
}

// Computes BinaryTerms from logits. Because -log sigmoid(x) = softplus(-x) and
// -log(1 - sigmoid(x)) = softplus(x), no term overflows and no terms cancel.
Output BinaryTermsOfLogits(const Scope& s, Output x, Output y) {
  const Output if_one = ops::Mul(s, y, ops::Softplus(s, ops::Neg(s, x)));
  const Output if_zero = ops::Mul(s, OneMinus(s, y), ops::Softplus(s, x));
  return ops::AddV2(s, if_one, if_zero);
}

// Returns max(1 - y p, 0), where a label of 0 means -1. Returns an invalid output after an
// error.
Output Shortfall(const Scope& s, absl::string_view what, Output predictions, Output labels) {
  if (!CheckEqualShapes(s, what, predictions, labels)) return Output();
  const DataType dtype = predictions.dtype();
  const Output one = ops::ScalarConst(s, dtype, 1), zero = ops::ScalarConst(s, dtype, 0);
  Output y = AsType(s, labels, dtype);
  y = ops::SelectV2(s, ops::Equal(s, y, zero), ops::Neg(s, ops::OnesLike(s, y)), y);
  return ops::Maximum(s, ops::Sub(s, one, ops::Mul(s, y, predictions)), zero);
}

}  // namespace

Output SparseSoftmaxCrossEntropy(const Scope& scope, Output logits, Output labels,
                                 const SparseCrossEntropyOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "sparse_softmax_cross_entropy";
  const Shape shape = s.shape(logits);
  if (!s.ok()) return Output();
  const bool is_matrix = shape.unknown_rank() || shape.rank() == 2;  // the op takes only matrices
  if (!shape.unknown_rank() && !CheckSparseLabels(s, kWhat, logits, labels)) return Output();
  Output targets = labels, valid;
  if (options.ignore_class.has_value()) {
    const double ignored = static_cast<double>(*options.ignore_class);
    valid = ops::NotEqual(s, labels, ops::ScalarConst(s, labels.dtype(), ignored));
    targets = ops::SelectV2(s, valid, labels, ops::ZerosLike(s, labels));
  }
  if (!is_matrix) {
    const int64_t classes = shape.dim(shape.rank() - 1);
    if (classes < 1) {
      return FailLoss(
          s, kWhat, "unknown number of classes; expected logits with a known last dimension, got ",
          shape.ToString());
    }
    logits = ops::Reshape(s, logits, Shape({kUnknownDim, classes}));
    targets = ops::Reshape(s, targets, Shape({kUnknownDim}));
  }
  Output losses = ops::SparseSoftmaxCrossEntropyWithLogits(s, logits, targets).loss;
  if (!s.ok()) return Output();
  const bool needs_shape =
      valid.valid() || options.sample_weight.valid() || options.reduction == LossReduction::kNone;
  if (!is_matrix && needs_shape) losses = ops::ReshapeLike(s, losses, labels);
  return ReduceLosses(s, kWhat, losses, {options, valid});
}

Output CategoricalCrossentropy(const Scope& scope, Output predictions, Output labels,
                               const CrossentropyOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "categorical_crossentropy";
  if (!CheckEqualShapes(s, kWhat, predictions, labels, 2) ||
      !CheckSmoothing(s, kWhat, options.label_smoothing)) {
    return Output();
  }
  const Output y = ClassLabels(s, kWhat, predictions, labels, options.label_smoothing);
  if (!s.ok()) return Output();
  const Output log = options.from_logits ? ops::LogSoftmax(s, predictions)
                                         : ops::Log(s, Normalized(s, predictions));
  return ReduceLosses(s, kWhat, ops::Neg(s, ops::Sum(s, ops::Mul(s, y, log), {-1})), options);
}

Output BinaryCrossentropy(const Scope& scope, Output predictions, Output labels,
                          const CrossentropyOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "binary_crossentropy";
  if (!CheckEqualShapes(s, kWhat, predictions, labels) ||
      !CheckSmoothing(s, kWhat, options.label_smoothing)) {
    return Output();
  }
  const Output y = Smooth(s, AsType(s, labels, predictions.dtype()), options.label_smoothing, 0.5);
  const Output terms =
      options.from_logits ? BinaryTermsOfLogits(s, predictions, y) : BinaryTerms(s, predictions, y);
  return ReduceTerms(s, kWhat, terms, options);
}

Output BinaryFocalCrossentropy(const Scope& scope, Output predictions, Output labels,
                               const BinaryFocalOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "binary_focal_crossentropy";
  if (!CheckEqualShapes(s, kWhat, predictions, labels) ||
      !CheckSmoothing(s, kWhat, options.label_smoothing) ||
      !CheckNumbers(
          s, kWhat,
          {{"alpha", options.alpha, kFraction}, {"gamma", options.gamma, kNotNegative}})) {
    return Output();
  }
  const Output y = Smooth(s, AsType(s, labels, predictions.dtype()), options.label_smoothing, 0.5);
  const Output p = options.from_logits ? ops::Sigmoid(s, predictions) : predictions;
  const Output of_label =
      ops::AddV2(s, ops::Mul(s, y, p), ops::Mul(s, OneMinus(s, y), OneMinus(s, p)));
  const Output focus = ops::Pow(s, OneMinus(s, of_label), Number(s, p, options.gamma));
  const Output entropy =
      options.from_logits ? BinaryTermsOfLogits(s, predictions, y) : BinaryTerms(s, p, y);
  Output terms = ops::Mul(s, focus, entropy);
  if (options.apply_class_balancing) {
    const Output balance = ops::AddV2(s, ops::Mul(s, y, Number(s, y, options.alpha)),
                                      ops::Mul(s, OneMinus(s, y), Number(s, y, 1 - options.alpha)));
    terms = ops::Mul(s, balance, terms);
  }
  return ReduceTerms(s, kWhat, terms, options);
}

Output CategoricalFocalCrossentropy(const Scope& scope, Output predictions, Output labels,
                                    const CategoricalFocalOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "categorical_focal_crossentropy";
  if (!CheckEqualShapes(s, kWhat, predictions, labels, 2) ||
      !CheckSmoothing(s, kWhat, options.label_smoothing) ||
      !CheckNumbers(
          s, kWhat,
          {{"alpha", options.alpha, kNotNegative}, {"gamma", options.gamma, kNotNegative}})) {
    return Output();
  }
  const Output y = ClassLabels(s, kWhat, predictions, labels, options.label_smoothing);
  if (!s.ok()) return Output();
  const Output p = Normalized(s, options.from_logits ? ops::Softmax(s, predictions) : predictions);
  const Output focus = ops::Mul(s, Number(s, p, options.alpha),
                                ops::Pow(s, OneMinus(s, p), Number(s, p, options.gamma)));
  const Output terms = ops::Mul(s, focus, ops::Mul(s, y, ops::Log(s, p)));
  return ReduceLosses(s, kWhat, ops::Neg(s, ops::Sum(s, terms, {-1})), options);
}

Output KLDivergence(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "kl_divergence";
  if (!CheckEqualShapes(s, kWhat, predictions, labels, 2)) return Output();
  const Output y = Clip(s, AsType(s, labels, predictions.dtype()), kEpsilon, 1);
  const Output p = Clip(s, predictions, kEpsilon, 1);
  const Output terms = ops::Mul(s, y, ops::Log(s, ops::RealDiv(s, y, p)));
  return ReduceLosses(s, kWhat, ops::Sum(s, terms, {-1}), options);
}

Output Hinge(const Scope& scope, Output predictions, Output labels, const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  return ReduceTerms(s, "hinge", Shortfall(s, "hinge", predictions, labels), options);
}

Output SquaredHinge(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  const Output shortfall = Shortfall(s, "squared_hinge", predictions, labels);
  if (!shortfall.valid()) return Output();
  return ReduceTerms(s, "squared_hinge", ops::Square(s, shortfall), options);
}

Output CategoricalHinge(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "categorical_hinge";
  if (!CheckEqualShapes(s, kWhat, predictions, labels, 2)) return Output();
  const DataType dtype = predictions.dtype();
  const Output one = ops::ScalarConst(s, dtype, 1), y = AsType(s, labels, dtype);
  const Output right = ops::Sum(s, ops::Mul(s, y, predictions), {-1});
  const Output wrong = ops::Max(s, ops::Mul(s, ops::Sub(s, one, y), predictions), {-1});
  const Output shortfall = ops::AddV2(s, ops::Sub(s, wrong, right), one);
  return ReduceLosses(s, kWhat, ops::Maximum(s, shortfall, ops::ScalarConst(s, dtype, 0)), options);
}

}  // namespace losses
}  // namespace mirrorflow
