// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_IS_ERROR_H_
#define MIRRORFLOW_TESTS_SUPPORT_IS_ERROR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"

namespace mirrorflow {

// Matches a Status with this code whose message contains the place and each token.
//
//   EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "Square(b)", "got int32"));
//
// An error reads `<place>: <what is wrong>; expected <…>, got <…>`. The place is a node, a file, a
// rank, a flag or a key. A token, such as a value or a word, distinguishes the error from others at
// the same place. Tests never match the whole message, so rewording it breaks none of them;
// house_rules.py enforces this.
template <typename Place, typename... Tokens>
::testing::Matcher<const absl::Status&> IsError(absl::StatusCode code, const Place& place,
                                                const Tokens&... tokens) {
  return ::testing::AllOf(::testing::Property("code", &absl::Status::code, code),
                          ::testing::Property("message", &absl::Status::message,
                                              ::testing::AllOf(::testing::HasSubstr(place),
                                                               ::testing::HasSubstr(tokens)...)));
}

// Splits an error that lists several mistakes, one per line, so that IsError can match each one.
inline std::vector<absl::Status> SplitErrors(const absl::Status& status) {
  std::vector<absl::Status> errors;
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    errors.emplace_back(status.code(), line);
  }
  return errors;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_IS_ERROR_H_
