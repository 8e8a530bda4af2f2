// SPDX-License-Identifier: Apache-2.0
//
// Includes Trainer and its callbacks.
#ifndef MIRRORFLOW_TRAIN_TRAINER_TRAINING_H_
#define MIRRORFLOW_TRAIN_TRAINER_TRAINING_H_

#include "train/trainer/callbacks.h"
#include "train/trainer/metrics_server.h"
#include "train/trainer/model_summary.h"
#include "train/trainer/tensor_board.h"
#include "train/trainer/trainer.h"

#endif  // MIRRORFLOW_TRAIN_TRAINER_TRAINING_H_
