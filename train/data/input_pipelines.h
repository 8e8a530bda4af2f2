// SPDX-License-Identifier: Apache-2.0
//
// Includes everything for input pipelines: Dataset (dataset.h), the options of datasets that read
// files (sources.h), functions for Dataset::Map (augmentation.h, image_ops.h), and a ready-made
// dataset (fashion_mnist.h).
#ifndef MIRRORFLOW_TRAIN_DATA_INPUT_PIPELINES_H_
#define MIRRORFLOW_TRAIN_DATA_INPUT_PIPELINES_H_

#include "train/data/augmentation.h"
#include "train/data/dataset.h"
#include "train/data/fashion_mnist.h"
#include "train/data/image_ops.h"
#include "train/data/sources.h"

#endif  // MIRRORFLOW_TRAIN_DATA_INPUT_PIPELINES_H_
