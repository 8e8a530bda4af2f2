// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/choose_transport.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::StatusOr<bool> ChooseUcx(const JoinOptions& options, bool has_rdma, WorkerGroup& group,
                               MonotonicTime deadline) {
  const CollectiveKind kind = options.collective;
  if (kind != CollectiveKind::kAuto) return kind == CollectiveKind::kUcx;
  if (!options.secret.empty() || !options.tls.empty()) return false;
  static constexpr char kHasRdma[] = "RDMA", kHasNone[] = "none";
  MF_ASSIGN_OR_RETURN(
      const std::vector<std::string> answers,
      group.AllGather("RDMA towards the other workers", has_rdma ? kHasRdma : kHasNone, deadline));
  return std::ranges::all_of(answers, [](const auto& answer) { return answer == kHasRdma; });
}

absl::Status CheckUnencrypted(const JoinOptions& options, absl::string_view library) {
  if (options.tls.empty() || options.insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this worker has certificates, but ", library,
                   " does not encrypt the data that workers exchange; ",
                   options.collective == CollectiveKind::kUcx ? "use --collective=tcp, which does, "
                                                              : "pass no certificates, ",
                   "or set --insecure on a network where every process is trusted"));
}

}  // namespace mirrorflow
