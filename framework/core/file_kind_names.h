// SPDX-License-Identifier: Apache-2.0
//
// The words of file_kind.h: the name of each kind of file, and what a user does with such a file.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_NAMES_H_
#define MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_NAMES_H_

#include "absl/strings/string_view.h"
#include "framework/core/file_kind.h"

namespace mirrorflow {

struct FileKindRow {
  FileKind kind;
  absl::string_view name;  // with its article
  // How to make a graph, variables or data from such a file; may be empty.
  absl::string_view for_graph = "";
  absl::string_view for_variables = "";
  absl::string_view for_data = "";
};

const FileKindRow& FileKindRowOf(FileKind kind);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_NAMES_H_
