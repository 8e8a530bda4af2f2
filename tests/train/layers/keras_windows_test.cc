// SPDX-License-Identifier: Apache-2.0
//
// Compares convolutions and pooling with Keras, as keras_cases_test.cc does.
#include "gtest/gtest.h"
#include "ops/unary.h"
#include "tests/train/layers/keras_case.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

using Xs = const std::vector<Output>&;

#define LAYER(...) [](const Scope& s, Xs x) { return __VA_ARGS__; }

TEST(KerasWindows, ConvolutionsMatchKeras) {
  const KerasInput sequence = Shape({7, 9, 2}), images = Shape({7, 6, 5, 2});
  const KerasInput small = Shape({7, 3, 4, 2}), volumes = Shape({7, 4, 5, 3, 2});
  ExpectMatchesKeras(
      "convolution",
      {
          {"conv1d", {sequence}, LAYER(layers::Conv1D(s, x[0], 3, 3))},
          {"conv1d_same",
           {sequence},
           LAYER(layers::Conv1D(s, x[0], 3, 4, nullptr, {.strides = 2, .padding = "SAME"}))},
          {"conv1d_causal",
           {sequence},
           LAYER(layers::Conv1D(s, x[0], 3, 3, nullptr, {.padding = "CAUSAL"}))},
          {"conv1d_causal_dilated",
           {sequence},
           LAYER(
               layers::Conv1D(s, x[0], 3, 2, nullptr, {.padding = "CAUSAL", .dilation_rate = 3}))},
          {"conv1d_causal_strided",
           {sequence},
           LAYER(layers::Conv1D(s, x[0], 3, 3, nullptr, {.strides = 2, .padding = "CAUSAL"}))},
          {"conv1d_grouped",
           {sequence},
           LAYER(layers::Conv1D(s, x[0], 4, 3, nullptr, {.groups = 2}))},
          {"conv2d", {images}, LAYER(layers::Conv2D(s, x[0], 3, 3, ops::Tanh))},
          {"conv2d_same",
           {images},
           LAYER(layers::Conv2D(s, x[0], 3, 3, nullptr, {.strides = 2, .padding = "SAME"}))},
          {"conv2d_oblong",
           {images},
           LAYER(layers::Conv2D(s, x[0], 3, {2, 3}, nullptr, {.strides = {2, 1}}))},
          {"conv2d_dilated",
           {images},
           LAYER(layers::Conv2D(s, x[0], 3, 2, nullptr,
                                {.dilation_rate = {3, 2}, .use_bias = false}))},
          {"conv2d_grouped",
           {Shape({7, 5, 4, 4})},
           LAYER(layers::Conv2D(s, x[0], 6, 3, nullptr, {.padding = "SAME", .groups = 2}))},
          {"conv3d", {volumes}, LAYER(layers::Conv3D(s, x[0], 3, 2))},
          {"conv3d_same",
           {volumes},
           LAYER(
               layers::Conv3D(s, x[0], 2, {3, 2, 3}, nullptr, {.strides = 2, .padding = "SAME"}))},
          {"conv3d_oblong",
           {volumes},
           LAYER(layers::Conv3D(s, x[0], 2, {2, 3, 1}, nullptr,
                                {.strides = {2, 1, 2}, .use_bias = false}))},
          {"conv3d_dilated",
           {volumes},
           LAYER(layers::Conv3D(s, x[0], 2, 2, nullptr, {.dilation_rate = {3, 2, 1}}))},
          {"depthwise_conv2d", {images}, LAYER(layers::DepthwiseConv2D(s, x[0], 3))},
          {"depthwise_conv2d_multiplied",
           {images},
           LAYER(
               layers::DepthwiseConv2D(s, x[0], {2, 3}, ops::Tanh,
                                       {.strides = 2, .padding = "SAME", .depth_multiplier = 3}))},
          {"depthwise_conv2d_dilated",
           {images},
           LAYER(layers::DepthwiseConv2D(s, x[0], 2, nullptr, {.dilation_rate = 2}))},
          {"separable_conv2d", {images}, LAYER(layers::SeparableConv2D(s, x[0], 3, 3))},
          {"separable_conv2d_multiplied",
           {images},
           LAYER(
               layers::SeparableConv2D(s, x[0], 3, {3, 2}, ops::Tanh,
                                       {.strides = 2, .padding = "SAME", .depth_multiplier = 2}))},
          {"conv2d_transpose", {small}, LAYER(layers::Conv2DTranspose(s, x[0], 3, 3))},
          {"conv2d_transpose_same",
           {small},
           LAYER(layers::Conv2DTranspose(s, x[0], 3, 3, ops::Tanh,
                                         {.strides = 2, .padding = "SAME"}))},
          {"conv2d_transpose_valid",
           {small},
           LAYER(layers::Conv2DTranspose(s, x[0], 3, {2, 3}, nullptr, {.strides = {3, 2}}))},
          {"conv2d_transpose_output_padding",
           {small},
           LAYER(layers::Conv2DTranspose(s, x[0], 3, 3, nullptr,
                                         {.strides = 2, .padding = "SAME", .output_padding = 0}))},
          {"conv1d_transpose",
           {Shape({7, 4, 2})},
           LAYER(layers::Conv1DTranspose(s, x[0], 3, 3, nullptr, {.strides = 2}))},
      });
}

