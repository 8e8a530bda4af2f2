// SPDX-License-Identifier: Apache-2.0
//
// Prefetch: makes the batches of another source ahead of their use, on a thread of its own.
#ifndef MIRRORFLOW_TRAIN_PREFETCH_H_
#define MIRRORFLOW_TRAIN_PREFETCH_H_

#include <memory>

#include "framework/core/batch_source.h"

namespace mirrorflow {

// What `input` gives, in its order, the end or the first error included; up to `depth` (>= 1)
// batches wait ready. From here on only the new thread calls `input`. Destroying the result stops
// the thread, whatever was or was not read; it waits for at most one Next() of `input`.
// One thread may call Next() at a time.
std::unique_ptr<BatchSource> Prefetch(std::unique_ptr<BatchSource> input, int depth);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_PREFETCH_H_
