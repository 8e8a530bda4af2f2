// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_FMA_RATE_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_FMA_RATE_H_

namespace mirrorflow {

// Measures the arithmetic limit of a core in float operations per nanosecond, a multiply-add
// counted as two. Runs independent multiply-adds in registers, in the widest vectors of the
// processor, and returns the best of some bursts of about 0.1 ms.
double FmaFlopsPerNs();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_FMA_RATE_H_
