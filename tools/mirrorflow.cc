// SPDX-License-Identifier: Apache-2.0
//
// The `mirrorflow` command.
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "tools/bench/benchmarks.h"
#include "tools/cli/commands.h"
#include "tools/explain/explain.h"
#include "tools/flags/command_line.h"
#include "tools/launch/host_supervisor.h"
#include "tools/launch/launch.h"
#include "tools/report/report.h"

namespace mirrorflow {
namespace {

absl::Status ListFailpoints(const std::vector<std::string>& args, ExitCode*) {
  MF_RETURN_IF_ERROR(CheckArguments("failpoints", args, 0, 0, "no arguments"));
  for (const std::string& name : Failpoint::Names()) PrintLine(name);
  return absl::OkStatus();
}

constexpr struct Command {
  absl::string_view name;
  absl::Status (*run)(const std::vector<std::string>& args, ExitCode* code);
  absl::string_view flags;  // see IsOneOf
  const char* usage;
  bool chooses_exit_code = false;  // whether it sets the exit code even on success
} kCommands[] = {
    {"inspect", Inspect,
     "tools/cli/inspect tools/flags/step_selection max_graph_nodes max_memory replicas",
     "mirrorflow inspect GRAPH(.pb|.pbtxt|.txt)     summarise a graph and what it compiles to\n"
     "  --output=FILE(.pb|.pbtxt|.txt|.dot)         … or convert it to another format\n"},
    {"run", Run,
     "tools/cli/run tools/flags/cluster tools/flags/compute tools/flags/graph "
     "tools/flags/step_inputs tools/flags/step_selection replicas threads_per_replica "
     "trace",
     "mirrorflow run --graph=GRAPH [--feed NAME=FILE.npy] [--fetch NAME[=FILE.npy]] [--target "
     "NODE]\n"
     "                                              run steps of a graph; with --graph only: list\n"
     "                                              its feeds, variables, fetches and targets\n"},
    {"devices", Devices, "", "mirrorflow devices                            list the devices\n"},
    {"ops", ShowOps, "tools/cli/ops",
     "mirrorflow ops [NAME …]                       list all ops, or describe some: inputs, "
     "outputs,\n"
     "                                              attributes, gradient, sharding, kernels\n"},
    {"data", ShowData, "tools/cli/data",
     "mirrorflow data FILE|FOLDER …                 print the first rows of a dataset and how fast "
     "it\n"
     "                                              is read: .csv, .npy, .npz, .tfrecord, "
     "images\n"},
    {"explain", Explain, "tools/explain/ tools/flags/step max_graph_nodes max_memory",
     "mirrorflow explain [GRAPH]                    show where the time of a step goes, predicted "
     "and measured\n"
     "  --model=MODEL                               … of this training step, without a GRAPH\n"
     "  --workers=N --transport=tcp|ucx             … in a cluster: predict how long its workers\n"
     "                                              wait for one another\n"},
    {"bench", Bench,
     "tools/bench/ tools/flags/graph tools/flags/step cluster_spec collective "
     "heartbeat_timeout hosts rsh task_index",
     "mirrorflow bench step|inference|kernels|gates|allreduce|hooks|overhead|trainer|data|\n"
     "                 serving|compile|graphs|startup|memory|world_sizes\n"
     "                                              measure the performance on this machine\n"
     "  step --graph=GRAPH --peers=tensorflow,…     … of a TensorFlow graph's inference step\n"},
    {"launch", Launch, "tools/launch/ rejoin_timeout",
     "mirrorflow launch -n N|MIN:MAX [--hosts=…] -- PROGRAM [ARGUMENT …]\n"
     "                                              run a program as N workers, or as MIN to MAX\n"
     "                                              workers, depending on how many hosts answer\n",
     /*chooses_exit_code=*/true},
    {"coordinator", Coordinator,
     "tools/cli/coordinator advertise bind connect_timeout insecure job secret_file tls_ca "
     "tls_cert tls_key",
     "mirrorflow coordinator --bind=HOST:PORT --num_workers=N\n"
     "                                              run the coordination service of a job outside\n"
     "                                              worker 0, so it survives worker restarts\n",
     /*chooses_exit_code=*/true},
    {"status", ShowStatus, "job secret_file tls_ca tls_cert tls_key",
     "mirrorflow status HOST:PORT                   show what each worker of a job is doing; its\n"
     "                                              coordination service is at HOST:PORT\n"},
    {"checkpoint", ListAndCheckCheckpoints, "",
     "mirrorflow checkpoint DIR                     list the checkpoints in a directory and check "
     "them\n"},
    {"report", WriteReport, "tools/report/",
     "mirrorflow report RUN_DIR                     write a page about a run from its events,\n"
     "                                              logs, checkpoints and trace\n"},
    {"failpoints", ListFailpoints, "",
     "mirrorflow failpoints                         list the failpoints for "
     "MIRRORFLOW_FAILPOINTS=NAME=ACTION\n"},
    // Internal: started by `launch`, not by users.
    {"supervise", [](const std::vector<std::string>& args, ExitCode*) { return Supervise(args); },
     "", ""},
};

// Prints the usage and the flags of `command`, or of all commands if it is null.
int PrintHelp(const Command* command) {
  for (const Command& each : kCommands) {
    if (command == nullptr || command == &each) std::printf("%s", each.usage);
  }
  std::printf("\nflags:\n%s", FlagHelp(command != nullptr ? command->flags : "tools/").c_str());
  return FlushOutput();
}

absl::Status CheckFlags(const Command& command, const std::vector<std::string>& given) {
  for (const std::string& name : given) {
    if (IsOneOf(name, command.flags)) continue;
    const std::string expected =
        command.run == Launch ? absl::StrCat("put the program's flags after `--`: ",
                                             "`mirrorflow launch -n 2 -- PROGRAM --", name, "=…`")
                              : absl::StrCat("see `mirrorflow ", command.name, " --help`");
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": not a flag of ", command.name, "; ", expected));
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return ExitWithError(line.status(), kExitUsage);
  std::vector<std::string> args = line->positional;
  const std::string name = args.empty() ? "" : args[0];
  if (!args.empty()) args.erase(args.begin());
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  const Command* const command = found != std::end(kCommands) ? found : nullptr;
  if (line->help) return PrintHelp(command);
  if (command == nullptr) {
    return ExitWithError(
        absl::InvalidArgumentError(absl::StrCat(
            "'", name,
            "': unknown command; expected inspect, run, "
            "devices, ops, data, explain, bench, launch, coordinator, status, checkpoint, report "
            "or failpoints (see --help)")),
        kExitUsage);
  }
  if (const absl::Status status = CheckFlags(*command, line->flags); !status.ok()) {
    return ExitWithError(status, kExitUsage);
  }
  ExitCode code = kExitUsage;
  const absl::Status status = command->run(args, &code);
  if (!status.ok()) return ExitWithError(status, code);
  return command->chooses_exit_code && code != kExitOk ? code : FlushOutput();
}

}  // namespace
}  // namespace mirrorflow

int main(int argc, char** argv) { return mirrorflow::Main(argc, argv); }
