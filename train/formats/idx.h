// SPDX-License-Identifier: Apache-2.0
//
// Reads IDX files, the format of MNIST and its successors (big-endian):
//   00 00 type rank | rank × uint32 dimension | elements, row-major
#ifndef MIRRORFLOW_TRAIN_FORMATS_IDX_H_
#define MIRRORFLOW_TRAIN_FORMATS_IDX_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// Reads a whole file, plain or gzip, as one tensor of uint8, int8, int16, int32, float or double.
// Returns DataLoss if the file is not an IDX file, is truncated, or has bytes after the data.
// Before allocating memory, checks that the file can hold what its header declares. Inflates no
// more than the header declares.
absl::StatusOr<Tensor> ReadIdx(absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_IDX_H_
