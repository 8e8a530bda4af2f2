// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_EXCHANGE_OPTIONS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_EXCHANGE_OPTIONS_H_

#include "framework/core/dtype.h"

namespace mirrorflow {

// How memory domains exchange values (ALGORITHMS.md). Equal on all ranks.
struct ExchangeOptions {
  // All-reduces go around a ring from so many domains on; 0: never. Their order then depends on the
  // number of elements.
  int ring_from = 0;
  // DT_BFLOAT16: all-reduced float32 values of more than 16 KB travel in this form, and are rounded
  // to it after each reduction. All others travel exactly.
  DataType wire_dtype = DT_FLOAT;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_EXCHANGE_OPTIONS_H_
