// SPDX-License-Identifier: Apache-2.0
#include "framework/core/file_kind.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/crc32c.h"
#include "framework/core/file.h"
#include "framework/core/utf8.h"

namespace mirrorflow {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEndBytes = size_t{1} << 16;  // holds the member names of most zip archives
constexpr size_t kMinTextBytes = 8;            // fewer bytes do not identify a kind

struct Signature {
  FileKind kind;
  size_t offset;
  absl::string_view bytes;
};

// Returns a literal with its embedded zero bytes, without the terminating one.
template <size_t N>
constexpr absl::string_view Magic(const char (&bytes)[N]) {
  return {bytes, N - 1};
}

constexpr Signature kSignatures[] = {
    {FileKind::kNpy, 0, Magic("\x93NUMPY")},
    {FileKind::kPng, 0, Magic("\x89PNG\r\n\x1a\n")},
    {FileKind::kJpeg, 0, Magic("\xff\xd8\xff")},
    {FileKind::kHdf5, 0, Magic("\x89HDF\r\n\x1a\n")},
    {FileKind::kTfLite, 4, Magic("TFL3")},
    {FileKind::kGguf, 0, Magic("GGUF")},
    // The magic number of torch.save()'s legacy format, which is not a zip archive.
    {FileKind::kPyTorch, 0, Magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")},
    {FileKind::kParquet, 0, Magic("PAR1")},
    {FileKind::kArrow, 0, Magic("ARROW1")},
    {FileKind::kArrow, 0, Magic("FEA1")},
    {FileKind::kMatlab, 0, Magic("MATLAB 5.0 MAT-file")},
    {FileKind::kSqlite, 0, Magic("SQLite format 3\0")},
    {FileKind::kGif, 0, Magic("GIF87a")},
    {FileKind::kGif, 0, Magic("GIF89a")},
    {FileKind::kTiff, 0, Magic("II*\0")},
    {FileKind::kTiff, 0, Magic("MM\0*")},
    {FileKind::kWebp, 8, Magic("WEBP")},
    {FileKind::kHeif, 4, Magic("ftypheic")},
    {FileKind::kHeif, 4, Magic("ftypheix")},
    {FileKind::kHeif, 4, Magic("ftypmif1")},
    {FileKind::kHeif, 4, Magic("ftypavif")},
    {FileKind::kPdf, 0, Magic("%PDF-")},
    {FileKind::kGzip, 0, Magic("\x1f\x8b")},
    {FileKind::kZip, 0, Magic("PK\x03\x04")},
    {FileKind::kZip, 0, Magic("PK\x05\x06")},
    {FileKind::kTar, 257, Magic("ustar")},
    {FileKind::kOtherArchive, 0, Magic("BZh")},
    {FileKind::kOtherArchive, 0,
     Magic("\xfd"
           "7zXZ\0")},
    {FileKind::kOtherArchive, 0, Magic("\x28\xb5\x2f\xfd")},
    {FileKind::kOtherArchive, 0, Magic("7z\xbc\xaf\x27\x1c")},
    {FileKind::kOtherArchive, 0, Magic("Rar!\x1a\x07")},
    {FileKind::kExecutable, 0,
     Magic("\x7f"
           "ELF")},
    {FileKind::kExecutable, 0, Magic("MZ\x90\0")},
    {FileKind::kExecutable, 0, Magic("\xcf\xfa\xed\xfe")},
    {FileKind::kCudaBinary, 0, Magic("\x50\xed\x55\xba")},
};

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

bool IsSafetensors(absl::string_view start, uint64_t size) {
  return start.size() > 8 && start[8] == '{' && LittleEndian(start.substr(0, 8)) <= size - 8;
}

// Returns true if the checksum of the first record's length is correct.
bool IsTfRecord(absl::string_view start) {
  if (start.size() < 12) return false;
  return LittleEndian(start.substr(8, 4)) == MaskedCrc32c(start.substr(0, 8));
}

bool IsIdx(absl::string_view start, uint64_t size) {
  if (start.size() < 8 || start[0] != 0 || start[1] != 0) return false;
  const size_t element = start[2] == 0x08 || start[2] == 0x09   ? 1
                         : start[2] == 0x0b                     ? 2
                         : start[2] == 0x0c || start[2] == 0x0d ? 4
                         : start[2] == 0x0e                     ? 8
                                                                : 0;
  const size_t rank = static_cast<unsigned char>(start[3]);
  if (element == 0 || rank == 0 || rank > 8 || start.size() < 4 + 4 * rank) return false;
  double bytes = static_cast<double>(element);
  for (size_t i = 0; i < rank; ++i) {
    double dim = 0;
    for (const char c : start.substr(4 + 4 * i, 4)) dim = dim * 256 + static_cast<unsigned char>(c);
    bytes *= dim;
  }
  return bytes + static_cast<double>(4 + 4 * rank) == static_cast<double>(size);
}

bool IsBmp(absl::string_view start, uint64_t size) {
  return absl::StartsWith(start, "BM") && start.size() >= 6 &&
         LittleEndian(start.substr(2, 4)) == size;
}

// Consumes a length-delimited protobuf field, whose tag has been read, and returns its contents: as
// much of them as `bytes` holds.
absl::string_view TakeField(absl::string_view* bytes) {
  uint64_t length = 0;
  for (int shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    length |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  const absl::string_view field = bytes->substr(0, length);
  bytes->remove_prefix(field.size());
  return field;
}

bool IsName(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, absl::ascii_isgraph);
}

// Recognises messages by the fields that their writers write first:
//   SavedModel    { saved_model_schema_version = 1 varint, meta_graphs = 2 MetaGraphDef }
//   ModelProto    { ir_version = 1 varint, … } of ONNX
//   MetaGraphDef  { meta_info_def = 1 { stripped_op_list = 2 { op = 1 }, tags = 4, … } }
//   GraphDef      { node = 1 { name = 1, op = 2 } }
FileKind KindOfMessage(absl::string_view bytes) {
  if (bytes.size() < 4) return FileKind::kUnknown;
  if (bytes[0] == 0x08) {
    constexpr absl::string_view kTags = "\x12\x1a\x22\x28\x32\x3a\x42";
    const int version = bytes[1];
    if (version == 1 && bytes[2] == 0x12) return FileKind::kSavedModel;
    const bool is_onnx = version >= 3 && version < 32 && absl::StrContains(kTags, bytes[2]);
    return is_onnx ? FileKind::kOnnx : FileKind::kUnknown;
  }
  if (bytes[0] != 0x0a) return FileKind::kUnknown;
  bytes.remove_prefix(1);
  absl::string_view first = TakeField(&bytes);
  if (first.size() < 3) return FileKind::kUnknown;
  const char tag = first[0];
  first.remove_prefix(1);
  const absl::string_view field = TakeField(&first);
  if (tag == 0x0a && IsName(field) && absl::StartsWith(first, "\x12")) return FileKind::kGraphDef;
  const bool is_meta = (tag == 0x12 && absl::StartsWith(field, "\x0a")) ||
                       ((tag == 0x22 || tag == 0x2a) && IsName(field));
  return is_meta ? FileKind::kMetaGraph : FileKind::kUnknown;
}

// Returns true if `rest`, the text after an opening bracket, can continue as JSON.
bool CanContinueAsJson(char bracket, absl::string_view rest) {
  const absl::string_view next = absl::StripLeadingAsciiWhitespace(rest).substr(0, 1);
  const absl::string_view allowed = bracket == '{' ? "\"}" : "\"{[]-0123456789tfn";
  return !next.empty() && absl::StrContains(allowed, next);
}

bool IsText(absl::string_view start, bool is_whole) {
  if (start.size() < kMinTextBytes) return false;
  for (absl::string_view rest = start; !rest.empty();) {
    size_t length = Utf8CharacterLength(rest);
    // `start` may end in the middle of a character.
    if (length == 0 && !is_whole && rest.size() < 4 && rest.size() < start.size()) return true;
    if (length == 0) return false;
    if (length == 1 && absl::ascii_iscntrl(rest[0]) && !absl::ascii_isspace(rest[0]) &&
        rest[0] != 0x1a) {
      return false;
    }
    rest.remove_prefix(length);
  }
  return true;
}

FileKind KindOfText(absl::string_view start, bool is_whole) {
  if (absl::StartsWith(start, "\xff\xfe") || absl::StartsWith(start, "\xfe\xff")) {
    return FileKind::kText;  // UTF-16
  }
  absl::ConsumePrefix(&start, "\xef\xbb\xbf");
  if (!IsText(start, is_whole)) return FileKind::kUnknown;
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(start);
  const auto begins = [&](absl::string_view with) {
    return absl::StartsWithIgnoreCase(text, with);
  };
  if (begins("version https://git-lfs.github.com/spec/")) return FileKind::kGitLfsPointer;
  if (begins("<!doctype html") || begins("<html")) return FileKind::kHtml;
  if (begins("<?xml")) return FileKind::kXml;
  if (begins("# mirrorflow graph")) return FileKind::kGraphTextForm;
  if (begins("model_checkpoint_path:")) return FileKind::kTensorFlowCheckpoint;
  for (const absl::string_view field : {"node", "library", "versions"}) {
    absl::string_view rest = text;
    if (!absl::ConsumePrefix(&rest, field)) continue;
    rest = absl::StripLeadingAsciiWhitespace(rest);
    absl::ConsumePrefix(&rest, ":");
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(rest), "{")) {
      return FileKind::kGraphDefText;
    }
  }
  const char first = text.empty() ? '\0' : text[0];
  if ((first == '{' || first == '[') && CanContinueAsJson(first, text.substr(1))) {
    return FileKind::kJson;
  }
  return FileKind::kText;
}

