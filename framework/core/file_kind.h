// SPDX-License-Identifier: Apache-2.0
//
// Recognises files by their contents, for the errors of all readers: a reader that cannot use a
// file says what the file is, and how to make a usable one from it.
//
//   absl::StatusOr<Tensor> tensor = …;
//   if (!tensor.ok()) return ExplainFile(tensor.status(), path, kNpyFile);
#ifndef MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_H_
#define MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
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
  // Kinds that often take the place of the right file.
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
  absl::Span<const FileKind> kinds;  // those that the reader accepts
};

// Recognises the contents of a file of `size` bytes by the first kFileKindBytes of them.
inline constexpr size_t kFileKindBytes = 4096;
FileKind KindOfBytes(absl::string_view start, uint64_t size);
// Recognises a file or a folder. kUnknown if it cannot be read.
FileKind KindOfFile(absl::string_view path);

// Names a kind of file, and says how to turn such a file into a usable one.
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

// Returns the error of a reader, or that of CheckFileKind() with the path if the reader failed
// because the file is of another kind. An error that another file would cause as well (NotFound,
// ResourceExhausted, …) stays unchanged. An empty file keeps the error's code.
absl::Status ExplainFile(const absl::Status& error, absl::string_view path,
                         const FileReader& reader);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FILE_KIND_H_
