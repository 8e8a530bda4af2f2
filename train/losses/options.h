// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LOSSES_OPTIONS_H_
#define MIRRORFLOW_TRAIN_LOSSES_OPTIONS_H_

#include <string>

#include "framework/graph/scope.h"
#include "train/losses/reductions.h"

namespace mirrorflow {
namespace losses {

// The options of a loss without parameters. All other losses have these options, too.
struct LossOptions {
  // A factor for the loss of each example: the shape of the losses or their first dimensions, or
  // sizes of 1 in their place. Any numeric dtype.
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

}  // namespace losses
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_OPTIONS_H_
