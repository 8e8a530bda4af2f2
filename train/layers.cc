// SPDX-License-Identifier: Apache-2.0
#include "train/layers.h"

#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/arg_max.h"
#include "ops/batch_norm.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/conv2d.h"
#include "ops/dropout.h"
#include "ops/matmul.h"
#include "ops/max_pool.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/softmax_xent.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Returns the last dimension of x, which determines the shape of a layer's variables.
absl::StatusOr<int64_t> InputDepth(const Scope& scope, Output x, int rank,
                                   absl::string_view layer) {
  const Shape& shape = scope.shape(x);
  if (shape.unknown_rank() || shape.rank() != rank || shape.dim(rank - 1) == kUnknownDim) {
    return absl::InvalidArgumentError(absl::StrCat(layer, ": expected an input of rank ", rank,
                                                   " whose last dimension is known, got shape ",
                                                   shape.ToString()));
  }
  return shape.dim(rank - 1);
}

// Whether `value`, a size that the caller requests, is at least 1. If not, fails the scope.
bool CheckSize(const Scope& scope, absl::string_view layer, absl::string_view what, int64_t value) {
  if (value >= 1) return true;
  scope.Fail(absl::InvalidArgumentError(
      absl::StrCat(layer, ": ", what, " out of range; expected at least 1, got ", value)));
  return false;
}

Output Finish(const Scope& scope, Output y, int64_t units, bool use_bias,
              const Initializer& bias_initializer, layers::Activation activation) {
  if (use_bias) {
    y = ops::BiasAdd(scope, y, CreateVariable(scope, "bias", {units}, bias_initializer).value);
  }
  return activation != nullptr ? activation(scope, y) : y;
}

// Mean over all dimensions.
Output MeanOfAll(const Scope& scope, Output x) {
  if (scope.shape(x).unknown_rank()) x = ops::Reshape(scope, x, Shape({kUnknownDim}));
  std::vector<int64_t> axes(scope.shape(x).rank());
  std::iota(axes.begin(), axes.end(), 0);
  return ops::Mean(scope, x, axes);
}

}  // namespace

namespace layers {

Output Dense(const Scope& scope, Output x, int64_t units, Activation activation,
             const DenseOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "units", units)) return Output();
  Shape rows = s.shape(x);
  // Images are an error, because their rows are not examples: the caller forgot Flatten.
  const bool is_sequence = !rows.unknown_rank() && rows.rank() == 3;
  const absl::StatusOr<int64_t> in = InputDepth(s, x, is_sequence ? 3 : 2, options.name);
  if (!in.ok()) {
    s.Fail(in.status());
    return Output();
  }
  const Variable kernel = CreateVariable(s, "kernel", {*in, units}, options.kernel_initializer);
  if (is_sequence) x = ops::Reshape(s, x, Shape({kUnknownDim, *in}));
  const Output y = Finish(s, ops::MatMul(s, x, kernel.value), units, options.use_bias,
                          options.bias_initializer, activation);
  if (!is_sequence) return y;
  rows.set_dim(rows.rank() - 1, units);
  if (ops::IsReshapeTarget(rows)) return ops::Reshape(s, y, rows);
  s.Fail(absl::InvalidArgumentError(absl::StrCat(
      options.name, ": expected at most one unknown dimension, got shape ", rows.ToString())));
  return Output();
}

Output Conv2D(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
              Activation activation, const Conv2DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size)) {
    return Output();
  }
  const absl::StatusOr<int64_t> in = InputDepth(s, x, 4, options.name);
  if (!in.ok()) {
    s.Fail(in.status());
    return Output();
  }
  const Variable kernel = CreateVariable(s, "kernel", {kernel_size, kernel_size, *in, filters},
                                         options.kernel_initializer);
  const int64_t strides[] = {1, options.strides, options.strides, 1};
  return Finish(s, ops::Conv2D(s, x, kernel.value, strides, options.padding), filters,
                options.use_bias, options.bias_initializer, activation);
}

Output MaxPooling2D(const Scope& scope, Output x, int64_t pool_size,
                    const MaxPooling2DOptions& options) {
  const int64_t step = options.strides != 0 ? options.strides : pool_size;
  const int64_t ksize[] = {1, pool_size, pool_size, 1}, strides[] = {1, step, step, 1};
  return ops::MaxPool(scope, x, ksize, strides, options.padding);
}

