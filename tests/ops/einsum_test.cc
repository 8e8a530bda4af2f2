// SPDX-License-Identifier: Apache-2.0
#include "ops/einsum.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

absl::Status ErrorOf(absl::string_view equation, const std::vector<int>& ranks) {
  return EinsumTermsOf(equation, ranks).status();
}

TEST(EinsumTermsTest, NumbersEllipsisDimensionsFromRight) {
  const auto terms = EinsumTermsOf("...ij,j...k->...ik", {4, 3});
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->inputs, std::vector<std::string>({"10ij", "j0k"}));
  EXPECT_EQ(terms->output, "10ik");
}

TEST(EinsumTermsTest, ErrorsNameTheCause) {
  EXPECT_THAT(ErrorOf("ij,jk", {2, 2}), IsError(kInvalid, "one '->'"));
  EXPECT_THAT(ErrorOf("ij->ji->ij", {2}), IsError(kInvalid, "one '->'"));
  EXPECT_THAT(ErrorOf("ij,jk->ik", {2}), IsError(kInvalid, "a term for each"));
  EXPECT_THAT(ErrorOf("i,j,k->ijk", {1, 1, 1}), IsError(kInvalid, "each operand (1 or 2)"));
  EXPECT_THAT(ErrorOf("i j->ij", {2}), IsError(kInvalid, "labels", "letters"));
  EXPECT_THAT(ErrorOf("...i...->i", {2}), IsError(kInvalid, "labels", "letters"));
  EXPECT_THAT(ErrorOf("ijk->ij", {2}), IsError(kInvalid, "operand 0", "2 dimensions"));
  EXPECT_THAT(ErrorOf("i->i", {2}), IsError(kInvalid, "operand 0", "2 dimensions"));
  EXPECT_THAT(ErrorOf("ij->ik", {2}), IsError(kInvalid, "label 'k'", "result"));
  EXPECT_THAT(ErrorOf("i...->i", {3}), IsError(kInvalid, "'...'"));
}

}  // namespace
}  // namespace mirrorflow
