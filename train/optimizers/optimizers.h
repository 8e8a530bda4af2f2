// SPDX-License-Identifier: Apache-2.0
//
// Optimizers, learning rates and gradient reductions.
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
