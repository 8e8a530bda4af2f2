// SPDX-License-Identifier: Apache-2.0
//
// Files for the tests of readers: built byte by byte, and kept where the test may write.
#ifndef MIRRORFLOW_TESTS_TRAIN_FILES_H_
#define MIRRORFLOW_TESTS_TRAIN_FILES_H_

#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Bytes from numbers, zeros included.
std::string Bytes(std::initializer_list<int> values);
// `contents` as gzip compresses it.
std::string Gzip(absl::string_view contents);

std::string TemporaryPath(absl::string_view name);
// Writes the file and returns its path. Missing directories on the way are made.
std::string WriteTemporary(absl::string_view name, absl::string_view contents);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_FILES_H_