// Recognises a zip archive by its member names, which the central directory at its end lists.
FileKind KindOfZip(absl::string_view start, absl::string_view end) {
  const auto has = [&](absl::string_view name) {
    return absl::StrContains(start, name) || absl::StrContains(end, name);
  };
  if (has("model.weights.h5")) return FileKind::kKeras;
  if (has("/data.pkl")) return FileKind::kPyTorch;
  return has(".npy") ? FileKind::kNpz : FileKind::kZip;
}

FileKind KindOfFolder(const std::string& path) {
  std::error_code error;
  if (fs::exists(path + "/manifest.json", error) &&
      fs::exists(path + "/variables.safetensors", error)) {
    return FileKind::kCheckpointFolder;
  }
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == "saved_model.pb" || name == "saved_model.pbtxt") return FileKind::kSavedModelFolder;
    if (absl::StartsWith(name, "step-0")) return FileKind::kCheckpointFolder;
    if (absl::StrContains(name, ".ckpt") || absl::StrContains(name, ".data-00000-of-")) {
      return FileKind::kTensorFlowCheckpoint;
    }
  }
  return FileKind::kUnknown;
}

// Returns true for the end of a LevelDB table, which is the format of a TensorFlow checkpoint's
// index.
bool IsTable(absl::string_view end) {
  return absl::EndsWith(end, "\x57\xfb\x80\x8b\x24\x75\x47\xdb");
}

}  // namespace

