// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/grpc_support.h"

#include <grpc/support/log.h>

#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "framework/core/descriptors.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

// Approximate number of threads that a server and a client use together.
constexpr int kThreads = 16;
// How many descriptors a server or a client opens, not counting connections.
constexpr int64_t kDescriptors = 8;

// Rejects values of GRPC_POLL_STRATEGY that make gRPC abort the process: those that list no
// strategy that gRPC supports, or list `none` before any other that it supports.
absl::Status CheckPollStrategy() {
  static constexpr char kVariable[] = "GRPC_POLL_STRATEGY";
  const char* const value = getenv(kVariable);
  if (value == nullptr) return absl::OkStatus();
  for (const absl::string_view name : absl::StrSplit(value, ',')) {
    if (name == "all" || name == "epoll1" || name == "poll") return absl::OkStatus();
    if (name == "none") break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(kVariable, ": unknown gRPC strategy; expected all, epoll1 or poll, got '",
                   absl::CEscape(value), "'"));
}

}  // namespace

absl::Status PrepareGrpc(int64_t num_descriptors, int64_t spare_descriptors) {
  MF_RETURN_IF_ERROR(CheckPollStrategy());
  MF_RETURN_IF_ERROR(EnsureDescriptors("gRPC", kDescriptors + num_descriptors, spare_descriptors));
  if (getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  return CheckThreads("gRPC", kThreads);
}

gpr_timespec GrpcDeadline(MonotonicTime deadline) {
  if (deadline == MonotonicTime::InfiniteFuture()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const absl::Duration left = deadline - MonotonicTime::Now();
  return gpr_time_from_nanos(absl::ToInt64Nanoseconds(left), GPR_TIMESPAN);
}

}  // namespace mirrorflow
