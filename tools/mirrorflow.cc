// SPDX-License-Identifier: Apache-2.0
//
// The `mirrorflow` command.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "framework/core/failpoint.h"
#include "framework/core/terminal.h"
#include "tools/bench.h"
#include "tools/checkpoint.h"
#include "tools/coordinator.h"
#include "tools/data.h"
#include "tools/devices.h"
#include "tools/explain.h"
#include "tools/flags/command_line.h"
#include "tools/inspect.h"
#include "tools/launch/launch.h"
#include "tools/launch/supervisor.h"
#include "tools/op_reference.h"
#include "tools/report/report.h"
#include "tools/run.h"

namespace mirrorflow {
namespace {

constexpr char kUsage[] =
    "mirrorflow inspect GRAPH(.pb|.pbtxt|.txt)     summarise a graph and what it compiles to\n"
    "  --output=FILE(.pb|.pbtxt|.txt|.dot)         … or convert it to another format\n"
    "mirrorflow run --graph=GRAPH [--feed NAME=FILE.npy] [--fetch NAME[=FILE.npy]] [--target "
    "NODE]\n"
    "                                              run steps of a graph; with --graph only: list\n"
    "                                              its feeds, variables, fetches and targets\n"
    "mirrorflow devices                            list the devices\n"
    "mirrorflow ops [NAME …]                       list the ops, or describe these: inputs, "
    "outputs,\n"
    "                                              attributes, gradient, sharding, kernels\n"
    "mirrorflow data FILE|FOLDER …                 print the first rows of a dataset and how fast "
    "it\n"
    "                                              is read: .csv, .npy, .npz, .tfrecord, images\n"
    "mirrorflow explain [GRAPH]                    show where the time of a step goes, predicted "
    "and measured\n"
    "  --model=MODEL                               … of this training step, without a GRAPH\n"
    "  --workers=N --transport=tcp|ucx             … in a cluster: how long its workers wait for\n"
    "                                              one another, predicted\n"
    "mirrorflow bench step|gates|allreduce|hooks|overhead|trainer|data|serving|compile|graphs|\n"
    "                 startup|memory|world_sizes   measure the performance on this machine\n"
    "mirrorflow launch -n N|MIN:MAX [--hosts=…] -- PROGRAM [ARGUMENT …]\n"
    "                                              run a program as several workers, or as\n"
    "                                              many as hosts answer\n"
    "mirrorflow coordinator --bind=HOST:PORT --num_workers=N\n"
    "                                              serve the coordination of a job whose worker 0\n"
    "                                              does not, also when its workers start again\n"
    "mirrorflow checkpoint DIR                     list the checkpoints in a directory and check "
    "them\n"
    "mirrorflow report RUN_DIR                     write a page about a run, of its event files,\n"
    "                                              logs, checkpoints and trace\n"
    "mirrorflow failpoints                         list the failpoints for "
    "MIRRORFLOW_FAILPOINTS=NAME=ACTION\n"
    "\nflags:\n";

absl::Status ListFailpoints(const std::vector<std::string>& args) {
  if (!args.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("failpoints: expected no argument, got '", args[0], "'"));
  }
  for (const std::string& name : Failpoint::Names()) PrintLine(name);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return ExitWithError(line.status(), kExitUsage);
  if (line->help) {
    std::printf("%s%s", kUsage, FlagHelp({"tools/"}).c_str());
    return FlushOutput();
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
  } else if (command == "ops") {
    status = ShowOps(args, &code);
  } else if (command == "data") {
    status = ShowData(args, &code);
  } else if (command == "explain") {
    status = Explain(args, &code);
  } else if (command == "bench") {
    status = Bench(args, &code);
  } else if (command == "launch") {
    status = Launch(args, line->flags, &code);
    if (status.ok() && code != kExitOk) return code;
  } else if (command == "coordinator") {
    status = Coordinator(args, &code);
    if (status.ok() && code != kExitOk) return code;
  } else if (command == "checkpoint") {
    status = ListAndCheckCheckpoints(args, &code);
  } else if (command == "report") {
    status = WriteReport(args, &code);
  } else if (command == "failpoints") {
    status = ListFailpoints(args);
  } else if (command == "supervise") {
    status = Supervise();  // not for people: `launch` starts it
  } else {
    status = absl::InvalidArgumentError(absl::StrCat(
        "'", command,
        "': unknown command; expected inspect, run, "
        "devices, ops, data, explain, bench, launch, coordinator, checkpoint, report or "
        "failpoints (see --help)"));
  }
  if (!status.ok()) return ExitWithError(status, code);
  return FlushOutput();
}

}  // namespace
}  // namespace mirrorflow

int main(int argc, char** argv) { return mirrorflow::Main(argc, argv); }