TEST(KerasWindows, PoolingMatchesKeras) {
  const KerasInput sequence = Shape({7, 8, 2}), images = Shape({7, 5, 6, 2});
  const KerasInput volumes = Shape({7, 4, 5, 3, 2});
  ExpectMatchesKeras(
      "pooling",
      {
          {"max_pooling1d", {sequence}, LAYER(layers::MaxPooling1D(s, x[0]))},
          {"max_pooling1d_same",
           {sequence},
           LAYER(layers::MaxPooling1D(s, x[0], 3, {.strides = 2, .padding = "SAME"}))},
          {"max_pooling2d", {images}, LAYER(layers::MaxPooling2D(s, x[0]))},
          {"max_pooling2d_same",
           {images},
           LAYER(layers::MaxPooling2D(s, x[0], {3, 2}, {.strides = 2, .padding = "SAME"}))},
          {"max_pooling3d", {volumes}, LAYER(layers::MaxPooling3D(s, x[0]))},
          {"max_pooling3d_same",
           {volumes},
           LAYER(layers::MaxPooling3D(s, x[0], {2, 3, 1}, {.strides = 2, .padding = "SAME"}))},
          {"average_pooling1d", {sequence}, LAYER(layers::AveragePooling1D(s, x[0]))},
          {"average_pooling1d_same",
           {sequence},
           LAYER(layers::AveragePooling1D(s, x[0], 3, {.strides = 2, .padding = "SAME"}))},
          {"average_pooling2d", {images}, LAYER(layers::AveragePooling2D(s, x[0]))},
          {"average_pooling2d_same",
           {images},
           LAYER(layers::AveragePooling2D(s, x[0], {3, 2}, {.strides = 2, .padding = "SAME"}))},
          {"average_pooling3d", {volumes}, LAYER(layers::AveragePooling3D(s, x[0]))},
          {"average_pooling3d_same",
           {volumes},
           LAYER(layers::AveragePooling3D(s, x[0], {2, 3, 1}, {.strides = 2, .padding = "SAME"}))},
          {"global_max_pooling1d", {sequence}, LAYER(layers::GlobalMaxPooling1D(s, x[0]))},
          {"global_max_pooling2d", {images}, LAYER(layers::GlobalMaxPooling2D(s, x[0]))},
          {"global_max_pooling3d", {volumes}, LAYER(layers::GlobalMaxPooling3D(s, x[0]))},
          {"global_average_pooling1d", {sequence}, LAYER(layers::GlobalAveragePooling1D(s, x[0]))},
          {"global_average_pooling2d", {images}, LAYER(layers::GlobalAveragePooling2D(s, x[0]))},
          {"global_average_pooling3d", {volumes}, LAYER(layers::GlobalAveragePooling3D(s, x[0]))},
          {"global_average_pooling2d_kept",
           {images},
           LAYER(layers::GlobalAveragePooling2D(s, x[0], {.keepdims = true}))},
      });
}

}  // namespace
}  // namespace mirrorflow
