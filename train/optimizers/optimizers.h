// SPDX-License-Identifier: Apache-2.0
//
// Optimizers compute the gradients of a loss and update variables with them:
//
//   const Operation train = Adam({.learning_rate = 0.001}).Minimize(root, loss);
//
// The base class Optimizer (optimizer.h) and MinimizeOptions (minimize_options.h) describe what all
// optimizers have in common. Learning rates can follow a schedule (schedules.h). With several
// replicas, the compiler reduces gradients by an all-reduce; a communication hook
// (communication_hooks.h) replaces it, for example by one that moves fewer bytes.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_OPTIMIZERS_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_OPTIMIZERS_H_

#include "train/optimizers/adafactor.h"            // Adafactor
#include "train/optimizers/adagrad.h"              // Adagrad, Adadelta
#include "train/optimizers/adam.h"                 // Adam, AdamW, Adamax, Nadam, Lamb
#include "train/optimizers/clipping.h"             // ClipByValue, ClipByNorm, ClipByGlobalNorm
#include "train/optimizers/communication_hooks.h"  // hooks::Bf16Compress, PowerSGD, …
#include "train/optimizers/ftrl.h"                 // Ftrl
#include "train/optimizers/lion.h"                 // Lion
#include "train/optimizers/moving_average.h"       // WithMovingAverages, FinalizeVariableValues
#include "train/optimizers/muon.h"                 // Muon
#include "train/optimizers/optimizer.h"            // Optimizer, MinimizeOptions
#include "train/optimizers/rmsprop.h"              // RMSProp
#include "train/optimizers/schedules.h"            // schedules::OneCycle, CosineDecay, WarmUp, …
#include "train/optimizers/sgd.h"                  // GradientDescent (SGD), Momentum

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_OPTIMIZERS_H_
