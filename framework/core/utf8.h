// SPDX-License-Identifier: Apache-2.0
//
// Validates UTF-8.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_UTF8_H_
#define MIRRORFLOW_FRAMEWORK_CORE_UTF8_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns the length in bytes of the well-formed UTF-8 character at the start of `text`, or 0 if
// there is none.
size_t Utf8CharacterLength(absl::string_view text);
bool IsUtf8(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_UTF8_H_
