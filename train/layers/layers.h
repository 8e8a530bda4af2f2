// SPDX-License-Identifier: Apache-2.0
//
// Layers: functions that add nodes and variables to a graph. Images are [batch, height, width,
// channels], sequences [batch, n, width]. A model is written for training; ForInference() derives
// its inference form.
#ifndef MIRRORFLOW_TRAIN_LAYERS_LAYERS_H_
#define MIRRORFLOW_TRAIN_LAYERS_LAYERS_H_

#include "train/layers/activation.h"
#include "train/layers/attention.h"
#include "train/layers/bidirectional.h"
#include "train/layers/convolution.h"
#include "train/layers/dense.h"
#include "train/layers/dropout.h"
#include "train/layers/embedding.h"
#include "train/layers/normalization.h"
#include "train/layers/masking.h"
#include "train/layers/reshaping.h"
#include "train/layers/pooling.h"
#include "train/layers/recurrent.h"
#include "train/layers/shared.h"
#include "train/layers/sizes.h"

#endif  // MIRRORFLOW_TRAIN_LAYERS_LAYERS_H_
