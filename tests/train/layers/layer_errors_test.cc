// SPDX-License-Identifier: Apache-2.0
//
// Tests that a layer with invalid arguments fails the graph with an error that names the layer.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/control.h"
#include "tests/support/is_error.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

struct Mistake {
  std::function<Output(const Scope&)> build;
  const char* place;
  const char* token = "";  // set if the same place has several errors
};

void ExpectFails(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    Graph graph;
    EXPECT_FALSE(mistake.build(Scope(&graph)).valid()) << mistake.place;
    EXPECT_THAT(graph.status(),
                IsError(absl::StatusCode::kInvalidArgument, mistake.place, mistake.token));
  }
}

Output Input(const Scope& s, const Shape& shape) {
  return ops::Placeholder(s.WithName("x"), DT_FLOAT, shape);
}
Output Rows(const Scope& s) { return Input(s, {kUnknownDim, 6}); }
Output Sequence(const Scope& s) { return Input(s, {kUnknownDim, 5, 6}); }
Output Images(const Scope& s) { return Input(s, {kUnknownDim, 5, 4, 6}); }
Output Volumes(const Scope& s) { return Input(s, {kUnknownDim, 3, 5, 4, 6}); }
Output Unknown(const Scope& s) { return Input(s, {kUnknownDim, kUnknownDim, 6}); }

#define LAYER(...) [](const Scope& s) { return __VA_ARGS__; }

TEST(LayerErrors, ErrorsOfConvolutionsNameLayer) {
  ExpectFails({
      {LAYER(layers::Conv1D(s, Rows(s), 2, 3)), "conv1d:", "rank 3"},
      {LAYER(layers::Conv1D(s, Sequence(s), 0, 3)), "conv1d: filters out of range"},
      {LAYER(layers::Conv1D(s, Sequence(s), 2, 9)), "Conv2D(conv1d/"},
      {LAYER(layers::Conv1D(s, Sequence(s), 2, 3, nullptr, {.padding = "LEFT"})), "LEFT"},
      {LAYER(layers::Conv2D(s, Images(s), 4, {3, 0})), "conv2d: kernel_size out of range"},
      {LAYER(layers::Conv2D(s, Images(s), 4, 3, nullptr, {.groups = 4})),
       "conv2d:", "got shape [?,5,4,6]"},
      {LAYER(layers::Conv2D(s, Images(s), 4, 3, nullptr, {.groups = 3})),
       "must be divisible into 3 groups"},
      {LAYER(layers::Conv2D(s, Images(s), 4, 3, nullptr, {.groups = 0})),
       "conv2d: groups out of range"},
      {LAYER(layers::Conv2D(s, Images(s), 4, 3, nullptr, {.dilation_rate = 0})), "dilation"},
      {LAYER(layers::Conv3D(s, Images(s), 2, 3)), "conv3d:", "rank 5"},
      {LAYER(layers::Conv3D(s, Volumes(s), 2, 4)), "conv3d:", "got 4"},
      {LAYER(layers::Conv3D(s, Volumes(s), 2, {1, 9, 1})), "Conv2D(conv3d/"},
      {LAYER(layers::Conv3D(s, Volumes(s), 2, 3, nullptr, {.strides = 0})),
       "conv3d: strides out of range"},
      {LAYER(layers::DepthwiseConv2D(s, Sequence(s), 3)), "depthwise_conv2d:", "rank 4"},
      {LAYER(layers::DepthwiseConv2D(s, Images(s), 3, nullptr, {.depth_multiplier = 0})),
       "depthwise_conv2d: depth_multiplier out of range"},
      {LAYER(layers::SeparableConv2D(s, Images(s), -1, 3)), "separable_conv2d:", "got -1"},
      {LAYER(layers::Conv2DTranspose(s, Sequence(s), 2, 3)), "conv2d_transpose:", "rank 4"},
      {LAYER(layers::Conv2DTranspose(s, Images(s), 2, 3, nullptr, {.padding = "FULL"})),
       "conv2d_transpose:", "got FULL"},
      {LAYER(layers::Conv2DTranspose(s, Images(s), 2, 3, nullptr, {.strides = {1, 0}})),
       "conv2d_transpose: strides out of range"},
      {LAYER(layers::Conv2DTranspose(s, Images(s), 2, 3, nullptr,
                                     {.strides = 2, .output_padding = 4})),
       "Conv2DBackpropInput(conv2d_transpose/"},
      {LAYER(layers::Conv1DTranspose(s, Unknown(s), 2, 3)), "conv1d_transpose:", "rank 3"},
  });
}

