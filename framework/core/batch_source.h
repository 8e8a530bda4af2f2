// SPDX-License-Identifier: Apache-2.0
//
// BatchSource: where global batches come from. What a dataset makes and a strategy distributes.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_BATCH_SOURCE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_BATCH_SOURCE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `batch` with the next batch, one tensor a component, rows in the leading dimension;
  // false at the end. The tensors stay valid as long as they are held.
  virtual absl::StatusOr<bool> Next(std::vector<Tensor>* batch) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_BATCH_SOURCE_H_
