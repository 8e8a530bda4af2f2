// SPDX-License-Identifier: Apache-2.0
//
// Includes input pipelines and ready-made datasets.
#ifndef MIRRORFLOW_TRAIN_DATA_INPUT_PIPELINES_H_
#define MIRRORFLOW_TRAIN_DATA_INPUT_PIPELINES_H_

#include "train/data/augmentation.h"
#include "train/data/dataset.h"
#include "train/data/fashion_mnist.h"
#include "train/data/image_ops.h"
#include "train/data/sources.h"

#endif  // MIRRORFLOW_TRAIN_DATA_INPUT_PIPELINES_H_
