// SPDX-License-Identifier: Apache-2.0
#include "framework/core/parse_json.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {

absl::Status CheckJsonLimits(absl::string_view text, const JsonLimits& limits) {
  size_t depth = 0, values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    const bool opens = c == '[' || c == '{';
    if (opens) ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (opens || c == ',') ++values;
    if (depth > limits.depth) {
      return absl::InvalidArgumentError(absl::StrCat("nested too deeply; expected at most ",
                                                     limits.depth, " levels of JSON, got more"));
    }
    if (values > limits.values) {
      return absl::InvalidArgumentError(
          absl::StrCat("too many values in JSON; expected at most ", limits.values, ", got more"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
