// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON: files build a nlohmann::ordered_json, whose keys keep their order, and pass it to
// JsonText(). parse_json.h reads JSON.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
#define MIRRORFLOW_FRAMEWORK_CORE_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace mirrorflow {

// Returns `json` on one line. Unlike dump(), accepts strings that are not UTF-8: U+FFFD replaces
// each malformed sequence, so the result is always valid.
std::string JsonText(const nlohmann::json& json);
std::string JsonText(const nlohmann::ordered_json& json);

// Returns `text` as a JSON string, quotes included.
std::string JsonQuote(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
