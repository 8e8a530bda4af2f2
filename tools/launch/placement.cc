// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/placement.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/core/json.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

absl::StatusOr<LaunchHost> ParseHost(absl::string_view text) {
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts: ", what, "; expected NAME[=ADDRESS][:SLOTS], got '", text, "'"));
  };
  LaunchHost host;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  absl::string_view rest = parts.second.empty() ? parts.first : parts.second;
  size_t end = rest.find(':');
  if (absl::ConsumePrefix(&rest, "[")) {
    const size_t bracket = rest.find(']');
    if (bracket == absl::string_view::npos) return wrong("no closing bracket");
    host.address = std::string(rest.substr(0, bracket));
    rest.remove_prefix(bracket + 1);
    end = 0;
  } else {
    host.address = std::string(rest.substr(0, end));
    rest.remove_prefix(std::min(end, rest.size()));
  }
  if (absl::ConsumePrefix(&rest, ":")) {
    if (!absl::SimpleAtoi(rest, &host.slots) || host.slots < 1 || host.slots > kMaxWorkers) {
      return wrong(absl::StrCat("the number of slots is not in 1 to ", kMaxWorkers));
    }
  } else if (!rest.empty()) {
    return wrong("unexpected text after the address");
  }
  host.name = parts.second.empty() ? host.address : std::string(parts.first);
  if (host.name.empty() || host.address.empty()) return wrong("no name or no address");
  // The name becomes an argument of the remote shell.
  if (absl::StartsWith(host.name, "-")) return wrong("a name that looks like a flag");
  return host;
}

std::string QuotedForShell(absl::string_view word) {
  // A shell leaves the brackets of IPv6 addresses unchanged unless a file matches the pattern.
  constexpr absl::string_view kPlain = "%+,-./:=@_[]";
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(kPlain, c);
  });
  if (is_plain) return std::string(word);
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace

std::string AddressOf(const LaunchHost& host, int port) {
  return absl::StrContains(host.address, ':') ? absl::StrCat("[", host.address, "]:", port)
                                              : absl::StrCat(host.address, ":", port);
}

absl::StatusOr<std::string> ThisProgram() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size <= 0) return SystemError(errno, "cannot locate this program's executable");
  return std::string(path, size);
}

std::vector<std::string> CommandOnHost(const LaunchHost& host,
                                       absl::Span<const std::string> remote_shell,
                                       std::vector<std::string> command) {
  if (host.name.empty()) return command;
  std::vector<std::string> words;
  for (const std::string& word : remote_shell) {
    words.push_back(absl::StrReplaceAll(word, {{"{host}", host.name}}));
  }
  for (const std::string& word : command) words.push_back(QuotedForShell(word));
  return words;
}

absl::StatusOr<std::vector<LaunchHost>> ParseHosts(absl::Span<const std::string> hosts) {
  std::vector<LaunchHost> parsed;
  std::set<std::string> names;
  for (const std::string& text : hosts) {
    MF_ASSIGN_OR_RETURN(parsed.emplace_back(), ParseHost(text));
    if (!names.insert(parsed.back().name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--hosts: '", parsed.back().name, "' is named twice"));
    }
  }
  return parsed;
}

absl::StatusOr<WorkerCount> ParseWorkerCount(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  WorkerCount count;
  if (!absl::SimpleAtoi(parts.front(), &count.least) ||
      !absl::SimpleAtoi(parts.back(), &count.most)) {
    return absl::InvalidArgumentError(
        absl::StrCat("-n: malformed; expected N or MIN:MAX, got '", text, "'"));
  }
  if (count.least < 1 || count.least > count.most) {
    return absl::InvalidArgumentError(
        absl::StrCat("-n: out of range; expected 1 <= MIN <= MAX, got ", text));
  }
  return count;
}

absl::StatusOr<std::vector<Placement>> PlaceWorkers(std::vector<LaunchHost> hosts,
                                                    std::optional<int> num_workers) {
  if (hosts.empty()) hosts = {{.name = "", .address = kLoopback, .slots = kMaxWorkers}};
  const int slots = std::accumulate(hosts.begin(), hosts.end(), 0,
                                    [](int sum, const LaunchHost& h) { return sum + h.slots; });
  const int wanted = num_workers.value_or(hosts[0].name.empty() ? 1 : slots);
  if (wanted < 1 || wanted > std::min(slots, kMaxWorkers)) {
    return absl::InvalidArgumentError(absl::StrCat("-n: out of range; expected 1 to ",
                                                   std::min(slots, kMaxWorkers), ", got ", wanted));
  }
  std::vector<Placement> workers;
  for (const LaunchHost& host : hosts) {
    const int size = std::min(host.slots, wanted - static_cast<int>(workers.size()));
    for (int rank = 0; rank < size; ++rank) workers.push_back({host, rank, size});
  }
  return workers;
}

int NumPorts(int num_workers) { return num_workers + 2; }

absl::StatusOr<std::vector<int>> FreePorts(int count) {
  std::vector<int> ports;
  std::vector<int> sockets;  // stay open until all ports are found, so the ports differ
  const absl::Cleanup close_all = [&] {
    for (const int fd : sockets) close(fd);
  };
  while (static_cast<int>(ports.size()) < count) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) sockets.push_back(fd);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (fd < 0 || bind(fd, generic, size) != 0 || getsockname(fd, generic, &size) != 0) {
      return NetworkError(errno, "cannot find a free port");
    }
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

std::map<std::string, std::string> VariablesOfWorker(absl::Span<const Placement> workers, int index,
                                                     absl::Span<const int> ports) {
  const Placement& own = workers[index];
  const LaunchHost& first = workers[0].host;
  nlohmann::json addresses = nlohmann::json::array();
  for (size_t w = 0; w < workers.size(); ++w) {
    addresses.push_back(AddressOf(workers[w].host, ports[w + 2]));
  }
  const nlohmann::json tf_config = {{"cluster", {{"worker", addresses}}},
                                    {"task", {{"type", "worker"}, {"index", index}}}};
  const std::string rank = absl::StrCat(index), size = absl::StrCat(workers.size());
  const std::string local_rank = absl::StrCat(own.local_rank);
  const std::string local_size = absl::StrCat(own.local_size);
  return {{"MIRRORFLOW_NUM_WORKERS", size},
          {"MIRRORFLOW_WORKER_INDEX", rank},
          {"MIRRORFLOW_COORDINATOR", AddressOf(first, ports[0])},
          {"MIRRORFLOW_LOCAL_RANK", local_rank},
          {"MIRRORFLOW_LOCAL_SIZE", local_size},
          {"RANK", rank},
          {"WORLD_SIZE", size},
          {"LOCAL_RANK", local_rank},
          {"LOCAL_WORLD_SIZE", local_size},
          {"MASTER_ADDR", first.address},
          {"MASTER_PORT", absl::StrCat(ports[1])},
          {"TF_CONFIG", JsonText(tf_config)}};
}

std::string GpuOfWorker(int local_rank, absl::string_view visible) {
  const std::vector<std::string> devices = absl::StrSplit(visible, ',', absl::SkipEmpty());
  if (devices.empty()) return absl::StrCat(local_rank);
  return devices[static_cast<size_t>(local_rank) % devices.size()];
}

}  // namespace mirrorflow
