// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shared_memory/unix_socket.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kAnotherUser = "another user";

std::string NewName() {
  static int number = 0;
  return absl::StrCat("mirrorflow-unix_socket_test-", getpid(), "-", ++number);
}

MonotonicTime Soon() { return MonotonicTime::Now() + absl::Seconds(20); }

// Returns a user other than the test's. Both ends of each connection belong to the test's user, so
// a socket that expects this user refuses the other end.
uid_t Stranger() { return geteuid() + 1; }

void ExpectNothingSent(const UnixSocket& listener) {
  const auto accepted = listener.Accept(Soon());
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_THAT(accepted->Receive(Soon()).status(),
              IsError(absl::StatusCode::kUnavailable, "Unix socket", "closed"));
}

TEST(UnixSocketTest, ConnectSendsNothingToListenerOfAnotherUser) {
  const std::string name = NewName();
  const auto listener = UnixSocket::Listen(name);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const absl::Status status = UnixSocket::Connect(name, Stranger()).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, kAnotherUser));
  ExpectNothingSent(*listener);
}

TEST(UnixSocketTest, AcceptDropsAnotherUser) {
  const std::string name = NewName();
  const auto listener = UnixSocket::Listen(name, Stranger());
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto connected = UnixSocket::Connect(name);
  ASSERT_TRUE(connected.ok()) << connected.status();
  EXPECT_THAT(listener->Accept(MonotonicTime::Now() + absl::Milliseconds(200)).status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "Unix socket", "timed out"));
  EXPECT_FALSE(connected->IsOpen());
}

TEST(UnixSocketTest, ProcessOfAnotherRealUserIsRefused) {
  // Unlike the C library's function, the system call changes only the calling thread.
  const auto become_nobody = [] { return syscall(SYS_setresuid, -1, 65534, -1) == 0; };
  const auto as_nobody = [&](const std::function<void()>& run) {
    std::thread([&] {
      ASSERT_TRUE(become_nobody());
      run();
    }).join();
  };
  bool can_become_nobody = false;
  std::thread([&] { can_become_nobody = become_nobody(); }).join();
  if (!can_become_nobody) GTEST_SKIP() << "only root can change its user, and not in a sandbox";
  const std::string stranger = NewName(), own = NewName();
  absl::StatusOr<UnixSocket> listener = absl::UnknownError("not run");
  as_nobody([&] { listener = UnixSocket::Listen(stranger); });
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT(UnixSocket::Connect(stranger).status(),
              IsError(absl::StatusCode::kPermissionDenied, "another user"));

  const auto own_listener = UnixSocket::Listen(own);
  ASSERT_TRUE(own_listener.ok()) << own_listener.status();
  as_nobody([&] {
    EXPECT_THAT(UnixSocket::Connect(own).status(),
                IsError(absl::StatusCode::kPermissionDenied, "another user"));
  });
}

// In a namespace whose only user is 65534, the kernel reports all other users as 65534.
TEST(UnixSocketTest, OverflowUserIsRefused) {
  const std::string name = NewName();
  const auto listener = UnixSocket::Listen(name);
  ASSERT_TRUE(listener.ok()) << listener.status();
  constexpr int kRefused = 0, kAccepted = 1, kNoNamespace = 2;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string map = absl::StrCat("65534 ", geteuid(), " 1");
    if (unshare(CLONE_NEWUSER) != 0) _exit(kNoNamespace);
    std::ofstream("/proc/self/uid_map") << map;
    std::ifstream written("/proc/self/uid_map");
    uid_t user = 0;
    if (!(written >> user) || user != 65534 || geteuid() != 65534) _exit(kNoNamespace);
    const absl::Status status = UnixSocket::Connect(name).status();
    _exit(absl::IsPermissionDenied(status) ? kRefused : kAccepted);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
}

}  // namespace
}  // namespace mirrorflow
