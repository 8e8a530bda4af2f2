// SPDX-License-Identifier: Apache-2.0
//
// JSON strings, for the writers of this project: traces, checkpoint headers, log lines.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
#define MIRRORFLOW_FRAMEWORK_CORE_JSON_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// The length of the well-formed UTF-8 character that `text` begins with; 0 if there is none.
size_t Utf8CharacterLength(absl::string_view text);
bool IsUtf8(absl::string_view text);

// `text` as a JSON string, quotes included. Only what JSON demands is escaped (as serde_json
// does); a byte that is not UTF-8 becomes U+FFFD, so the result is always valid.
std::string JsonQuote(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_JSON_H_
