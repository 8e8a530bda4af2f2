// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "distribute/cluster/connections/host_port.h"
#include "distribute/strategy/multi_worker_mirrored_strategy.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/reserved_port.h"

namespace {
// How many more times `late.test` fails to resolve.
std::atomic<int> failures_left{0};
}  // namespace

// Replaces getaddrinfo of the C library.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  static const auto original =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || std::strcmp(name, "late.test") != 0) {
    return original(name, service, hints, found);
  }
  return failures_left-- > 0 ? EAI_AGAIN : original("127.0.0.1", service, hints, found);
}

namespace mirrorflow {
namespace {

TEST(NameResolutionTest, WaitsUntilNameResolves) {
  failures_left = 3;
  const absl::Status status =
      WaitUntilResolved({"late.test", 1}, MonotonicTime::Now() + absl::Seconds(30));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LT(failures_left, 0);
}

TEST(NameResolutionTest, UnresolvedNameIsReportedAtDeadline) {
  failures_left = 1000;
  const MonotonicTime start = MonotonicTime::Now();
  const absl::Status status = WaitUntilResolved({"late.test", 1}, start + absl::Milliseconds(300));
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "late.test:1"));
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(5));
}

TEST(NameResolutionTest, AddressNeedsNoWait) {
  EXPECT_TRUE(WaitUntilResolved({"::1", 1}, MonotonicTime::InfinitePast()).ok());
  EXPECT_TRUE(WaitUntilResolved({"10.0.0.1", 1}, MonotonicTime::InfinitePast()).ok());
}

// When a pod's worker starts, the pod's name might not resolve yet. This also applies to worker 0,
// whose service listens on the address of that name.
TEST(NameResolutionTest, WorkersConnectToNameThatResolvesLate) {
  setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/1);
  const ReservedPort port;
  const std::string coordinator = port.At("late.test");
  const auto join = [&](int worker) {
    return MultiWorkerMirroredStrategy::Create(
        {.cluster = {.num_workers = 2, .task_index = worker, .coordinator = coordinator},
         .replicas = {.num_cpu_replicas = 1},
         .join = {.secret = "sixteen bytes or more", .connect_timeout = absl::Seconds(20)}});
  };
  failures_left = 3;
  absl::Status other;
  std::thread second([&] { other = join(1).status(); });
  const absl::Status first = join(0).status();
  second.join();
  EXPECT_TRUE(first.ok()) << first;
  EXPECT_TRUE(other.ok()) << other;
}

}  // namespace
}  // namespace mirrorflow
