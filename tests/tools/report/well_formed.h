// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_TOOLS_REPORT_WELL_FORMED_H_
#define MIRRORFLOW_TESTS_TOOLS_REPORT_WELL_FORMED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns the first error in SVG, or in HTML whose elements are all closed except `meta`; returns
// "" if it is well formed. A bare `<`, `&` or quotation mark in text or an attribute is an error.
std::string WellFormed(absl::string_view html);

int CountOf(absl::string_view text, absl::string_view part);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TOOLS_REPORT_WELL_FORMED_H_
