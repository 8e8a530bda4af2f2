// SPDX-License-Identifier: Apache-2.0
//
// Recognises files by their contents, so that a reader that cannot use a file can report in its
// error what the file is and how to convert it to a usable one.
//
//   return ExplainFile(ReadTensor(path), path, kNpyFile);
#ifndef MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_H_
#define MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mirrorflow {

enum class FileKind {
  kUnknown,
  kEmpty,
  kText,
  // Kinds that Mirrorflow reads.
  kGraphDef,
  kGraphDefText,
  kGraphTextForm,
  kSafetensors,
  kNpy,
  kNpz,
  kTfRecord,
  kIdx,
  kPng,
  kJpeg,
  kCheckpointFolder,
  // Models of other programs.
  kSavedModelFolder,
  kSavedModel,
  kMetaGraph,
  kTensorFlowCheckpoint,
  kKeras,
  kHdf5,
  kOnnx,
  kTfLite,
  kPyTorch,
  kPickle,
  kGguf,
  // Data of other programs.
  kParquet,
  kArrow,
  kMatlab,
  kSqlite,
  kGif,
  kBmp,
  kTiff,
  kWebp,
  kHeif,
  // Kinds that are often found in place of the right file.
  kGitLfsPointer,
  kHtml,
  kXml,
  kJson,
  kPdf,
  kGzip,
  kZip,
  kTar,
  kOtherArchive,
  kExecutable,
  kCudaBinary,
};

// Describes a reader to the functions below.
struct FileReader {
  enum class Use { kGraph, kVariables, kData };

  absl::string_view expected;        // "an npy file"
  Use use;                           // decides which advice an error gives
  absl::Span<const FileKind> kinds;  // the kinds that the reader accepts
};

// Recognises a file of `size` bytes by `start`, its first kFileKindBytes bytes.
inline constexpr size_t kFileKindBytes = 4096;
FileKind KindOfBytes(absl::string_view start, uint64_t size);
// Recognises a file or a folder. Returns kUnknown if it cannot be read.
FileKind KindOfFile(absl::string_view path);

// The name of a file kind, and advice on how to turn such a file into a usable one.
struct FileKindRow {
  FileKind kind;
  absl::string_view name;  // with its article: "a PNG image"
  // How to make a graph, variables or data from such a file; may be empty.
  absl::string_view for_graph = "";
  absl::string_view for_variables = "";
  absl::string_view for_data = "";
};
const FileKindRow& FileKindRowOf(FileKind kind);

// Returns OK if the reader may accept the kind, and otherwise InvalidArgument without the path:
// `wrong kind of file; expected an npy file, got a git LFS pointer; <what to do>`.
absl::Status CheckFileKind(FileKind kind, const FileReader& reader);

// Explains a reader's error: if the reader failed because the file is of the wrong kind, returns
// the error of CheckFileKind() with the path. Returns errors that do not depend on the contents
// (NotFound, ResourceExhausted, …) unchanged. Keeps the error's code for an empty file.
absl::Status ExplainFile(const absl::Status& error, absl::string_view path,
                         const FileReader& reader);
// Returns `value`, or its error, explained.
template <typename T>
absl::StatusOr<T> ExplainFile(absl::StatusOr<T> value, absl::string_view path,
                              const FileReader& reader) {
  if (!value.ok()) return ExplainFile(value.status(), path, reader);
  return value;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_H_