// Some windows exceed the input by less than a stride; for these, TensorFlow's ops return an empty
// result.
TEST(LayerErrors, WindowLargerThanInputIsRejected) {
  const auto blocks = [](const Scope& s) { return s.SubScope("block"); };
  ExpectFails({
      {LAYER(layers::Conv1D(s, Sequence(s), 2, 6)), "Conv2D(conv1d/Conv2D):", "got 6"},
      {LAYER(layers::Conv1D(s, Sequence(s), 2, 3, nullptr, {.strides = 4, .dilation_rate = 4})),
       "expected at most 5, got 9"},
      {LAYER(
           layers::Conv1D(s, Input(s, {kUnknownDim, 0, 6}), 2, 3, nullptr, {.padding = "CAUSAL"})),
       "expected at most 0, got 3"},
      {[&](const Scope& s) {
         return layers::Conv2D(blocks(s), Images(s), 4, {3, 5});
       },
       "Conv2D(block/conv2d/Conv2D):", "at most 4"},
      {LAYER(layers::Conv2D(s, Images(s), 4, {6, 1})), "expected at most 5, got 6"},
      {LAYER(layers::Conv2D(s, Input(s, {kUnknownDim, kUnknownDim, 4, 6}), 4, 5)),
       "expected at most 4, got 5"},
      {LAYER(layers::Conv3D(s, Volumes(s), 2, {1, 6, 1})), "Conv2D(conv3d/Conv2D):", "got 6"},
      {LAYER(layers::DepthwiseConv2D(s, Images(s), 3, nullptr, {.dilation_rate = 2})),
       "DepthwiseConv2dNative(depthwise_conv2d/DepthwiseConv2dNative): the window is larger"},
      {LAYER(layers::SeparableConv2D(s, Images(s), 2, 5)), "expected at most 4, got 5"},
      {LAYER(layers::MaxPooling1D(s, Sequence(s), 6)), "MaxPool(MaxPool):", "got 6"},
      {LAYER(layers::MaxPooling2D(s, Images(s), 5)), "expected at most 4, got 5"},
      {LAYER(layers::AveragePooling2D(s, Images(s), {6, 1})), "AvgPool(AvgPool):", "got 6"},
      {LAYER(layers::MaxPooling3D(s, Volumes(s), {4, 1, 1})), "expected at most 3, got 4"},
      {LAYER(layers::AveragePooling3D(s, Volumes(s), {1, 1, 5})), "expected at most 4, got 5"},
  });
}

TEST(LayerErrors, ErrorsOfPoolingNameLayer) {
  ExpectFails({
      {LAYER(layers::MaxPooling1D(s, Images(s))), "max_pooling1d:", "rank 3"},
      {LAYER(layers::MaxPooling1D(s, Sequence(s), 0)), "MaxPool"},
      {LAYER(layers::AveragePooling2D(s, Images(s), {2, 0})), "AvgPool"},
      {LAYER(layers::AveragePooling3D(s, Images(s))), "average_pooling3d:", "rank 5"},
      {LAYER(layers::MaxPooling3D(s, Volumes(s), {0, 1, 1})), "MaxPool"},
      {LAYER(layers::GlobalMaxPooling2D(s, Sequence(s))),
       "global_max_pooling2d:", "got shape [?,5,6]"},
      {LAYER(layers::GlobalAveragePooling1D(s, Input(s, Shape::UnknownRank()))),
       "global_average_pooling1d"},
  });
}

