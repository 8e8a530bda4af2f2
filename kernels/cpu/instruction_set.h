// SPDX-License-Identifier: Apache-2.0
//
// The instruction set of the CPU kernels. Workers with different processors all use the widest set
// that every one of them supports, because the vector width determines the order of additions.
#ifndef MIRRORFLOW_KERNELS_CPU_INSTRUCTION_SET_H_
#define MIRRORFLOW_KERNELS_CPU_INSTRUCTION_SET_H_

#include <string>

#include "absl/status/status.h"

namespace mirrorflow {

// Each value includes the ones before it.
enum class InstructionSet { kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAvx512Amx };
std::string InstructionSetName(InstructionSet set);  // a value of ONEDNN_MAX_CPU_ISA

// Returns the widest instruction set that this processor supports and that ONEDNN_MAX_CPU_ISA and
// LimitInstructionSet allow.
InstructionSet UsableInstructionSet();

// Limits all kernels of this process to `set`. Returns FailedPrecondition if a kernel has already
// been created, unless an earlier call set the same limit or a lower one.
absl::Status LimitInstructionSet(InstructionSet set);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_INSTRUCTION_SET_H_
