// SPDX-License-Identifier: Apache-2.0
#include "framework/core/thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

size_t StackBytesOfThisThread() {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

// Starts threads until one cannot be started, and returns the error. The threads never end, so the
// process must exit afterwards.
absl::Status FirstThatCannotStart() {
  std::vector<std::thread> threads;
  while (threads.size() < 100000) {
    absl::StatusOr<std::thread> thread = StartThread("here", [] { pause(); });
    if (!thread.ok()) return thread.status();
    thread->detach();
  }
  return absl::OkStatus();
}

// Limits `resource` to `most`, prints the error of the first thread that cannot start, and exits:
// the limit cannot be raised again.
[[noreturn]] void PrintErrorUnder(__rlimit_resource_t resource, rlim_t most) {
  const rlimit limit = {most, most};
  setrlimit(resource, &limit);
  const absl::Status status = FirstThatCannotStart();
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(7);
}

TEST(ThreadTest, ThreadRunsItsFunction) {
  int value = 0;
  absl::StatusOr<std::thread> thread = StartThread("here", [&value] { value = 3; });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->join();
  EXPECT_EQ(value, 3);
}

TEST(ThreadDeathTest, SmallStackLimitDoesNotApplyToThreads) {
  EXPECT_EXIT(
      {
        // This has the same effect as starting the process under `ulimit -s`.
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 64 << 10);
        pthread_setattr_default_np(&small);
        size_t bytes = 0;
        absl::StatusOr<std::thread> thread =
            StartThread("here", [&bytes] { bytes = StackBytesOfThisThread(); });
        if (!thread.ok()) _exit(1);
        thread->join();
        _exit(bytes >= kMinStackBytes ? 7 : 2);
      },
      testing::ExitedWithCode(7), "");
}

TEST(ThreadDeathTest, ErrorNamesLimitOnAddressSpace) {
  EXPECT_EXIT(PrintErrorUnder(RLIMIT_AS, rlim_t{4} << 30), testing::ExitedWithCode(7),
              "RESOURCE_EXHAUSTED: here: .*ulimit -v");
}

TEST(ThreadDeathTest, ErrorNamesLimitOnData) {
  EXPECT_EXIT(PrintErrorUnder(RLIMIT_DATA, rlim_t{256} << 20), testing::ExitedWithCode(7),
              "RESOURCE_EXHAUSTED: here: .*ulimit -d");
}

TEST(ThreadDeathTest, ErrorNamesLimitOnThreadsOfUser) {
  // Root is exempt from this limit, so the test runs as another user.
  constexpr uid_t kNobody = 65534;
  EXPECT_EXIT(
      {
        if (getuid() == 0 && setuid(kNobody) != 0) _exit(1);
        PrintErrorUnder(RLIMIT_NPROC, 1);
      },
      testing::ExitedWithCode(7), "RESOURCE_EXHAUSTED: here: .*ulimit -u");
}

}  // namespace
}  // namespace mirrorflow
