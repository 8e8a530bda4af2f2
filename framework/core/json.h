// SPDX-License-Identifier: Apache-2.0
//
// JSON strings, for everything here that writes JSON: traces, checkpoint headers, log lines.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
#define MIRRORFLOW_FRAMEWORK_CORE_JSON_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// The length in bytes of the well-formed UTF-8 character at the start of `text`; 0 if there is
// none.
size_t Utf8CharacterLength(absl::string_view text);
bool IsUtf8(absl::string_view text);

// `text` as a JSON string, quotes included. Escapes only what JSON requires (as serde_json does). A
// byte that is not valid UTF-8 becomes U+FFFD, so the result is always valid.
std::string JsonQuote(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
