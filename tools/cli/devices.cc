// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/gpu.h"
#include "mirrorflow_debug.h"
#include "tools/bench/machine.h"
#include "tools/cli/commands.h"

namespace mirrorflow {
namespace {

void PrintDevice(absl::string_view name, absl::string_view what) {
  PrintLine(absl::StrFormat("%-8s %s", name, what));
}

std::string Gibibytes(int64_t bytes) {
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (1 << 30));
}

void PrintGpu(int ordinal) {
  const GpuInfo gpu = DescribeGpu(ordinal);
  const std::string name = absl::StrCat("GPU:", ordinal);
  if (!gpu.usable.ok()) {
    PrintDevice(name, absl::StrCat(gpu.name, "; not usable: ", gpu.usable.message()));
    return;
  }
  PrintDevice(
      name, absl::StrCat(gpu.name, ", compute capability ", gpu.capability, ", ",
                         Gibibytes(gpu.free_bytes), " of ", Gibibytes(gpu.memory_bytes), " free"));
}

}  // namespace

absl::Status Devices(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckArguments("devices", args, 0, 0, "no arguments"));
  *code = kExitInternal;
  PrintDevice("CPU:0 …",
              absl::StrCat(DescribeMachine(), "; usable by this process: ", NumUsableCores()));
  const absl::StatusOr<int> num_gpus = NumGpus();
  if (!num_gpus.ok()) PrintDevice("GPU", absl::StrCat("none: ", num_gpus.status().message()));
  if (num_gpus.ok() && *num_gpus == 0) PrintDevice("GPU", absl::StrCat("none: ", WhyNoGpus()));
  for (int i = 0; i < num_gpus.value_or(0); ++i) PrintGpu(i);
  const auto strategy = MirroredStrategy::Create();
  PrintDevice("default", strategy.ok()
                             ? absl::StrCat("MirroredStrategy uses ",
                                            absl::StrJoin((*strategy)->topology().devices(), ", "))
                             : std::string(strategy.status().message()));
  return absl::OkStatus();
}

}  // namespace mirrorflow
