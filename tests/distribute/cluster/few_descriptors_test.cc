// SPDX-License-Identifier: Apache-2.0
//
// Tests a coordination service with as few file descriptors as it accepts.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "gtest/gtest.h"
#include "tests/support/coordination.h"

namespace mirrorflow {
namespace {

absl::StatusOr<std::unique_ptr<CoordinationServer>> StartServer(rlim_t max_descriptors) {
  const rlimit limit = {.rlim_cur = max_descriptors, .rlim_max = max_descriptors};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::InternalError("setrlimit");
  return CoordinationServer::Start(
      {.address = "127.0.0.1:0", .num_workers = 1, .secret = kTestSecret, .job = "test"});
}

// Runs `work` in a child process, which can lower its limits. Returns the process and the number
// that it writes to `fd`.
template <typename Work>
std::pair<pid_t, int> Fork(const Work& work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    work(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  int number = 0;
  EXPECT_EQ(read(ends[0], &number, sizeof number), ssize_t{sizeof number});
  close(ends[0]);
  return {process, number};
}

void Tell(int fd, int number) {
  if (write(fd, &number, sizeof number) != ssize_t{sizeof number}) _exit(1);
}

constexpr int kTooFew = 8;

// Returns the lowest sufficient limit, as named by the error about a limit that is too low.
int MinDescriptorLimit() {
  const auto [process, least] = Fork([](int fd) {
    const std::string error(StartServer(kTooFew).status().message());
    int number = 0;
    const std::string before = "at least ";
    const std::string rest = error.substr(error.find(before) + before.size());
    if (absl::SimpleAtoi(rest.substr(0, rest.find(',')), &number)) Tell(fd, number);
  });
  waitpid(process, nullptr, 0);
  return least;
}

TEST(FewDescriptorsTest, SilentStrangersLeaveDescriptorsForWorkers) {
  const int least = MinDescriptorLimit();
  ASSERT_GT(least, kTooFew);
  const auto [process, port] = Fork([least](int fd) {
    const auto server = StartServer(least);
    if (server.ok()) Tell(fd, (*server)->port());
    pause();
  });
  ASSERT_GT(port, 0);
  std::vector<OwnedSocket> strangers;
  for (int i = 0; i < 200; ++i) {
    auto stranger = StartConnect("127.0.0.1", absl::StrCat("127.0.0.1:", port));
    ASSERT_TRUE(stranger.ok()) << stranger.status();
    strangers.push_back(*std::move(stranger));
  }
  const auto client =
      CoordinationClient::Connect(TestWorkerOptions(port, /*worker=*/0, /*num_workers=*/1),
                                  MonotonicTime::Now() + absl::Seconds(60));
  EXPECT_TRUE(client.ok()) << client.status();
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

}  // namespace
}  // namespace mirrorflow
