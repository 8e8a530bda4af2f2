// SPDX-License-Identifier: Apache-2.0
//
// Layers are functions that add nodes and variables to a graph, and return the layer's result:
//
//   const Output hidden = layers::Dense(root, images, 128, ops::Relu);
//   const Output logits = layers::Dense(root, layers::Dropout(root, hidden, 0.2), 10);
//
// Images are [batch, height, width, channels], sequences [batch, n, width]. Variables are float.
// The option `name` is the scope of the layer's nodes and variables; a name that is already in use
// gets a number: dense, dense_1. Build a model in its training form; ForInference() derives the
// inference form.
//
// Errors: a layer that cannot be built records its error, which names the layer, in the graph, and
// returns an invalid Output. All later layers, losses and metrics then also return invalid outputs,
// and Strategy::NewSession returns the first error. The section "Errors" of each layer lists its
// own checks. In addition, every size, such as a number of filters or a stride, must be at least 1,
// unless a comment says otherwise.
//
// In the section "Shapes", a dimension is unknown if it is -1 (kUnknownDim) when the graph is
// built.
#ifndef MIRRORFLOW_TRAIN_LAYERS_LAYERS_H_
#define MIRRORFLOW_TRAIN_LAYERS_LAYERS_H_

#include "train/layers/activation.h"     // Activation, ReLU, PReLU, Softmax, …
#include "train/layers/attention.h"      // MultiHeadAttention, RotaryEmbedding, …
#include "train/layers/convolution.h"    // Conv2D, DepthwiseConv2D, Conv2DTranspose, …
#include "train/layers/dense.h"          // Dense
#include "train/layers/dropout.h"        // Dropout, SpatialDropout2D, GaussianNoise, …
#include "train/layers/embedding.h"      // Embedding
#include "train/layers/masking.h"        // Masking, PaddingMask
#include "train/layers/normalization.h"  // BatchNorm, LayerNormalization, GroupNormalization, …
#include "train/layers/pooling.h"        // MaxPooling2D, GlobalAveragePooling2D, …
#include "train/layers/recurrent.h"      // SimpleRNN, LSTM, GRU, Bidirectional
#include "train/layers/reshaping.h"      // Flatten, Reshape, ZeroPadding2D, UpSampling2D, …
#include "train/layers/shared.h"         // Shared
#include "train/layers/sizes.h"          // Size2D, Border2D, …

#endif  // MIRRORFLOW_TRAIN_LAYERS_LAYERS_H_
