// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "ops/control.h"
#include "tests/train/numbers/numeric_rows.h"
#include "train/initializers.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/metrics/metrics.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using namespace layers;        // NOLINT: each row names one of them
using namespace numeric_rows;  // NOLINT

Output Input(const Scope& s, const Shape& shape, DataType dtype = DT_FLOAT) {
  return ops::Placeholder(s, dtype, shape);
}
Output Rows(const Scope& s) { return Input(s, {4, 6}); }
Output Sequence(const Scope& s) { return Input(s, {4, 6, 6}); }
Output Images(const Scope& s) { return Input(s, {4, 6, 6, 6}); }
Output Volumes(const Scope& s) { return Input(s, {4, 6, 6, 6, 6}); }
Output Classes(const Scope& s) { return Input(s, {4}, DT_INT32); }

template <typename Build>
absl::Status StatusIn(Build build) {
  Graph graph;
  build(Scope(&graph));
  return graph.status();
}

absl::Status StatusOf(const Initializer& initializer) {
  return StatusIn([&](const Scope& s) { CreateVariable(s, "v", {3, 3}, initializer); });
}

// Makes a row from an expression of a scope `s` and a number `v`.
#define REAL(name, bad, good, ...)      \
  Real(name, Numbers bad, Numbers good, \
       [](double v) { return StatusIn([&](const Scope& s) { (void)(__VA_ARGS__); }); })
#define INTEGER(name, bad, good, ...)      \
  Integer(name, Numbers bad, Numbers good, \
          [](int64_t v) { return StatusIn([&](const Scope& s) { (void)(__VA_ARGS__); }); })
// Makes a row for a size, which must be at least 1.
#define SIZE(name, ...) INTEGER(name, ({-1, 0}), ({1, 2}), __VA_ARGS__)
#define INITIALIZER(name, bad, good, ...) \
  Real(name, Numbers bad, Numbers good, [](double v) { return StatusOf(__VA_ARGS__); })

std::vector<NumericRow> InitializerRows() {
  using namespace initializers;  // NOLINT
  return {
      // Infinity is legal: it can start a running minimum.
      {"Constant.value",
       {kNan},
       {0, -1, kInf, -kInf},
       [](double v) { return StatusOf(Constant(v)); }},
      INITIALIZER("Identity.gain", ({}), ({0, -1}), Identity(v)),
      INITIALIZER("RandomNormal.stddev", ({-1}), ({0, 2}), RandomNormal(v)),
      INITIALIZER("RandomNormal.mean", ({}), ({-1}), RandomNormal(1, v)),
      INITIALIZER("TruncatedNormal.stddev", ({-1}), ({0, 2}), TruncatedNormal(v)),
      INITIALIZER("TruncatedNormal.mean", ({}), ({-1}), TruncatedNormal(1, v)),
      INITIALIZER("RandomUniform.minval", ({2}), ({-1, 1}), RandomUniform(v, 1)),
      INITIALIZER("RandomUniform.maxval", ({-1}), ({0, 1}), RandomUniform(0, v)),
      INITIALIZER("VarianceScalingOptions.scale", ({0, -1}), ({0.5}),
                  VarianceScaling({.scale = v})),
      INITIALIZER("Orthogonal.gain", ({}), ({-1, 2}), Orthogonal(v)),
  };
}

