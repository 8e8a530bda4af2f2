// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADJUSTABLE_RATE_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADJUSTABLE_RATE_H_

#include <string>

#include "train/optimizers/learning_rate.h"

namespace mirrorflow {
namespace schedules {

// A rate that the program changes between steps: the value of a float variable, which begins at
// `initial`. Set it by Session::AssignVariable("learning_rate", …), or have ReduceLROnPlateau do
// so.
LearningRateSchedule Adjustable(double initial, const std::string& variable = "learning_rate");

}  // namespace schedules
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADJUSTABLE_RATE_H_
