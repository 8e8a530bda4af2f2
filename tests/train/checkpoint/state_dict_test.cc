// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/state_dict.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

TEST(StateDictTest, NumbersRoundTripExactly) {
  const double values[] = {0.1,
                           -0.0,
                           1e-310,
                           std::numeric_limits<double>::max(),
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::nextafter(1.0, 2.0)};
  for (const double value : values) {
    StateDict state;
    state.Set("x", value);
    double got = 7;
    ASSERT_TRUE(state.Get("x", &got).ok());
    EXPECT_EQ(got, value);
    EXPECT_EQ(std::signbit(got), std::signbit(value));
  }
  StateDict state;
  state.Set("nan", std::nan(""));
  state.Set("least", std::numeric_limits<int64_t>::min());
  state.Set("float", 0.1f);
  state.Set("flag", true);
  double nan = 0, number = 0;
  int64_t least = 0;
  bool flag = false;
  ASSERT_TRUE(state.Get("nan", &nan).ok());
  ASSERT_TRUE(state.Get("least", &least).ok());
  ASSERT_TRUE(state.Get("float", &number).ok());
  ASSERT_TRUE(state.Get("flag", &flag).ok());
  EXPECT_TRUE(std::isnan(nan));
  EXPECT_EQ(least, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(static_cast<float>(number), 0.1f);
  EXPECT_TRUE(flag);
}

TEST(StateDictTest, AnyBytesRoundTripAndAreStoredAsUtf8) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  StateDict state;
  state.Set("text", bytes);
  for (const char c : state.values().at("text")) EXPECT_LT(static_cast<unsigned char>(c), 128);
  std::string got;
  ASSERT_TRUE(state.Get("text", &got).ok());
  EXPECT_EQ(got, bytes);
}

TEST(StateDictTest, GetOfMissingOrMistypedEntryFailsAndChangesNothing) {
  StateDict state;
  state.Set("text", "seven");
  state.Set("half", 0.5);
  int64_t number = 3;
  Tensor tensor;
  EXPECT_THAT(state.Get("none", &number), IsError(absl::StatusCode::kNotFound, "'none'"));
  EXPECT_THAT(state.Get("text", &tensor), IsError(absl::StatusCode::kNotFound, "'text'"));
  for (const char* const name : {"text", "half"}) {
    const absl::Status status = state.Get(name, &number);
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, name));
  }
  EXPECT_EQ(number, 3);
}

TEST(StateDictTest, WithPrefixReturnsWhatWasMergedUnderThePrefix) {
  StateDict own, all;
  own.Set("count", 2);
  own.Set("weights", Tensor::Vector<float>({1, 2}));
  all.Merge("a/", own);
  own.Set("count", 3);
  all.Merge("ab/", own);
  const StateDict got = all.WithPrefix("a/");
  int64_t count = 0;
  Tensor weights;
  ASSERT_TRUE(got.Get("count", &count).ok());
  ASSERT_TRUE(got.Get("weights", &weights).ok());
  EXPECT_EQ(count, 2);
  EXPECT_EQ(weights.flat<float>()[1], 2);
  EXPECT_EQ(got.values().size() + got.tensors().size(), 2u);
  EXPECT_TRUE(all.WithPrefix("b/").empty());
}

}  // namespace
}  // namespace mirrorflow
