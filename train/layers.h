// SPDX-License-Identifier: Apache-2.0
//
// Layers: functions that add nodes and variables to a graph. Images are [batch, height, width,
// channels]. A model is written for training; ForInference() derives its inference form.
#ifndef MIRRORFLOW_TRAIN_LAYERS_H_
#define MIRRORFLOW_TRAIN_LAYERS_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/inference.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

// Applied to a layer's result, like ops::Relu; null for none.
using Activation = Output (*)(const Scope&, Output);

struct DenseOptions {
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "dense";
};

// Dense: y = activation(x · kernel + bias).
// Shapes:   x [batch, in] -> y [batch, units], or for sequences x [batch, n, in] -> y [batch, n,
//           units]; variables kernel [in, units], bias [units].
// Errors:   InvalidArgument if `in` is not known while the graph is built.
Output Dense(const Scope& scope, Output x, int64_t units, Activation activation = nullptr,
             const DenseOptions& options = {});

struct Conv2DOptions {
  int64_t strides = 1;
  std::string padding = "VALID";  // or "SAME"
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv2d";
};

// Conv2D: y = activation(x * kernel + bias), with a square kernel.
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', filters]; variables kernel [kernel_size,
//           kernel_size, in, filters], bias [filters].
Output Conv2D(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
              Activation activation = nullptr, const Conv2DOptions& options = {});

struct MaxPooling2DOptions {
  int64_t strides = 0;  // 0: the pool size
  std::string padding = "VALID";
};

// MaxPooling2D: the maximum of each pool_size × pool_size window.
Output MaxPooling2D(const Scope& scope, Output x, int64_t pool_size = 2,
                    const MaxPooling2DOptions& options = {});

struct BatchNormOptions {
  double momentum = 0.99;
  double epsilon = 1e-3;
  // Under a strategy, normalise with the statistics of each replica's rows, as TensorFlow's
  // MirroredStrategy does, instead of those of the global batch.
  bool per_replica = false;
  std::string name = "batch_norm";
};

// BatchNorm: y = activation((x - mean) / sqrt(variance + epsilon) * gamma + beta) for each channel.
//            In training, mean and variance are those of the batch, and each step that runs the
//            result of Minimize updates the moving averages: moving = moving * momentum + batch *
//            (1 - momentum), with Bessel's correction of the variance. In inference, mean and
//            variance are the moving averages.
// Shapes:    x [batch, in] or [batch, h, w, in]; variables gamma, beta, moving_mean and
//            moving_variance, all [in]; the last two are not trainable.
// Errors:    InvalidArgument if `in` is not known while the graph is built.
// Source:    Ioffe and Szegedy, "Batch normalization", 2015; Keras' defaults.
Output BatchNorm(const Scope& scope, Output x, Activation activation = nullptr,
                 const BatchNormOptions& options = {});

// Flatten: [batch, …] -> [batch, product of the rest].
Output Flatten(const Scope& scope, Output x);

// Dropout: each element is zero with probability `rate`, the others are scaled by 1 / (1 - rate).
// The mask does not depend on the number of replicas. In inference, Dropout is the identity.
Output Dropout(const Scope& scope, Output x, double rate);

}  // namespace layers

namespace losses {

// Mean of -log softmax(logits)[label] over the global batch.
// Shapes:   logits [batch, classes], labels [batch] (int32 or int64) -> scalar.
// Errors:   the step fails with InvalidArgument for a label outside [0, classes), before any
//           variable changes.
Output SparseSoftmaxCrossEntropy(const Scope& scope, Output logits, Output labels);

// Mean of (predictions - labels)² over all elements.
// Errors:   InvalidArgument unless both have the same shape; nothing is broadcast.
Output MeanSquaredError(const Scope& scope, Output predictions, Output labels);

}  // namespace losses

namespace metrics {

// Fraction of rows whose largest logit is at the label, a float scalar.
Output Accuracy(const Scope& scope, Output logits, Output labels);

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_H_
