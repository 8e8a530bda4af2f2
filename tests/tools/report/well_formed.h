// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_TOOLS_REPORT_WELL_FORMED_H_
#define MIRRORFLOW_TESTS_TOOLS_REPORT_WELL_FORMED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns the first error in an SVG image or an HTML page, or "" if it is well formed. In HTML,
// every element except `meta` must be closed. A bare `<`, `&` or quotation mark in text or an
// attribute is an error.
std::string WellFormed(absl::string_view html);

int CountOf(absl::string_view text, absl::string_view part);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TOOLS_REPORT_WELL_FORMED_H_
