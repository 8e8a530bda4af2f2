// SPDX-License-Identifier: Apache-2.0
#include "framework/core/json.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

template <typename Json>
std::string Dump(const Json& json) {
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

std::string JsonText(const nlohmann::json& json) { return Dump(json); }
std::string JsonText(const nlohmann::ordered_json& json) { return Dump(json); }
std::string JsonQuote(absl::string_view text) { return Dump(nlohmann::json(std::string(text))); }

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

template <typename Json>
absl::StatusOr<Json> ParseJson(absl::string_view text, const JsonLimits& limits) {
  if (absl::Status status = CheckJsonLimits(text, limits); !status.ok()) return status;
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("expected JSON, got other text");
  return json;
}
template absl::StatusOr<nlohmann::json> ParseJson(absl::string_view, const JsonLimits&);
template absl::StatusOr<nlohmann::ordered_json> ParseJson(absl::string_view, const JsonLimits&);

}  // namespace mirrorflow
