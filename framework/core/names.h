// SPDX-License-Identifier: Apache-2.0
//
// Names in error messages: the unknown one, and the known ones that may have been meant.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_NAMES_H_
#define MIRRORFLOW_FRAMEWORK_CORE_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mirrorflow {

// Makes a name from a file safe for an error message: escapes unprintable bytes and truncates a
// very long name.
std::string Printable(absl::string_view name);

// Returns up to `count` candidates that are close to `name` by edit distance, the closest first.
std::vector<std::string> NearestNames(absl::string_view name,
                                      absl::Span<const std::string> candidates, size_t count);

// Returns "; did you mean x, y?" with the nearest names, to be appended to an error about `name`,
// or "" if no candidate is close.
std::string DidYouMean(absl::string_view name, absl::Span<const std::string> candidates,
                       size_t count = 1);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_NAMES_H_
