// SPDX-License-Identifier: Apache-2.0
//
// Prefetch: reads the batches of another source ahead of time, on a background thread.
#ifndef MIRRORFLOW_TRAIN_DATA_PREFETCH_H_
#define MIRRORFLOW_TRAIN_DATA_PREFETCH_H_

#include <memory>

#include "framework/data/batch_provider.h"

namespace mirrorflow {

// Returns a source of the batches of `input` in order, followed by its end or first error. It keeps
// up to `depth` (>= 1) batches ready. Only its background thread calls `input` after this call. The
// result may be destroyed at any time: this stops the thread, after waiting for at most one Next()
// of `input`. Next() is not thread-safe.
std::unique_ptr<BatchSource> Prefetch(std::unique_ptr<BatchSource> input, int depth);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_PREFETCH_H_
