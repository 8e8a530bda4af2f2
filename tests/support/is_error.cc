// SPDX-License-Identifier: Apache-2.0
#include "tests/support/is_error.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"

namespace mirrorflow {

// Not in the header, where these templates would add half a second to each test's compile time.
::testing::Matcher<const absl::Status&> IsErrorWith(
    absl::StatusCode code, std::initializer_list<absl::string_view> parts) {
  std::vector<::testing::Matcher<absl::string_view>> substrings;
  for (const absl::string_view part : parts) {
    substrings.push_back(::testing::HasSubstr(std::string(part)));
  }
  return ::testing::AllOf(
      ::testing::Property("code", &absl::Status::code, code),
      ::testing::Property("message", &absl::Status::message, ::testing::AllOfArray(substrings)));
}

std::vector<absl::Status> SplitErrors(const absl::Status& status) {
  std::vector<absl::Status> errors;
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    errors.emplace_back(status.code(), line);
  }
  return errors;
}

}  // namespace mirrorflow
