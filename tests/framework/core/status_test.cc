// SPDX-License-Identifier: Apache-2.0
#include "framework/core/status.h"

#include <memory>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

absl::StatusOr<std::unique_ptr<int>> Box(int value) {
  if (value < 0) return absl::OutOfRangeError("negative");
  return std::make_unique<int>(value);
}

absl::Status Unboxed(int value, int* out) {
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<int> box, Box(value));
  *out = *box;
  return absl::OkStatus();
}

absl::Status Both(absl::Status first, int* calls) {
  MF_RETURN_IF_ERROR(first);
  ++*calls;
  return absl::OkStatus();
}

TEST(AssignOrReturnTest, MovesValueOut) {
  int out = 0;
  EXPECT_TRUE(Unboxed(3, &out).ok());
  EXPECT_EQ(out, 3);
}

TEST(AssignOrReturnTest, ReturnsErrorAndAssignsNothing) {
  int out = 0;
  EXPECT_EQ(Unboxed(-1, &out), absl::OutOfRangeError("negative"));
  EXPECT_EQ(out, 0);
}

TEST(ReturnIfErrorTest, ContinuesOnlyIfOk) {
  int calls = 0;
  EXPECT_EQ(Both(absl::DataLossError("gone"), &calls), absl::DataLossError("gone"));
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(Both(absl::OkStatus(), &calls).ok());
  EXPECT_EQ(calls, 1);
}

TEST(AnnotateTest, PrependsPlaceToMessageAndKeepsCode) {
  EXPECT_EQ(Annotate(absl::NotFoundError("no file"), "reading x"),
            absl::NotFoundError("reading x: no file"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "reading x").ok());
}

TEST(CheckDeathTest, MessageNamesConditionAndPlace) {
  EXPECT_DEATH(MF_CHECK(1 + 1 == 3), "status_test.cc:[0-9]+: check failed .*: 1 \\+ 1 == 3");
  MF_CHECK(1 + 1 == 2);
}

}  // namespace
}  // namespace mirrorflow
