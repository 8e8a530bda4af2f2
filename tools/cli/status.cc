// SPDX-License-Identifier: Apache-2.0
#include "framework/core/status.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/coordination/cluster_status.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/terminal.h"
#include "tools/cli/commands.h"
#include "tools/flags/cluster_flags.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(10);

}  // namespace

absl::Status ShowStatus(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  if (args.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("status: wrong number of arguments; expected one, the coordination service's "
                     "HOST:PORT, got ",
                     args.size()));
  }
  MF_ASSIGN_OR_RETURN(const HostPort service, Annotate(ParseHostPort(args[0]), "status"));
  MF_ASSIGN_OR_RETURN(const JoinOptions flags, JoinOptionsOfFlags());
  const CoordinationClient::Options options = {.coordinator = service.ToString(),
                                               .secret = flags.secret,
                                               .job = flags.job,
                                               .tls = flags.tls,
                                               .member = {}};
  *code = kExitCluster;
  MF_ASSIGN_OR_RETURN(const coordination::ClusterStatus status,
                      CoordinationClient::GetStatus(options, MonotonicTime::Now() + kTimeout));
  PrintLine(SummaryOf(status));
  for (const std::string& line : LinesOf(status)) PrintLine(line);
  return absl::OkStatus();
}

}  // namespace mirrorflow