std::vector<NumericRow> LayerRows() {
  return {
      // Infinity is legal: it means no maximum.
      {"ReLUOptions.max_value",
       {kNan, -1, -kInf},
       {1, kInf},
       [](double v) {
         return StatusIn([&](const Scope& s) { ReLU(s, Rows(s), {.max_value = v}); });
       }},
      REAL("ReLUOptions.negative_slope", ({}), ({0, -1}), ReLU(s, Rows(s), {.negative_slope = v})),
      REAL("ReLUOptions.threshold", ({}), ({0, -1}), ReLU(s, Rows(s), {.threshold = v})),
      REAL("LeakyReLU.negative_slope", ({}), ({0, -1}), LeakyReLU(s, Rows(s), v)),
      REAL("ELU.alpha", ({}), ({0, 2}), ELU(s, Rows(s), v)),
      INTEGER("PReLUOptions.shared_axes", ({0, 2}), ({1}), PReLU(s, Rows(s), {.shared_axes = {v}})),
      INTEGER("Softmax.axis", ({0, 3, -3}), ({1, -1}), Softmax(s, Sequence(s), v)),
      REAL("MaskedSoftmax.scale", ({}), ({-1, 2}), MaskedSoftmax(s, Rows(s), v)),
      SIZE("SelfAttention.heads", SelfAttention(s, Sequence(s), v)),
      SIZE("Bidirectional.units", Bidirectional(s, Sequence(s), v, layers::LSTM)),
      SIZE("Conv1DOptions.strides", Conv1D(s, Sequence(s), 2, 2, nullptr, {.strides = v})),
      SIZE("Conv1DOptions.dilation_rate",
           Conv1D(s, Sequence(s), 2, 2, nullptr, {.dilation_rate = v})),
      SIZE("Conv1DOptions.groups", Conv1D(s, Sequence(s), 2, 2, nullptr, {.groups = v})),
      SIZE("Conv1D.filters", Conv1D(s, Sequence(s), v, 2)),
      SIZE("Conv1D.kernel_size", Conv1D(s, Sequence(s), 2, v)),
      SIZE("Conv2DOptions.strides", Conv2D(s, Images(s), 2, 2, nullptr, {.strides = v})),
      SIZE("Conv2DOptions.dilation_rate",
           Conv2D(s, Images(s), 2, 2, nullptr, {.dilation_rate = {1, v}})),
      SIZE("Conv2DOptions.groups", Conv2D(s, Images(s), 2, 2, nullptr, {.groups = v})),
      SIZE("Conv2D.filters", Conv2D(s, Images(s), v, 2)),
      SIZE("Conv2D.kernel_size", Conv2D(s, Images(s), 2, {v, 1})),
      SIZE("Conv3DOptions.strides", Conv3D(s, Volumes(s), 2, 2, nullptr, {.strides = v})),
      SIZE("Conv3DOptions.dilation_rate",
           Conv3D(s, Volumes(s), 2, 2, nullptr, {.dilation_rate = v})),
      SIZE("Conv3D.filters", Conv3D(s, Volumes(s), v, 2)),
      SIZE("Conv3D.kernel_size", Conv3D(s, Volumes(s), 2, v)),
      SIZE("Dense.units", Dense(s, Rows(s), v)),
      SIZE("DepthwiseConv2DOptions.strides",
           DepthwiseConv2D(s, Images(s), 2, nullptr, {.strides = v})),
      SIZE("DepthwiseConv2DOptions.depth_multiplier",
           DepthwiseConv2D(s, Images(s), 2, nullptr, {.depth_multiplier = v})),
      SIZE("DepthwiseConv2DOptions.dilation_rate",
           DepthwiseConv2D(s, Images(s), 2, nullptr, {.dilation_rate = v})),
      SIZE("DepthwiseConv2D.kernel_size", DepthwiseConv2D(s, Images(s), v)),
      SIZE("SeparableConv2DOptions.strides",
           SeparableConv2D(s, Images(s), 2, 2, nullptr, {.strides = v})),
      SIZE("SeparableConv2DOptions.dilation_rate",
           SeparableConv2D(s, Images(s), 2, 2, nullptr, {.dilation_rate = v})),
      SIZE("SeparableConv2DOptions.depth_multiplier",
           SeparableConv2D(s, Images(s), 2, 2, nullptr, {.depth_multiplier = v})),
      SIZE("SeparableConv2D.filters", SeparableConv2D(s, Images(s), v, 2)),
      SIZE("SeparableConv2D.kernel_size", SeparableConv2D(s, Images(s), 2, v)),
      REAL("Dropout.rate", ({-0.1, 1}), ({0, 0.5}), Dropout(s, Rows(s), v)),
      REAL("SpatialDropout1D.rate", ({-0.1, 1}), ({0, 0.5}), SpatialDropout1D(s, Sequence(s), v)),
      REAL("SpatialDropout2D.rate", ({-0.1, 1}), ({0, 0.5}), SpatialDropout2D(s, Images(s), v)),
      REAL("SpatialDropout3D.rate", ({-0.1, 1}), ({0, 0.5}), SpatialDropout3D(s, Volumes(s), v)),
      REAL("GaussianNoise.stddev", ({-1}), ({0, 2}), GaussianNoise(s, Rows(s), v)),
      REAL("GaussianDropout.rate", ({-0.1, 1}), ({0, 0.5}), GaussianDropout(s, Rows(s), v)),
      SIZE("Embedding.vocabulary", Embedding(s, Classes(s), v, 2)),
      SIZE("Embedding.width", Embedding(s, Classes(s), 2, v)),
      INTEGER("GroupNormalizationOptions.groups", ({-2, 0, 4}), ({-1, 2}),
              GroupNormalization(s, Images(s), {.groups = v})),
      REAL("GroupNormalizationOptions.epsilon", ({-1}), ({0, 1}),
           GroupNormalization(s, Images(s), {.groups = 2, .epsilon = v})),
      REAL("RMSNormalizationOptions.epsilon", ({-1}), ({0, 1}),
           RMSNormalization(s, Rows(s), {.epsilon = v})),
      // Infinity is legal: it can mark masked steps.
      {"Masking.mask_value",
       {kNan},
       {0, kInf},
       [](double v) { return StatusIn([&](const Scope& s) { Masking(s, Sequence(s), v); }); }},
      INTEGER("MultiHeadAttentionOptions.value_dim", ({-1}), ({0, 3}),
              MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 3, {.value_dim = v})),
      REAL("MultiHeadAttentionOptions.dropout", ({-0.1, 1}), ({0, 0.5}),
           MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 3, {.dropout = v})),
      INTEGER("MultiHeadAttentionOptions.output_shape", ({-1}), ({0, 3}),
              MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 3, {.output_shape = v})),
      REAL("MultiHeadAttentionOptions.rotary_wavelength", ({-1}), ({0, 100}),
           MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 4, {.rotary_wavelength = v})),
      SIZE("MultiHeadAttention.num_heads", MultiHeadAttention(s, Sequence(s), Sequence(s), v, 3)),
      SIZE("MultiHeadAttention.key_dim", MultiHeadAttention(s, Sequence(s), Sequence(s), 2, v)),
      REAL("GroupQueryAttentionOptions.dropout", ({-0.1, 1}), ({0, 0.5}),
           GroupQueryAttention(s, Sequence(s), Sequence(s), 2, 2, 2, {.dropout = v})),
      REAL("GroupQueryAttentionOptions.rotary_wavelength", ({-1}), ({0, 100}),
           GroupQueryAttention(s, Sequence(s), Sequence(s), 4, 2, 2, {.rotary_wavelength = v})),
      SIZE("GroupQueryAttention.head_dim",
           GroupQueryAttention(s, Sequence(s), Sequence(s), v, 2, 2)),
      INTEGER("GroupQueryAttention.num_query_heads", ({-2, 0}), ({2, 4}),
              GroupQueryAttention(s, Sequence(s), Sequence(s), 2, v, 2)),
      SIZE("GroupQueryAttention.num_key_value_heads",
           GroupQueryAttention(s, Sequence(s), Sequence(s), 2, 2, v)),
      REAL("BatchNormOptions.momentum", ({-0.1, 1.1}), ({0, 1}),
           BatchNorm(s, Rows(s), nullptr, {.momentum = v})),
      REAL("BatchNormOptions.epsilon", ({-1}), ({0, 1}),
           BatchNorm(s, Rows(s), nullptr, {.epsilon = v})),
      REAL("LayerNormalizationOptions.epsilon", ({-1}), ({0, 1}),
           LayerNormalization(s, Rows(s), {.epsilon = v})),
      INTEGER("ZeroPadding1D.padding", ({-1}), ({0, 2}), ZeroPadding1D(s, Sequence(s), v)),
      INTEGER("ZeroPadding2D.padding", ({-1}), ({0, 2}), ZeroPadding2D(s, Images(s), v)),
      INTEGER("Cropping1D.cropping", ({-1, 3}), ({0, 2}), Cropping1D(s, Sequence(s), v)),
      INTEGER("Cropping2D.cropping", ({-1, 3}), ({0, 2}), Cropping2D(s, Images(s), v)),
      INTEGER("Pooling1DOptions.strides", ({-1}), ({0, 2}),
              MaxPooling1D(s, Sequence(s), 2, {.strides = v})),
      INTEGER("Pooling2DOptions.strides", ({-1}), ({0, 2}),
              AveragePooling2D(s, Images(s), 2, {.strides = v})),
      INTEGER("Pooling3DOptions.strides", ({-1}), ({0, 2}),
              MaxPooling3D(s, Volumes(s), 2, {.strides = v})),
      SIZE("MaxPooling1D.pool_size", MaxPooling1D(s, Sequence(s), v)),
      SIZE("MaxPooling2D.pool_size", MaxPooling2D(s, Images(s), v)),
      SIZE("MaxPooling3D.pool_size", MaxPooling3D(s, Volumes(s), v)),
      SIZE("AveragePooling1D.pool_size", AveragePooling1D(s, Sequence(s), v)),
      SIZE("AveragePooling2D.pool_size", AveragePooling2D(s, Images(s), v)),
      SIZE("AveragePooling3D.pool_size", AveragePooling3D(s, Volumes(s), v)),
      INTEGER("Permute.dims", ({0, 1, 3}), ({2}), Permute(s, Sequence(s), {v, 1})),
      SIZE("RepeatVector.n", RepeatVector(s, Rows(s), v)),
      REAL("RotaryEmbeddingOptions.max_wavelength", ({-1, 0}), ({100}),
           RotaryEmbedding(s, Sequence(s), {.max_wavelength = v})),
      REAL("RotaryEmbeddingOptions.scaling_factor", ({-1, 0}), ({0.5}),
           RotaryEmbedding(s, Sequence(s), {.scaling_factor = v})),
      SIZE("Conv1DTransposeOptions.strides",
           Conv1DTranspose(s, Sequence(s), 2, 2, nullptr, {.strides = v})),
      SIZE("Conv1DTranspose.filters", Conv1DTranspose(s, Sequence(s), v, 2)),
      SIZE("Conv1DTranspose.kernel_size", Conv1DTranspose(s, Sequence(s), 2, v)),
      SIZE("Conv2DTransposeOptions.strides",
           Conv2DTranspose(s, Images(s), 2, 2, nullptr, {.strides = v})),
      INTEGER("Conv2DTransposeOptions.output_padding", ({-1, 2}), ({0, 1}),
              Conv2DTranspose(s, Images(s), 2, 2, nullptr,
                              {.strides = 2, .output_padding = Size2D(v)})),
      SIZE("Conv2DTranspose.filters", Conv2DTranspose(s, Images(s), v, 2)),
      SIZE("Conv2DTranspose.kernel_size", Conv2DTranspose(s, Images(s), 2, v)),
      SIZE("UpSampling1D.size", UpSampling1D(s, Sequence(s), v)),
      SIZE("UpSampling2D.size", UpSampling2D(s, Images(s), v)),
  };
}

