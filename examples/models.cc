// SPDX-License-Identifier: Apache-2.0
#include "examples/models.h"

#include "absl/strings/str_cat.h"
#include "ops/control.h"
#include "ops/identity.h"
#include "ops/unary.h"
#include "train/layers.h"

namespace mirrorflow {
namespace {

Output Mlp(const Scope& scope, Output x) {
  x = layers::Dense(scope, x, 512, ops::Relu);
  x = layers::Dense(scope, x, 512, ops::Relu);
  return layers::Dense(scope, x, 10);
}

Output Cnn(const Scope& scope, Output x) {
  x = layers::Conv2D(scope, x, 32, 3, ops::Relu);
  x = layers::MaxPooling2D(scope, x);
  x = layers::Conv2D(scope, x, 64, 3, ops::Relu);
  x = layers::MaxPooling2D(scope, x);
  x = layers::Dense(scope, layers::Flatten(scope, x), 128, ops::Relu);
  return layers::Dense(scope, x, 10);
}

}  // namespace

absl::StatusOr<Classifier> BuildClassifier(const Scope& scope, absl::string_view model) {
  const bool cnn = model == "cnn";
  if (!cnn && model != "mlp") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown model; expected mlp or cnn, got '", model, "'"));
  }
  Classifier c;
  const Shape images = cnn ? Shape({-1, 28, 28, 1}) : Shape({-1, 784});
  c.images = ops::Placeholder(scope.WithName("images"), DT_FLOAT, images);
  c.labels = ops::Placeholder(scope.WithName("labels"), DT_INT32, {-1});
  // Under a name that a program which runs the saved graph can fetch.
  c.logits =
      ops::Identity(scope.WithName("logits"), cnn ? Cnn(scope, c.images) : Mlp(scope, c.images));
  c.loss = losses::SparseSoftmaxCrossEntropy(scope, c.logits, c.labels);
  c.accuracy = metrics::Accuracy(scope, c.logits, c.labels);
  return c;
}

}  // namespace mirrorflow
