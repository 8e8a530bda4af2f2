// SPDX-License-Identifier: Apache-2.0
//
// BatchSource: a source of global batches. A dataset provides one, and a strategy distributes its
// batches over the replicas.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_BATCH_SOURCE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_BATCH_SOURCE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills `batch` with the next batch, one tensor per component, rows in the leading dimension.
  // Returns false at the end. The tensors stay valid as long as they are held.
  virtual absl::StatusOr<bool> Next(std::vector<Tensor>* batch) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_BATCH_SOURCE_H_
