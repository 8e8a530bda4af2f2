// SPDX-License-Identifier: Apache-2.0
#include "ops/einsum.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view equation, const std::vector<int>& ranks) {
  return std::string(EinsumTermsOf(equation, ranks).status().message());
}

TEST(EinsumTermsTest, NumbersEllipsisDimensionsFromRight) {
  const auto terms = EinsumTermsOf("...ij,j...k->...ik", {4, 3});
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->inputs, std::vector<std::string>({"10ij", "j0k"}));
  EXPECT_EQ(terms->output, "10ik");
}

TEST(EinsumTermsTest, ErrorsNameCause) {
  EXPECT_THAT(ErrorOf("ij,jk", {2, 2}), HasSubstr("one '->'"));
  EXPECT_THAT(ErrorOf("ij->ji->ij", {2}), HasSubstr("one '->'"));
  EXPECT_THAT(ErrorOf("ij,jk->ik", {2}), HasSubstr("a term for each"));
  EXPECT_THAT(ErrorOf("i,j,k->ijk", {1, 1, 1}), HasSubstr("1 or 2 operands"));
  EXPECT_THAT(ErrorOf("i j->ij", {2}), HasSubstr("labels must be letters"));
  EXPECT_THAT(ErrorOf("...i...->i", {2}), HasSubstr("labels must be letters"));
  EXPECT_THAT(ErrorOf("ijk->ij", {2}), HasSubstr("operand 0 has 2 dimensions"));
  EXPECT_THAT(ErrorOf("i->i", {2}), HasSubstr("operand 0 has 2 dimensions"));
  EXPECT_THAT(ErrorOf("ij->ik", {2}), HasSubstr("label 'k' of the result"));
  EXPECT_THAT(ErrorOf("i...->i", {3}), HasSubstr("must have '...' too"));
}

}  // namespace
}  // namespace mirrorflow
