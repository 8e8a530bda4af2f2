// SPDX-License-Identifier: Apache-2.0
//
// A single program for a machine with a GPU. It needs no other part of Mirrorflow there.
// tests/gpu_check/run.py runs it.
//
//   gpu_check [--gtest_filter=…]   the tests
//   gpu_check bench --model=mlp    training steps
//   gpu_check figures              rates, counts and times that need no peer
//   gpu_check gpus                 the GPUs of the machine
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/gpu_check/bench.h"
#include "tests/gpu_check/figures.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {
namespace {

int Main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return ExitWithError(line.status(), kExitUsage);
  if (line->positional.empty()) return RUN_ALL_TESTS();
  const std::string& what = line->positional[0];
  absl::Status (*run)() = nullptr;
  if (what == "bench") run = GpuBench;
  if (what == "figures") run = PrintFigures;
  if (what == "gpus") run = PrintGpus;
  if (run == nullptr) {
    return ExitWithError(
        absl::InvalidArgumentError(absl::StrCat(
            "'", what, "': unknown command; expected bench, figures, gpus, or no command")),
        kExitUsage);
  }
  const absl::Status status = run();
  if (!status.ok()) return ExitWithError(status, kExitResources);
  return FlushOutput();
}

}  // namespace
}  // namespace mirrorflow

int main(int argc, char** argv) { return mirrorflow::Main(argc, argv); }
