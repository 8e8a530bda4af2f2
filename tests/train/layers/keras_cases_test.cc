// SPDX-License-Identifier: Apache-2.0
//
// Compares the layers' outputs and gradients with Keras, on 1 replica and on 3, which get 3, 2 and
// 2 of the 7 rows.
#include "gtest/gtest.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/unary.h"
#include "tests/train/layers/keras_case.h"
#include "train/inference.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

using Xs = const std::vector<Output>&;

// Builds a layer for a table row, from an expression of a scope `s` and inputs `x`.
#define LAYER(...) [](const Scope& s, Xs x) { return __VA_ARGS__; }

TEST(KerasCases, DenseMatchesKeras) {
  const KerasInput rows = Shape({7, 3});
  ExpectMatchesKeras(
      "dense",
      {
          {"dense", {rows}, LAYER(layers::Dense(s, x[0], 4))},
          {"dense_without_bias",
           {rows},
           LAYER(layers::Dense(s, x[0], 4, ops::Tanh, {.use_bias = false}))},
          {"dense_on_sequence", {Shape({7, 5, 3})}, LAYER(layers::Dense(s, x[0], 4, ops::Relu))},
          {"embedding", {{{7, 5}, 9}}, LAYER(layers::Embedding(s, x[0], 9, 4))},
      });
}

TEST(KerasCases, ActivationsMatchKeras) {
  const KerasInput rows = Shape({7, 6}), images = Shape({7, 3, 2, 4});
  const auto triple = [](const Scope& s, Output x) {
    return ops::Mul(s, x, ops::ScalarConst(s, DT_FLOAT, 3));
  };
  ExpectMatchesKeras(
      "activation",
      {
          {"relu", {rows}, LAYER(layers::ReLU(s, x[0]))},
          {"relu_limited",
           {rows},
           [&](const Scope& s, Xs x) {
             return layers::ReLU(s, triple(s, x[0]),
                                 {.max_value = 2, .negative_slope = 0.25, .threshold = 0.5});
           }},
          {"leaky_relu", {rows}, LAYER(layers::LeakyReLU(s, x[0]))},
          {"leaky_relu_steep", {rows}, LAYER(layers::LeakyReLU(s, x[0], 0.75))},
          {"prelu", {images}, LAYER(layers::PReLU(s, x[0]))},
          {"prelu_shared", {images}, LAYER(layers::PReLU(s, x[0], {.shared_axes = {1, 2}}))},
          {"elu", {rows}, LAYER(layers::ELU(s, x[0]))},
          {"elu_scaled", {rows}, LAYER(layers::ELU(s, x[0], 0.5))},
          {"softmax", {rows}, LAYER(layers::Softmax(s, x[0]))},
          {"softmax_of_rows", {images}, LAYER(layers::Softmax(s, x[0], 1))},
          {"masked_softmax",
           {Shape({7, 3, 5}), {{7, 1, 5}, 9}},
           [](const Scope& s, Xs x) {
             const Output out = ops::Equal(s, x[1], ops::ScalarConst(s, DT_INT32, 0));
             const Output mask =
                 ops::Mul(s, ops::Cast(s, out, DT_FLOAT), ops::ScalarConst(s, DT_FLOAT, -1e9));
             return layers::MaskedSoftmax(s, x[0], 0.5, {.mask = mask});
           }},
      });
}

