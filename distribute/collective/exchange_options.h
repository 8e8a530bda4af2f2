// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_EXCHANGE_OPTIONS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_EXCHANGE_OPTIONS_H_

#include "framework/core/dtype.h"

namespace mirrorflow {

// How memory domains (groups of replicas that can access each other's memory, as a rule those on
// one host) exchange values; distribute/ALGORITHMS.md has the algorithms. Must be equal on all
// ranks.
struct ExchangeOptions {
  // All-reduces use a ring if there are at least this many domains; 0 disables the ring. With a
  // ring, the order of a reduction depends on the number of elements.
  int ring_from = 0;
  // With DT_BFLOAT16, all-reduced float32 values of more than 16 KB travel as bfloat16, and are
  // rounded to it after each reduction. All other values travel exactly.
  DataType wire_dtype = DT_FLOAT;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_EXCHANGE_OPTIONS_H_
