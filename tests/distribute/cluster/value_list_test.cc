// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/value_list.h"

#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/members.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

TEST(ValueListTest, RandomValuesSurviveRoundTrip) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> values;
    for (int count = static_cast<int>(random() % 20); count > 0; --count) {
      values.emplace_back(random() % 3, static_cast<char>(random() % 3));
    }
    const auto again = SplitValues(JoinValues(values), static_cast<int>(values.size()));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, values);
  }
}

TEST(ValueListTest, EqualValuesTakeSpaceOfOne) {
  const std::string value(1000, 'x');
  EXPECT_LT(JoinValues(std::vector<std::string>(10'000, value)).size(), value.size() + 20);
}

TEST(ValueListTest, MalformedListsAreRefused) {
  coordination::ValueList other_index, too_long;
  other_index.add_run()->set_length(1);
  too_long.add_distinct("x");
  too_long.add_run()->set_length(0xffffffff);
  for (const std::string& text : {std::string("\xff"), other_index.SerializeAsString(),
                                  too_long.SerializeAsString(), JoinValues({"a"})}) {
    EXPECT_THAT(SplitValues(text, 2).status(),
                IsError(absl::StatusCode::kInternal, "coordination", "malformed"));
  }
}

std::vector<coordination::Member> Members(int count) {
  std::vector<coordination::Member> members(count);
  for (int w = 0; w < count; ++w) {
    members[w].set_worker(w);
    members[w].set_num_workers(count);
    members[w].set_host(absl::StrCat("node", w / 2));
    members[w].set_host_id(absl::StrCat("2f8a1c1e-9d53-4d8a-b2f5-2f8a1c1e ", w / 2));
    members[w].set_pid(1000 + w);
    members[w].set_cores("0-63");
    members[w].set_instruction_set(2);
    for (int i = 0; i < 8; ++i) members[w].add_devices(absl::StrCat("CPU:", i));
  }
  return members;
}

TEST(MembersTest, RoundTripKeepsFieldsThatWorkersNeed) {
  std::vector<coordination::Member> members = Members(4);
  members[3].set_cores("0-7");
  members[3].add_devices("CPU:8");
  const auto again = SplitMembers(JoinMembers(members), 4);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[0].host(), "node0");
  EXPECT_EQ((*again)[0].pid(), 1000);
  for (int w = 0; w < 4; ++w) {
    const coordination::Member& member = (*again)[w];
    EXPECT_EQ(member.worker(), w);
    EXPECT_EQ(member.instruction_set(), 2);
    EXPECT_EQ(member.cores(), members[w].cores());
    EXPECT_EQ(member.devices_size(), members[w].devices_size());
    for (int other = 0; other < 4; ++other) {
      EXPECT_EQ(member.host_id() == (*again)[other].host_id(), w / 2 == other / 2);
    }
  }
  EXPECT_THAT(SplitMembers(JoinMembers(members), 5).status(),
              IsError(absl::StatusCode::kInternal, "coordination", "malformed"));
}

// Each of 10,000 workers receives this message.
TEST(MembersTest, EqualHostsTakeThreeBytesEach) {
  EXPECT_LT(JoinMembers(Members(10'000)).SerializeAsString().size(), 30'000u);
}

}  // namespace
}  // namespace mirrorflow
