// SPDX-License-Identifier: Apache-2.0
//
// Small files of every kind that a user might pass to a reader by mistake.
#ifndef MIRRORFLOW_TESTS_SUPPORT_FOREIGN_FILES_H_
#define MIRRORFLOW_TESTS_SUPPORT_FOREIGN_FILES_H_

#include <string>
#include <vector>

#include "framework/core/file_kind.h"

namespace mirrorflow {

struct ForeignFile {
  FileKind kind;
  std::string name;
  std::string token;  // a word from the kind's name in error messages
  std::string contents;
};

// Returns files of all kinds except kUnknown, kText and folders, with the first bytes that real
// programs write.
std::vector<ForeignFile> ForeignFiles();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_FOREIGN_FILES_H_