TEST(LayerErrors, ErrorsOfNormalizationsNameLayer) {
  ExpectFails({
      {LAYER(layers::BatchNorm(s, Input(s, {kUnknownDim}))), "batch_norm: expected an input"},
      {LAYER(layers::GroupNormalization(s, Images(s))), "group_normalization:", "got 32"},
      {LAYER(layers::GroupNormalization(s, Images(s), {.groups = 0})), "got 0"},
      {LAYER(layers::GroupNormalization(s, Unknown(s), {.groups = 2})),
       "group_normalization:", "rank 3"},
      {LAYER(layers::GroupNormalization(s, Input(s, Shape::UnknownRank()))),
       "group_normalization: expected an input"},
      {LAYER(layers::RMSNormalization(s, Input(s, {4, kUnknownDim}))),
       "rms_normalization:", "known"},
      {LAYER(layers::UnitNormalization(s, Input(s, Shape()))), "unit_normalization"},
  });
}

TEST(LayerErrors, ErrorsOfReshapingNameLayer) {
  ExpectFails({
      {LAYER(layers::Reshape(s, Sequence(s), {4, 8})), "reshape:", "[4,8]"},
      {LAYER(layers::Reshape(s, Sequence(s), {-1, -1})), "reshape: target shape"},
      {LAYER(layers::Reshape(s, Sequence(s), {-1, 4})), "reshape: target shape"},
      {LAYER(layers::Reshape(s, Sequence(s), {-1, 0})), "reshape: target shape"},
      {LAYER(layers::Reshape(s, Unknown(s), {6})), "reshape: expected an input"},
      {LAYER(layers::Permute(s, Sequence(s), {1, 1})), "permute: expected a permutation"},
      {LAYER(layers::Permute(s, Sequence(s), {0, 1})), "got (0,1)"},
      {LAYER(layers::Permute(s, Sequence(s), {1})), "permute: expected a permutation"},
      {LAYER(layers::RepeatVector(s, Sequence(s), 2)), "repeat_vector:", "rank"},
      {LAYER(layers::RepeatVector(s, Rows(s), 0)), "repeat_vector: n out of range"},
      {LAYER(layers::UpSampling1D(s, Unknown(s))), "up_sampling1d:", "rank 3"},
      {LAYER(layers::UpSampling2D(s, Images(s), {2, 0})), "up_sampling2d: size out of range"},
      {LAYER(layers::UpSampling2D(s, Images(s), 2, {.interpolation = "cubic"})), "interpolation",
       "got cubic"},
      {LAYER(layers::ZeroPadding1D(s, Images(s))), "zero_padding1d:", "rank 3"},
      {LAYER(layers::ZeroPadding2D(s, Images(s), {{0, -1}, 0})), "zero_padding2d:", "got 0 and -1"},
      {LAYER(layers::Cropping1D(s, Sequence(s), {2, 3})), "cropping1d:", "got 5"},
      {LAYER(layers::Cropping2D(s, Sequence(s))), "cropping2d:", "rank 4"},
  });
}

TEST(LayerErrors, ErrorsOfActivationsAndNoiseNameLayer) {
  ExpectFails({
      {LAYER(layers::ReLU(s, Rows(s), {.max_value = -1})), "relu:", "max_value"},
      {LAYER(layers::PReLU(s, Unknown(s))), "prelu:", "rank 3"},
      {LAYER(layers::PReLU(s, Rows(s), {.shared_axes = {2}})), "prelu:", "got 2"},
      {LAYER(layers::Softmax(s, Images(s), 0)), "softmax:", "axis"},
      {LAYER(layers::Softmax(s, Images(s), 4)), "got 4"},
      {LAYER(layers::SpatialDropout2D(s, Sequence(s), 0.5)), "spatial_dropout2d: expected"},
      {LAYER(layers::SpatialDropout1D(s, Sequence(s), 1)), "rate", "least 0"},
      {LAYER(layers::GaussianNoise(s, Rows(s), -1)), "gaussian_noise: stddev: expected 0 or more"},
      {LAYER(layers::GaussianDropout(s, Rows(s), 1)), "gaussian_dropout: rate: expected"},
  });
}