std::vector<NumericRow> RecurrentRows() {
  std::vector<NumericRow> rows;
#define RECURRENT(Layer)                                                     \
  for (const NumericRow& row :                                               \
       {SIZE(#Layer ".units", Layer(s, Sequence(s), v)),                     \
        SIZE(#Layer "WithState.units", Layer##WithState(s, Sequence(s), v)), \
        REAL(#Layer "Options.dropout", ({-0.1, 1}), ({0, 0.5}),              \
             Layer(s, Sequence(s), 2, {.dropout = v})),                      \
        REAL(#Layer "Options.recurrent_dropout", ({-0.1, 1}), ({0, 0.5}),    \
             Layer(s, Sequence(s), 2, {.recurrent_dropout = v}))}) {         \
    rows.push_back(row);                                                     \
  }
  RECURRENT(SimpleRNN)
  RECURRENT(LSTM)
  RECURRENT(GRU)
  return rows;
}

std::vector<NumericRow> LossRows() {
  using namespace losses;  // NOLINT
  return {
      REAL("CrossentropyOptions.label_smoothing", ({-0.1, 1.1}), ({0, 1}),
           BinaryCrossentropy(s, Rows(s), Rows(s), {.label_smoothing = v})),
      REAL("CrossentropyOptions.label_smoothing", ({-0.1, 1.1}), ({0, 1}),
           CategoricalCrossentropy(s, Rows(s), Rows(s), {.label_smoothing = v})),
      REAL("BinaryFocalOptions.alpha", ({-1, 2}), ({0, 1}),
           BinaryFocalCrossentropy(s, Rows(s), Rows(s), {.alpha = v})),
      REAL("BinaryFocalOptions.gamma", ({-1}), ({0, 3}),
           BinaryFocalCrossentropy(s, Rows(s), Rows(s), {.gamma = v})),
      REAL("BinaryFocalOptions.label_smoothing", ({-0.1, 1.1}), ({0, 1}),
           BinaryFocalCrossentropy(s, Rows(s), Rows(s), {.label_smoothing = v})),
      REAL("CategoricalFocalOptions.alpha", ({-1}), ({0, 2}),
           CategoricalFocalCrossentropy(s, Rows(s), Rows(s), {.alpha = v})),
      REAL("CategoricalFocalOptions.gamma", ({-1}), ({0, 3}),
           CategoricalFocalCrossentropy(s, Rows(s), Rows(s), {.gamma = v})),
      REAL("CategoricalFocalOptions.label_smoothing", ({-0.1, 1.1}), ({0, 1}),
           CategoricalFocalCrossentropy(s, Rows(s), Rows(s), {.label_smoothing = v})),
      REAL("HuberOptions.delta", ({0, -1}), ({0.5}), Huber(s, Rows(s), Rows(s), {.delta = v})),
  };
}

std::vector<NumericRow> MetricRows() {
  using namespace metrics;  // NOLINT
  return {
      REAL("BinaryAccuracyOptions.threshold", ({-1, 0, 1, 2}), ({0.3}),
           BinaryAccuracy(s, Rows(s), Rows(s), {.threshold = v})),
      SIZE("TopKAccuracyOptions.k",
           SparseTopKCategoricalAccuracy(s, Rows(s), Classes(s), {.k = v})),
      INTEGER("AUCOptions.num_thresholds", ({-1, 1}), ({2, 10}),
              AUC(s, Rows(s), Rows(s), {.num_thresholds = v})),
      SIZE("ConfusionMatrix.num_classes", ConfusionMatrix(s, Classes(s), Classes(s), v)),
      SIZE("MeanIoU.num_classes", MeanIoU(s, Classes(s), Classes(s), v)),
      REAL("FBetaScoreOptions.beta", ({0, -1}), ({0.5}),
           FBetaScore(s, Rows(s), Rows(s), {.beta = v})),
      REAL("FBetaScoreOptions.threshold", ({0, 1.1}), ({0.5, 1}),
           FBetaScore(s, Rows(s), Rows(s), {.threshold = v})),
      REAL("F1ScoreOptions.threshold", ({0, 1.1}), ({0.5, 1}),
           F1Score(s, Rows(s), Rows(s), {.threshold = v})),
      REAL("ThresholdOptions.thresholds", ({-0.1, 1.1}), ({0, 1}),
           Precision(s, Rows(s), Rows(s), {.thresholds = {0.5, v}})),
      INTEGER("ThresholdOptions.top_k", ({0, -1}), ({1}),
              Recall(s, Rows(s), Rows(s), {.top_k = v})),
      INTEGER("ThresholdOptions.class_id", ({-1, 6}), ({0, 5}),
              Recall(s, Rows(s), Rows(s), {.class_id = v})),
  };
}

}  // namespace

std::vector<NumericRow> GraphRows() {
  std::vector<NumericRow> rows = InitializerRows();
  for (const auto& more : {LayerRows(), RecurrentRows(), LossRows(), MetricRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace mirrorflow
