// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_FMA_RATE_H_
#define MIRRORFLOW_TOOLS_FMA_RATE_H_

namespace mirrorflow {

// The arithmetic limit of a core: float operations a nanosecond, a multiply-add counted as two, of
// independent multiply-adds in registers, in the widest vectors that the processor has. The best of
// some bursts of 0.1 ms or so.
double FmaFlopsPerNs();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FMA_RATE_H_
