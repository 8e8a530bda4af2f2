// SPDX-License-Identifier: Apache-2.0
//
// The `mirrorflow` command.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tools/bench.h"
#include "tools/devices.h"
#include "tools/explain.h"
#include "tools/flags/command_line.h"
#include "tools/inspect.h"
#include "tools/run.h"

namespace mirrorflow {
namespace {

constexpr char kUsage[] =
    "mirrorflow inspect GRAPH(.pb|.pbtxt|.txt)     print a graph and what it compiles to\n"
    "  --output=FILE(.pb|.pbtxt|.txt|.dot)         … or convert it\n"
    "mirrorflow run --graph=GRAPH [--feed NAME=FILE.npy] [--fetch NAME[=FILE.npy]] [--target "
    "NODE]\n"
    "                                              run steps of a graph; alone: what it offers\n"
    "mirrorflow devices                            what there is to compute on\n"
    "mirrorflow explain [GRAPH]                    where the time of a step goes, predicted and "
    "measured\n"
    "  --model=MODEL                               … without a file: of this training step\n"
    "mirrorflow bench step|gates|allreduce|overhead|compile|graphs|startup|memory\n"
    "                                              measure this machine\n"
    "\nflags:\n";

int Main(int argc, char** argv) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return ExitWithError(line.status(), kExitUsage);
  if (line->help) {
    std::printf("%s%s", kUsage, FlagHelp("tools/").c_str());
    return kExitOk;
  }
  std::vector<std::string> args = line->positional;
  const std::string command = args.empty() ? "" : args[0];
  if (!args.empty()) args.erase(args.begin());
  ExitCode code = kExitUsage;
  absl::Status status;
  if (command == "inspect") {
    status = Inspect(args, &code);
  } else if (command == "run") {
    status = Run(args, &code);
  } else if (command == "devices") {
    status = Devices(args, &code);
  } else if (command == "explain") {
    status = Explain(args, &code);
  } else if (command == "bench") {
    status = Bench(args, &code);
  } else {
    status = absl::InvalidArgumentError(absl::StrCat(
        "'", command,
        "': unknown command; expected inspect, run, devices, explain or bench (see --help)"));
  }
  if (!status.ok()) return ExitWithError(status, code);
  return FlushOutput();
}

}  // namespace
}  // namespace mirrorflow

int main(int argc, char** argv) { return mirrorflow::Main(argc, argv); }
