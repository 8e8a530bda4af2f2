// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/tuning_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

absl::StatusOr<int> Never() { return absl::InternalError("measured"); }

TEST(TuningTableTest, MeasuresEachKindOfNodeOnce) {
  TuningTable table(/*measures=*/true);
  int measured = 0;
  const auto second = [&]() -> absl::StatusOr<int> { return ++measured; };
  EXPECT_EQ(table.Choose("a", 4, second).value(), 1);
  EXPECT_EQ(table.Choose("b", 4, second).value(), 2);
  EXPECT_EQ(table.Choose("a", 4, second).value(), 1);
  EXPECT_EQ(table.Choose("the only one", 1, Never).value(), 0);
  EXPECT_EQ(measured, 2);
  EXPECT_EQ(table.ToString(), "1 a\n2 b\n0 the only one\n");
}

TEST(TuningTableTest, FailureIsReturnedAndNotCached) {
  TuningTable table(/*measures=*/true);
  EXPECT_EQ(table.Choose("a", 4, Never).status(), absl::InternalError("measured"));
  EXPECT_EQ(table.Choose("a", 4, [] { return absl::StatusOr<int>(3); }).value(), 3);
}

TEST(TuningTableTest, TakeOverReplacesDefaultChoices) {
  TuningTable table(/*measures=*/false);
  EXPECT_EQ(table.Choose("a", 4, Never).value(), 0);
  EXPECT_EQ(table.Choose("same", 4, Never).value(), 0);
  ASSERT_EQ(table.TakeOver("0 same\n2 b c\n"), absl::OkStatus());
  EXPECT_EQ(table.version(), 0);  // Choose has not yet been called for `b c`
  EXPECT_EQ(table.Choose("b c", 4, Never).value(), 2);
  ASSERT_EQ(table.TakeOver("3 a\n2 b c\n"), absl::OkStatus());
  EXPECT_EQ(table.version(), 1);
  EXPECT_EQ(table.Choose("a", 4, Never).value(), 3);
}

TEST(TuningTableTest, MalformedAndOutOfRangeChoicesAreErrors) {
  for (const char* const text : {"a", "1", "-1 a", "99999999999 a", "x a"}) {
    const absl::Status status = TuningTable(/*measures=*/false).TakeOver(text);
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, text)) << text;
  }
  TuningTable table(/*measures=*/false);
  ASSERT_EQ(table.TakeOver("4 a"), absl::OkStatus());
  EXPECT_THAT(table.Choose("a", 4, Never).status(),
              IsError(absl::StatusCode::kInvalidArgument, "autotune: a:", "less than 4", "got 4"));
}

}  // namespace
}  // namespace mirrorflow
