// SPDX-License-Identifier: Apache-2.0
//
// The instruction set of the CPU kernels. Workers whose processors differ all use the one that they
// have in common, because wider vectors add in another order.
#ifndef MIRRORFLOW_KERNELS_CPU_INSTRUCTION_SET_H_
#define MIRRORFLOW_KERNELS_CPU_INSTRUCTION_SET_H_

#include <string>

#include "absl/status/status.h"

namespace mirrorflow {

// Each includes those before it.
enum class InstructionSet { kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAvx512Amx };
std::string InstructionSetName(InstructionSet set);  // as in ONEDNN_MAX_CPU_ISA

// The widest that this processor has, and that ONEDNN_MAX_CPU_ISA and LimitInstructionSet allow.
InstructionSet UsableInstructionSet();

// Limits all kernels of this process. FailedPrecondition if a kernel has been made before, unless
// an earlier call has set the same limit or a lower one.
absl::Status LimitInstructionSet(InstructionSet set);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_INSTRUCTION_SET_H_
