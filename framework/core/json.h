// SPDX-License-Identifier: Apache-2.0
//
// Writes and parses JSON. Writers build a nlohmann::ordered_json, whose keys keep their order, and
// pass it to JsonText(). ParseJson() is for text from files and other processes: copying, comparing
// and printing a nlohmann value recurses, so text that nests too deeply would overflow the stack.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
#define MIRRORFLOW_FRAMEWORK_CORE_JSON_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace mirrorflow {

// Returns `json` on one line. Unlike dump(), accepts strings that are not UTF-8: U+FFFD replaces
// each malformed sequence, so the result is always valid.
std::string JsonText(const nlohmann::json& json);
std::string JsonText(const nlohmann::ordered_json& json);

// Returns `text` as a JSON string, quotes included.
std::string JsonQuote(absl::string_view text);

// The defaults keep the memory of any text below 500 MiB besides the text itself, and are enough
// for a trace of 200,000 events or a manifest of as many tensors. A caller that needs fewer says
// so.
struct JsonLimits {
  size_t depth = 128;               // of nested arrays and objects
  size_t values = size_t{1} << 21;  // counts `[`, `{` and `,`; each takes up to 220 bytes
};

// InvalidArgument if the text exceeds a limit. Does not check that the text is JSON.
absl::Status CheckJsonLimits(absl::string_view text, const JsonLimits& limits = {});

// InvalidArgument if the text is not JSON or exceeds a limit; the caller adds the text's origin.
// nlohmann::ordered_json compares each key of an object with all others, so limit `values` for it.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(absl::string_view text, const JsonLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
