// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/worker_hosts.h"

#include <utility>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"

ABSL_DECLARE_FLAG(std::vector<std::string>, hosts);
ABSL_DECLARE_FLAG(std::string, rsh);

namespace mirrorflow {

absl::StatusOr<WorkerHosts> HostsOfFlags() {
  WorkerHosts hosts = {.remote_shell =
                           absl::StrSplit(absl::GetFlag(FLAGS_rsh), ' ', absl::SkipEmpty())};
  MF_ASSIGN_OR_RETURN(hosts.hosts, ParseHosts(absl::GetFlag(FLAGS_hosts)));
  if (!hosts.hosts.empty() && hosts.remote_shell.empty()) {
    return absl::InvalidArgumentError("--rsh: empty; expected a command such as 'ssh {host}'");
  }
  return hosts;
}

absl::Status CheckHostsFlags(int num_workers) {
  MF_ASSIGN_OR_RETURN(const WorkerHosts hosts, HostsOfFlags());
  if (num_workers == 1 && !hosts.hosts.empty()) {
    return absl::InvalidArgumentError("--hosts: given without --workers; expected both or none");
  }
  const std::vector<int> ports(num_workers);
  return CommandsOfWorkers({}, ports, hosts).status();
}

absl::StatusOr<std::vector<std::vector<std::string>>> CommandsOfWorkers(
    absl::Span<const std::string> command, absl::Span<const int> ports, const WorkerHosts& hosts) {
  std::vector<LaunchHost> host_of_worker = hosts.hosts;
  if (host_of_worker.empty()) host_of_worker.assign(ports.size(), {.address = "127.0.0.1"});
  if (host_of_worker.size() != ports.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--hosts: expected one for each of ",
                                                   ports.size(), " workers, got ",
                                                   host_of_worker.size()));
  }
  std::vector<std::string> addresses;
  for (size_t worker = 0; worker < ports.size(); ++worker) {
    addresses.push_back(AddressOf(host_of_worker[worker], ports[worker]));
  }
  const std::string all = absl::StrJoin(addresses, ",");
  std::vector<std::vector<std::string>> commands;
  for (size_t worker = 0; worker < ports.size(); ++worker) {
    std::vector<std::string> words;
    const std::string number = absl::StrCat(worker);
    for (const std::string& word : command) {
      words.push_back(absl::StrReplaceAll(word, {{"{addresses}", all}, {"{worker}", number}}));
    }
    commands.push_back(CommandOnHost(host_of_worker[worker], hosts.remote_shell, std::move(words)));
  }
  return commands;
}

}  // namespace mirrorflow
