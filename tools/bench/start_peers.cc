// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/start_peers.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "distribute/cluster/join_options.h"
#include "framework/core/status.h"
#include "tools/bench/worker_hosts.h"
#include "tools/flags/command_line.h"

ABSL_FLAG(std::vector<std::string>, peers, {},
          "bench step: frameworks to compare with: tensorflow, torch, jax; bench serving, bench "
          "inference, bench step --graph: onnxruntime, tensorflow");
ABSL_FLAG(std::string, peers_dir, "tests/benchmark/peers", "bench: folder of the peers' programs");
ABSL_FLAG(std::string, peers_python, "",
          "bench: the Python interpreter with the peers' frameworks; default: the one that "
          "tests/benchmark/peers/setup installs");

namespace mirrorflow {
namespace {

constexpr absl::Duration kPeerTimeout = absl::Seconds(120);

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Returns the path of the Python interpreter with the peers' frameworks.
std::string PeersPython() {
  const std::string given = absl::GetFlag(FLAGS_peers_python);
  if (!given.empty()) return given;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache != nullptr ? cache : absl::StrCat(home ? home : "", "/.cache");
  return absl::StrCat(base, "/mirrorflow/peers/bin/python");
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartWorkers(const std::vector<std::string>& command,
                                                          int workers, const WorkerHosts& hosts) {
  MF_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(workers));
  MF_ASSIGN_OR_RETURN(const auto commands, CommandsOfWorkers(command, ports, hosts));
  return PeerProcess::StartWorkers(commands, kPeerTimeout);
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartThisProgram(std::vector<std::string> args,
                                                              int workers,
                                                              const WorkerHosts& hosts) {
  MF_ASSIGN_OR_RETURN(const std::string program, ThisProgram());
  args.insert(args.begin(), {program, "bench"});
  if (workers > 1) {
    args.insert(args.end(), {"--cluster_spec={addresses}", "--task_index={worker}"});
  }
  return StartWorkers(args, workers, hosts);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerProcess>> StartTraining(const TrainingCase& training,
                                                           const WorkerHosts& hosts) {
  return StartThisProgram(
      {"peer", absl::StrCat("--model=", training.model),
       absl::StrCat("--batch_size=", training.batch_size),
       absl::StrCat("--optimizer=", training.optimizer), absl::StrCat("--hook=", training.hook),
       absl::StrCat("--replicas=", training.replicas),
       absl::StrCat("--without=", absl::StrJoin(training.without, ",")),
       absl::StrCat("--save_to=", training.checkpoint_dir),
       absl::StrCat("--trace=", training.trace),
       absl::StrCat("--collective=", CollectiveKindName(training.collective)),
       absl::StrCat("--heartbeat_timeout=", absl::FormatDuration(training.heartbeat_timeout))},
      training.workers, hosts);
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartAllReduce(int64_t bytes,
                                                            const std::string& transport,
                                                            const WorkerHosts& hosts) {
  return StartThisProgram(
      {"allreduce_peer", absl::StrCat("--bytes=", bytes), absl::StrCat("--transport=", transport)},
      /*workers=*/2, hosts);
}

absl::Status CheckPeersFlag(absl::Span<const absl::string_view> known) {
  for (const std::string& peer : absl::GetFlag(FLAGS_peers)) {
    MF_RETURN_IF_ERROR(CheckChoice("peers", peer, known));
  }
  return absl::OkStatus();
}

std::string PeersVersions() {
  // The file is in the root of the virtual environment, above the folder of its Python.
  std::ifstream file(absl::StrCat(DirectoryOf(DirectoryOf(PeersPython())), "/requirements.txt"));
  std::string versions;
  for (std::string line; std::getline(file, line);) {
    absl::StrAppend(&versions, versions.empty() ? "" : ", ", line);
  }
  return versions.empty() ? "none" : versions;
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartPeer(absl::string_view name,
                                                       const std::vector<std::string>& args,
                                                       int workers, const WorkerHosts& hosts) {
  const std::string python = PeersPython();
  const std::string script = absl::StrCat(absl::GetFlag(FLAGS_peers_dir), "/", name, "_peer.py");
  std::vector<std::string> command = {absl::StrCat(DirectoryOf(python), "/", name, "_peer")};
  if (access(script.c_str(), R_OK) == 0) command = {python, script};
  if (access(command[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(
        name, ": not found in ", absl::GetFlag(FLAGS_peers_dir), " or ", DirectoryOf(python),
        "; run tests/benchmark/peers/setup, and run bench in the root of the source tree"));
  }
  command.insert(command.end(), args.begin(), args.end());
  return Annotate(StartWorkers(command, workers, hosts), name);
}

}  // namespace mirrorflow
