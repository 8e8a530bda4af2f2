// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/network_namespaces.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

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
