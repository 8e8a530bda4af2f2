// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/slurm_nodes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(ExpandNodeListTest, ExpandsRangesAndKeepsLeadingZeros) {
  EXPECT_THAT(ExpandNodeList("m1").value(), ElementsAre("m1"));
  EXPECT_THAT(ExpandNodeList("n[001-003,7],m1").value(),
              ElementsAre("n001", "n002", "n003", "n7", "m1"));
  EXPECT_THAT(ExpandNodeList("n[9-11]").value(), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(ExpandNodeList("r[1-2]n[1-2]-ib").value(),
              ElementsAre("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"));
  EXPECT_THAT(ExpandNodeList("n[0-65535]").value(), SizeIs(65536));
}

TEST(ExpandNodeListTest, RejectsMalformedAndHugeLists) {
  for (const char* list : {"", ",", "a,", "n[", "n]", "n[]", "n[1-", "n[1-]", "n[3-1]", "n[1-2-3]",
                           "n[a]", "n[[1]]", "n[1]]", "n[0-65536]", "n[0-4294967295]",
                           "n[1-99999999999999999999]", "n[0-999]m[0-999]"}) {
    const auto nodes = ExpandNodeList(list);
    EXPECT_THAT(nodes.status(), IsError(absl::StatusCode::kInvalidArgument, "nodes"));
  }
}

}  // namespace
}  // namespace mirrorflow
