// SPDX-License-Identifier: Apache-2.0
//
// Includes Trainer (trainer.h), its built-in callbacks (callbacks.h, tensor_board.h,
// metrics_server.h) and the table of a model's layers (model_summary.h).
#ifndef MIRRORFLOW_TRAIN_TRAINER_TRAINING_H_
#define MIRRORFLOW_TRAIN_TRAINER_TRAINING_H_

#include "train/trainer/callbacks.h"
#include "train/trainer/metrics_server.h"
#include "train/trainer/model_summary.h"
#include "train/trainer/tensor_board.h"
#include "train/trainer/trainer.h"

#endif  // MIRRORFLOW_TRAIN_TRAINER_TRAINING_H_
