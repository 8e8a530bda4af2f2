// SPDX-License-Identifier: Apache-2.0
#include "framework/core/descriptors.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

rlimit LimitNow() {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

// Restores the soft limit after each test.
class DescriptorsTest : public testing::Test {
 protected:
  ~DescriptorsTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  // Returns the lowest unused descriptor.
  static rlim_t FirstFree() {
    const int free = eventfd(0, 0);
    close(free);
    return static_cast<rlim_t>(free);
  }
  void SetSoftLimit(rlim_t soft) {
    const rlimit limit = {.rlim_cur = soft, .rlim_max = before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

  const rlimit before_ = LimitNow();
};

TEST_F(DescriptorsTest, SoftLimitRisesToNeededAndSpareDescriptors) {
  const rlim_t in_use = FirstFree();
  SetSoftLimit(in_use + 4);
  EXPECT_EQ(EnsureDescriptors("here", 50, /*spare=*/7), absl::OkStatus());
  EXPECT_GE(LimitNow().rlim_cur, in_use + 57);
  EXPECT_LT(LimitNow().rlim_cur, before_.rlim_max);
  EXPECT_EQ(LimitNow().rlim_max, before_.rlim_max);
}

TEST_F(DescriptorsTest, LimitIsNeverLowered) {
  EXPECT_EQ(EnsureDescriptors("here", 1, /*spare=*/0), absl::OkStatus());
  EXPECT_EQ(LimitNow().rlim_cur, before_.rlim_cur);
}

TEST_F(DescriptorsTest, OpenFilesAreCounted) {
  const rlim_t in_use = FirstFree();
  SetSoftLimit(in_use + 4);
  const int open_one = eventfd(0, 0);
  EXPECT_EQ(EnsureDescriptors("here", 4, /*spare=*/0), absl::OkStatus());
  EXPECT_GE(LimitNow().rlim_cur, in_use + 5);
  close(open_one);
}

// A process cannot raise its hard limit again, so only a child process lowers it.
TEST(DescriptorsDeathTest, ErrorForTooLowHardLimitNamesOneThatSuffices) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto check = [] {
    const rlimit low = {.rlim_cur = 32, .rlim_max = 64};
    if (setrlimit(RLIMIT_NOFILE, &low) != 0) std::exit(2);
    // Spare descriptors are optional.
    if (!EnsureDescriptors("here", 16, /*spare=*/1000).ok() || LimitNow().rlim_cur != 64) {
      std::exit(3);
    }
    const absl::Status status = EnsureDescriptors("here", 100);
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(testing::Value(status, IsError(absl::StatusCode::kResourceExhausted,
                                             "here: ", "ulimit -n", "100 more", "got 64"))
                  ? 0
                  : 1);
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mirrorflow
