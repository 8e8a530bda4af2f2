// SPDX-License-Identifier: Apache-2.0
#include "framework/core/json.h"

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

}  // namespace mirrorflow