Output BatchNorm(const Scope& scope, Output x, Activation activation,
                 const BatchNormOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok()) return Output();
  const bool images = !s.shape(x).unknown_rank() && s.shape(x).rank() == 4;
  const absl::StatusOr<int64_t> in = InputDepth(s, x, images ? 4 : 2, options.name);
  if (!in.ok()) {
    s.Fail(in.status());
    return Output();
  }
  auto channels = [&](absl::string_view name, const Initializer& initializer, bool trainable) {
    return CreateVariable(s, name, {*in}, initializer, DT_FLOAT, {.trainable = trainable});
  };
  const Variable gamma = channels("gamma", initializers::Ones(), true);
  const Variable beta = channels("beta", initializers::Zeros(), true);
  const Variable mean = channels("moving_mean", initializers::Zeros(), false);
  const Variable variance = channels("moving_variance", initializers::Ones(), false);
  if (!images) x = ops::Reshape(s, x, Shape({kUnknownDim, 1, 1, *in}));
  const ops::FusedBatchNormV3Outputs norm =
      ops::FusedBatchNormV3(s, x, gamma.value, beta.value, mean.value, variance.value,
                            {.epsilon = static_cast<float>(options.epsilon),
                             .exponential_avg_factor = static_cast<float>(1 - options.momentum),
                             .per_replica = options.per_replica});
  if (!s.ok()) return Output();
  s.graph().SetAttr(mean.handle.node, kNextValueAttr, norm.batch_mean.ToString());
  s.graph().SetAttr(variance.handle.node, kNextValueAttr, norm.batch_variance.ToString());
  const Output y = images ? norm.y : ops::Reshape(s, norm.y, Shape({kUnknownDim, *in}));
  return activation != nullptr ? activation(s, y) : y;
}

Output Flatten(const Scope& scope, Output x) {
  const Shape& shape = scope.shape(x);
  int64_t size = shape.unknown_rank() || shape.rank() < 1 ? kUnknownDim : 1;
  for (int d = 1; size != kUnknownDim && d < shape.rank(); ++d) {
    size = shape.dim(d) == kUnknownDim ? kUnknownDim : size * shape.dim(d);
  }
  if (size == kUnknownDim) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "flatten: expected an input whose dimensions after the first are known, got shape ",
        shape.ToString())));
    return Output();
  }
  return ops::Reshape(scope, x, Shape({kUnknownDim, size}));
}

Output Dropout(const Scope& scope, Output x, double rate) {
  const Output y = ops::Dropout(scope, x, rate);
  if (y.valid() && y != x) scope.graph().SetAttr(y.node, kInferenceAttr, x.ToString());
  return y;
}

}  // namespace layers

namespace {

// Fails the scope and returns false if the known parts of the shapes differ, because the values
// would be broadcast.
bool CheckEqualShapes(const Scope& scope, absl::string_view what, const Output& predictions,
                      const Output& labels) {
  const Shape& expected = scope.shape(predictions);
  const Shape& got = scope.shape(labels);
  if (!scope.ok()) return false;
  bool equal = expected.IsCompatibleWith(got);
  // A dimension of 1 would be broadcast to one that is still unknown.
  if (equal && !expected.unknown_rank() && !got.unknown_rank()) {
    for (int d = 0; d < expected.rank(); ++d) {
      equal = equal && (expected.dim(d) == 1) == (got.dim(d) == 1);
    }
  }
  if (equal) return true;
  scope.Fail(
      absl::InvalidArgumentError(absl::StrCat(what, ": labels '", labels.ToString(),
                                              "' do not have the shape of the predictions; "
                                              "expected ",
                                              expected.ToString(), ", got ", got.ToString())));
  return false;
}

}  // namespace

namespace losses {

Output SparseSoftmaxCrossEntropy(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("loss");
  return MeanOfAll(s, ops::SparseSoftmaxCrossEntropyWithLogits(s, logits, labels).loss);
}

Output MeanSquaredError(const Scope& scope, Output predictions, Output labels) {
  const Scope s = scope.SubScope("loss");
  if (!CheckEqualShapes(s, "mean_squared_error", predictions, labels)) return Output();
  return MeanOfAll(s, ops::SquaredDifference(s, predictions, labels));
}

}  // namespace losses

namespace metrics {

Output Accuracy(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("accuracy");
  const Output predicted = ops::ArgMax(s, logits, 1, {.output_type = DT_INT32});
  if (!CheckEqualShapes(s, "accuracy", predicted, labels)) return Output();
  const Output hits = ops::Equal(s, predicted, ops::Cast(s, labels, DT_INT32));
  return MeanOfAll(s, ops::Cast(s, hits, DT_FLOAT));
}

}  // namespace metrics
}  // namespace mirrorflow
