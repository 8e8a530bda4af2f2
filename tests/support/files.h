// SPDX-License-Identifier: Apache-2.0
//
// Builds files byte by byte for reader tests, and writes them to the test's temporary folder.
#ifndef MIRRORFLOW_TESTS_SUPPORT_FILES_H_
#define MIRRORFLOW_TESTS_SUPPORT_FILES_H_

#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns bytes with these values, which can be 0.
std::string Bytes(std::initializer_list<int> values);
// Returns `contents`, compressed with gzip.
std::string Gzip(absl::string_view contents);

std::string TemporaryPath(absl::string_view name);
// Writes the file and returns its path. Creates missing directories.
std::string WriteTemporary(absl::string_view name, absl::string_view contents);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_FILES_H_
