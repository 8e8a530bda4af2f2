// SPDX-License-Identifier: Apache-2.0
#include "framework/core/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

// Expected values from RFC 3720, appendix B.4.
TEST(Crc32cTest, MatchesTheStandard) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32cTest, ChecksumOfPartsEqualsChecksumOfTheWhole) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (size_t i = 0; i <= text.size(); ++i) {
    EXPECT_EQ(Crc32c(text.substr(i), Crc32c(text.substr(0, i))), Crc32c(text));
  }
}

}  // namespace
}  // namespace mirrorflow
