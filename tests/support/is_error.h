// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_IS_ERROR_H_
#define MIRRORFLOW_TESTS_SUPPORT_IS_ERROR_H_

#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"

namespace mirrorflow {

// Implements IsError.
::testing::Matcher<const absl::Status&> IsErrorWith(absl::StatusCode code,
                                                    std::initializer_list<absl::string_view> parts);

// Matches a Status with this code whose message contains the place and each token.
//
//   EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "Square(b)", "got int32"));
//
// An error reads `<place>: <what is wrong>; expected <…>, got <…>`. The place is a node, a file, a
// rank, a flag or a key. A token, such as a value or a word, distinguishes the error from others at
// the same place. Tests never match the whole message, so rewording it breaks none of them;
// house_rules.py enforces this.
template <typename... Tokens>
::testing::Matcher<const absl::Status&> IsError(absl::StatusCode code, absl::string_view place,
                                                const Tokens&... tokens) {
  return IsErrorWith(code, {place, tokens...});
}

// Splits an error that lists several mistakes, one per line, so that IsError can match each one.
std::vector<absl::Status> SplitErrors(const absl::Status& status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_IS_ERROR_H_
