// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/worker_hosts.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/core/status.h"
#include "tools/launch/launch.h"

namespace mirrorflow {

absl::Status CheckHostsFlags(int num_workers) {
  MF_ASSIGN_OR_RETURN(const WorkerHosts hosts, HostsFromFlags());
  if (num_workers == 1 && !hosts.hosts.empty()) {
    return absl::InvalidArgumentError("--hosts: given without --workers; expected both or neither");
  }
  const std::vector<int> ports(num_workers);
  return CommandsOfWorkers({}, ports, hosts).status();
}

absl::StatusOr<std::vector<std::vector<std::string>>> CommandsOfWorkers(
    absl::Span<const std::string> command, absl::Span<const int> ports, const WorkerHosts& hosts) {
  std::vector<LaunchHost> host_of_worker = hosts.hosts;
  if (host_of_worker.empty()) host_of_worker.assign(ports.size(), {.address = "127.0.0.1"});
  if (host_of_worker.size() != ports.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts: wrong number of hosts; expected one for each of ", ports.size(),
                     " workers, got ", host_of_worker.size()));
  }
  for (const LaunchHost& host : host_of_worker) {
    if (host.slots == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts: bench runs one worker on each host; expected one slot, got ",
                     host.slots, " on host ", host.name));
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

NetworkNamespaces::NetworkNamespaces() {
  for (int i = 0; i < 2; ++i) {
    hosts_.hosts.push_back({.name = absl::StrCat("mirrorflow-bench-", getpid(), "-", i),
                            .address = absl::StrCat("10.78.0.", i + 1)});
  }
  hosts_.remote_shell = {"ip", "netns", "exec", "{host}"};
}

NetworkNamespaces::~NetworkNamespaces() { Run("delete").IgnoreError(); }

absl::StatusOr<std::unique_ptr<NetworkNamespaces>> NetworkNamespaces::Create(const Link& link) {
  std::unique_ptr<NetworkNamespaces> namespaces(new NetworkNamespaces);
  MF_RETURN_IF_ERROR(namespaces->Run("create"));
  MF_RETURN_IF_ERROR(namespaces->Run(absl::StrCat("rate ", link.rate)));
  return namespaces;
}

absl::Status NetworkNamespaces::Run(const std::string& command) const {
  std::string line = absl::StrCat("tools/netns ", command);
  for (const LaunchHost& host : hosts_.hosts) {
    absl::StrAppend(&line, " ", host.name, "=", host.address);
  }
  FILE* const output = popen(absl::StrCat(line, " 2>&1").c_str(), "re");
  if (output == nullptr) return absl::ErrnoToStatus(errno, line);
  std::string text;
  for (int c; (c = std::fgetc(output)) != EOF;) text.push_back(static_cast<char>(c));
  if (pclose(output) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StripAsciiWhitespace(text));
}

}  // namespace mirrorflow
