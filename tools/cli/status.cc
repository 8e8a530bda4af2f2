// SPDX-License-Identifier: Apache-2.0
#include "framework/core/status.h"

#include <string>
#include <vector>

#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/coordination/cluster_status.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/terminal.h"
#include "tools/cli/commands.h"
#include "tools/flags/cluster_flags.h"

namespace mirrorflow {

absl::Status ShowStatus(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(
      CheckArguments("status", args, 1, 1, "one, the coordination service's HOST:PORT"));
  MF_ASSIGN_OR_RETURN(const HostPort service, Annotate(ParseHostPort(args[0]), "status"));
  MF_ASSIGN_OR_RETURN(const JoinOptions flags, JoinOptionsOfFlags());
  const CoordinationClient::Options options = {.coordinator = service.ToString(),
                                               .secret = flags.secret,
                                               .job = flags.job,
                                               .tls = flags.tls,
                                               .member = {}};
  *code = kExitCluster;
  constexpr absl::Duration kTimeout = absl::Seconds(10);
  MF_ASSIGN_OR_RETURN(const coordination::ClusterStatus status,
                      CoordinationClient::GetStatus(options, MonotonicTime::Now() + kTimeout));
  PrintLine(SummaryOf(status));
  for (const std::string& line : LinesOf(status)) PrintLine(line);
  return absl::OkStatus();
}

}  // namespace mirrorflow
