// SPDX-License-Identifier: Apache-2.0
//
// Tensors from and to files of other programs.
#ifndef MIRRORFLOW_TRAIN_FORMATS_FORMATS_H_
#define MIRRORFLOW_TRAIN_FORMATS_FORMATS_H_

#include "train/formats/npy.h"
#include "train/formats/npz.h"

#endif  // MIRRORFLOW_TRAIN_FORMATS_FORMATS_H_
