// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/instruction_set.h"

#include <cpuid.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

constexpr const char* kNames[] = {"AVX2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16",
                                  "AVX512_CORE_AMX"};

// The limit set by LimitInstructionSet.
std::atomic<InstructionSet> limit{InstructionSet::kAvx512Amx};

bool HasAmx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTile = 1u << 24, kBf16 = 1u << 22;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTile) != 0 && (d & kBf16) != 0;
}

InstructionSet OfProcessor() {
  if (!ProcessorHasAvx512()) return InstructionSet::kAvx2;
  if (!__builtin_cpu_supports("avx512vnni")) return InstructionSet::kAvx512;
  if (!__builtin_cpu_supports("avx512bf16")) return InstructionSet::kAvx512Vnni;
  return HasAmx() ? InstructionSet::kAvx512Amx : InstructionSet::kAvx512Bf16;
}

}  // namespace

std::string InstructionSetName(InstructionSet set) { return kNames[static_cast<int>(set)]; }

InstructionSet UsableInstructionSet() {
  const InstructionSet has = std::min(OfProcessor(), limit.load());
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* const text = std::getenv(variable);
    for (size_t i = 0; text != nullptr && i < std::size(kNames); ++i) {
      if (absl::string_view(text) == kNames[i])
        return std::min(has, static_cast<InstructionSet>(i));
    }
  }
  return has;
}

absl::Status LimitInstructionSet(InstructionSet set) {
  if (set >= std::min(OfProcessor(), limit.load())) return absl::OkStatus();
  if (!LimitOneDnn(InstructionSetName(set))) {
    return absl::FailedPreconditionError(
        absl::StrCat("instruction set ", InstructionSetName(set),
                     ": a kernel has already been created; set ONEDNN_MAX_CPU_ISA before the "
                     "process starts"));
  }
  if (set < InstructionSet::kAvx512) internal::forbid_avx512 = true;
  limit = set;
  return absl::OkStatus();
}

}  // namespace mirrorflow
