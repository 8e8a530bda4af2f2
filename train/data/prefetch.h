// SPDX-License-Identifier: Apache-2.0
//
// Prefetch reads another source's batches ahead of time, on a background thread.
#ifndef MIRRORFLOW_TRAIN_DATA_PREFETCH_H_
#define MIRRORFLOW_TRAIN_DATA_PREFETCH_H_

#include <memory>

#include "framework/data/batch_provider.h"

namespace mirrorflow {

// Returns a source that returns the batches of `input` in order, then its end or first error. It
// reads up to `depth` (>= 1) batches ahead. After this call, only the background thread uses
// `input`. The result can be destroyed at any time; its destructor stops the thread, and blocks for
// at most one call to input->Next(). Next() is not thread-safe.
std::unique_ptr<BatchSource> Prefetch(std::unique_ptr<BatchSource> input, int depth);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_PREFETCH_H_