TEST(KerasCases, NormalizationsMatchKeras) {
  const KerasInput rows = Shape({7, 6}), images = Shape({7, 3, 2, 6});
  ExpectMatchesKeras(
      "normalization",
      {
          {"batch_normalization", {rows}, LAYER(layers::BatchNormalization(s, x[0]))},
          {"batch_normalization_of_sequence",
           {Shape({7, 4, 3})},
           LAYER(layers::BatchNormalization(s, x[0]))},
          {"batch_normalization_of_images",
           {images},
           LAYER(layers::BatchNormalization(s, x[0], {.epsilon = 0.1}))},
          {"batch_normalization_in_inference",
           {images},
           LAYER(ForInference(s, layers::BatchNormalization(s, x[0], {.epsilon = 1.5})))},
          {"batch_normalization_of_rows_in_inference",
           {rows},
           LAYER(ForInference(s, layers::BatchNormalization(s, x[0], {.epsilon = 1.25})))},
          {"layer_normalization", {rows}, LAYER(layers::LayerNormalization(s, x[0]))},
          {"layer_normalization_of_images",
           {images},
           LAYER(layers::LayerNormalization(s, x[0], {.epsilon = 0.1}))},
          {"group_normalization",
           {images},
           LAYER(layers::GroupNormalization(s, x[0], {.groups = 3}))},
          {"group_normalization_of_rows",
           {rows},
           LAYER(layers::GroupNormalization(s, x[0], {.groups = 2, .epsilon = 0.1}))},
          {"instance_normalization",
           {images},
           LAYER(layers::GroupNormalization(s, x[0], {.groups = -1, .scale = false}))},
          {"group_normalization_bare",
           {images},
           LAYER(layers::GroupNormalization(s, x[0], {.groups = 1, .center = false}))},
          {"rms_normalization", {rows}, LAYER(layers::RMSNormalization(s, x[0]))},
          {"rms_normalization_of_images",
           {images},
           LAYER(layers::RMSNormalization(s, x[0], {.epsilon = 0.1}))},
          {"unit_normalization", {rows}, LAYER(layers::UnitNormalization(s, x[0]))},
      });
}

TEST(KerasCases, ReshapingMatchesKeras) {
  const KerasInput sequence = Shape({7, 5, 3}), images = Shape({7, 4, 5, 2});
  ExpectMatchesKeras(
      "reshaping",
      {
          {"flatten", {images}, LAYER(layers::Flatten(s, x[0]))},
          {"flatten_of_vector", {Shape({7})}, LAYER(layers::Flatten(s, x[0]))},
          {"reshape", {images}, LAYER(layers::Reshape(s, x[0], {5, 8}))},
          {"reshape_inferred", {images}, LAYER(layers::Reshape(s, x[0], {2, -1, 5}))},
          {"permute", {images}, LAYER(layers::Permute(s, x[0], {3, 1, 2}))},
          {"repeat_vector", {Shape({7, 4})}, LAYER(layers::RepeatVector(s, x[0], 3))},
          {"up_sampling1d", {sequence}, LAYER(layers::UpSampling1D(s, x[0]))},
          {"up_sampling2d", {images}, LAYER(layers::UpSampling2D(s, x[0]))},
          {"up_sampling2d_oblong", {images}, LAYER(layers::UpSampling2D(s, x[0], {3, 1}))},
          {"up_sampling2d_bilinear",
           {images},
           LAYER(layers::UpSampling2D(s, x[0], {2, 3}, {.interpolation = "bilinear"}))},
          {"zero_padding1d", {sequence}, LAYER(layers::ZeroPadding1D(s, x[0]))},
          {"zero_padding1d_uneven", {sequence}, LAYER(layers::ZeroPadding1D(s, x[0], {2, 0}))},
          {"zero_padding2d", {images}, LAYER(layers::ZeroPadding2D(s, x[0]))},
          {"zero_padding2d_uneven",
           {images},
           LAYER(layers::ZeroPadding2D(s, x[0], {{0, 1}, {2, 3}}))},
          {"cropping1d", {sequence}, LAYER(layers::Cropping1D(s, x[0]))},
          {"cropping1d_uneven", {sequence}, LAYER(layers::Cropping1D(s, x[0], {0, 2}))},
          {"cropping2d", {images}, LAYER(layers::Cropping2D(s, x[0], {1, 2}))},
          {"cropping2d_uneven", {images}, LAYER(layers::Cropping2D(s, x[0], {{0, 1}, {2, 0}}))},
      });
}

}  // namespace
}  // namespace mirrorflow
