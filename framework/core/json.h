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

// Returns `text` as a JSON string, including the quotes.
std::string JsonQuote(absl::string_view text);

// Limits on parsed JSON. With the defaults, any text takes less than 500 MiB of memory in addition
// to the text itself; a trace of 200,000 events or a manifest of as many tensors fits. Callers that
// need less pass lower limits.
struct JsonLimits {
  size_t depth = 128;               // of nested arrays and objects
  size_t values = size_t{1} << 21;  // counts `[`, `{` and `,`; each takes up to 220 bytes
};

// Returns InvalidArgument if the text exceeds a limit. Does not check that the text is JSON.
absl::Status CheckJsonLimits(absl::string_view text, const JsonLimits& limits = {});

// Parses JSON. Returns InvalidArgument if the text is not JSON or exceeds a limit; the caller adds
// the text's origin. With nlohmann::ordered_json, pass a low `values`: it compares each key of an
// object with all others.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(absl::string_view text, const JsonLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
