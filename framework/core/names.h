// SPDX-License-Identifier: Apache-2.0
//
// Formats names for error messages, and suggests known names that resemble an unknown one.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_NAMES_H_
#define MIRRORFLOW_FRAMEWORK_CORE_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mirrorflow {

// Makes an untrusted name safe for an error message: escapes unprintable bytes and truncates long
// names.
std::string Printable(absl::string_view name);

// Returns "; did you mean x, y?", for the end of an error message about `name`: up to `count`
// candidates within a small edit distance, closest first. Returns "" if no candidate is close.
std::string DidYouMean(absl::string_view name, absl::Span<const std::string> candidates,
                       size_t count = 1);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_NAMES_H_