TEST(LayerErrors, ErrorsOfRecurrentLayersNameLayer) {
  ExpectFails({
      {LAYER(layers::LSTM(s, Rows(s), 4)), "lstm:", "rank 3"},
      {LAYER(layers::GRU(s, Unknown(s), 4)), "gru:", "rank 3"},
      {LAYER(layers::SimpleRNN(s, Sequence(s), 0)), "simple_rnn: units out of range"},
      {LAYER(layers::LSTM(s, Input(s, {kUnknownDim, 0, 3}), 4)), "lstm:", "sequence length"},
      {LAYER(layers::LSTM(s, Sequence(s), 6, {.initial_state = {Rows(s)}})), "lstm:", "got 1"},
      {LAYER(layers::LSTM(s, Sequence(s), 4, {.initial_state = {Rows(s), Rows(s)}})),
       "lstm:", "got [?,6]"},
      {LAYER(layers::LSTM(s, Sequence(s), 4, {.mask = Rows(s)})), "lstm:", "got float[?,6]"},
      {LAYER(layers::GRU(s, Sequence(s), 4, {.dropout = 1})), "rate", "got 1"},
      {LAYER(layers::SimpleRNN(s, Sequence(s), 4, {.recurrent_dropout = -0.5})), "rate",
       "got -0.5"},
      {LAYER(layers::Masking(s, Rows(s)).y), "masking:", "rank 3"},
      {LAYER(layers::Bidirectional(s, Sequence(s), 4, layers::GRU, {}, {.merge_mode = "max"})),
       "bidirectional:", "got max"},
      {LAYER(layers::Bidirectional(s, Rows(s), 4, layers::GRU)), "forward_gru:", "rank 3"},
  });
}

TEST(LayerErrors, ErrorsOfAttentionNameLayer) {
  ExpectFails({
      {LAYER(layers::MultiHeadAttention(s, Rows(s), Sequence(s), 2, 3)),
       "multi_head_attention:", "rank 3"},
      {LAYER(layers::MultiHeadAttention(s, Sequence(s), Unknown(s), 2, 3)),
       "multi_head_attention:", "rank 3"},
      {LAYER(layers::MultiHeadAttention(s, Sequence(s), Sequence(s), 0, 3)),
       "multi_head_attention:", "head count"},
      {LAYER(layers::MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 3,
                                        {.key = Input(s, {kUnknownDim, 4, 6})})),
       "keys and values", "got shapes [?,4,6] and [?,5,6]"},
      {LAYER(layers::MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 3,
                                        {.mask = {.mask = Rows(s)}})),
       "a mask", "got shape [?,6]"},
      {LAYER(layers::MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 3, {.dropout = 1})), "rate",
       "got 1"},
      {LAYER(layers::MultiHeadAttention(s, Sequence(s), Sequence(s), 2, 3,
                                        {.rotary_wavelength = 100})),
       "rotary_embedding:", "last dimension"},
      {LAYER(layers::GroupQueryAttention(s, Sequence(s), Sequence(s), 3, 4, 3)),
       "grouped_query_attention:", "got 4"},
      {LAYER(layers::RotaryEmbedding(s, Sequence(s), {.max_wavelength = -1})),
       "rotary_embedding: max_wavelength: expected above 0, got -1"},
  });
}

}  // namespace
}  // namespace mirrorflow