FileKind KindOfBytes(absl::string_view start, uint64_t size) {
  if (size == 0) return FileKind::kEmpty;
  // Check this before the magic numbers, because the length of a record can equal one of them.
  if (IsTfRecord(start)) return FileKind::kTfRecord;
  const FileKind text = KindOfText(start, start.size() == size);
  for (const Signature& signature : kSignatures) {
    if (start.size() < signature.offset) continue;
    if (!absl::StartsWith(start.substr(signature.offset), signature.bytes)) continue;
    // The first column of a CSV file may be called PAR1.
    if (text != FileKind::kUnknown && IsName(signature.bytes)) continue;
    return signature.kind == FileKind::kZip ? KindOfZip(start, "") : signature.kind;
  }
  if (IsSafetensors(start, size)) return FileKind::kSafetensors;
  if (IsIdx(start, size)) return FileKind::kIdx;
  if (IsBmp(start, size)) return FileKind::kBmp;
  if (start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) {
    return FileKind::kPickle;
  }
  return text != FileKind::kUnknown ? text : KindOfMessage(start);
}

FileKind KindOfFile(absl::string_view path) {
  const std::string name(path);
  std::error_code error;
  if (fs::is_directory(name, error)) return KindOfFolder(name);
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return FileKind::kUnknown;
  std::string start(std::min<uint64_t>(file->size(), kFileKindBytes), '\0');
  std::string end(std::min<uint64_t>(file->size(), kEndBytes), '\0');
  if (!file->Read(0, start.size(), start.data()).ok() ||
      !file->Read(file->size() - end.size(), end.size(), end.data()).ok()) {
    return FileKind::kUnknown;
  }
  const FileKind kind = KindOfBytes(start, file->size());
  if (kind == FileKind::kZip) return KindOfZip(start, end);
  // A valid checksum is stronger evidence than the file's last bytes or its name.
  if (kind == FileKind::kTfRecord) return kind;
  const bool is_bundle = IsTable(end) || absl::StrContains(name, ".data-00000-of-");
  return is_bundle ? FileKind::kTensorFlowCheckpoint : kind;
}

absl::Status CheckFileKind(FileKind kind, const FileReader& reader) {
  const bool accepts = kind == FileKind::kUnknown || absl::c_linear_search(reader.kinds, kind);
  if (accepts) return absl::OkStatus();
  if (kind == FileKind::kEmpty) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file is empty; expected ", reader.expected, ", got 0 bytes"));
  }
  const FileKindRow& row = FileKindRowOf(kind);
  const absl::string_view advice = reader.use == FileReader::Use::kGraph       ? row.for_graph
                                   : reader.use == FileReader::Use::kVariables ? row.for_variables
                                                                               : row.for_data;
  return absl::InvalidArgumentError(absl::StrCat("wrong kind of file; expected ", reader.expected,
                                                 ", got ", row.name, advice.empty() ? "" : "; ",
                                                 advice));
}

absl::Status ExplainFile(const absl::Status& error, absl::string_view path,
                         const FileReader& reader) {
  constexpr absl::StatusCode kDependOnContents[] = {
      absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition,
      absl::StatusCode::kOutOfRange, absl::StatusCode::kUnimplemented, absl::StatusCode::kDataLoss};
  if (!absl::c_linear_search(kDependOnContents, error.code())) return error;
  const FileKind kind = KindOfFile(path);
  const absl::Status wrong = CheckFileKind(kind, reader);
  if (wrong.ok()) return error;
  return {kind == FileKind::kEmpty ? error.code() : wrong.code(),
          absl::StrCat(path, ": ", wrong.message())};
}

}  // namespace mirrorflow
