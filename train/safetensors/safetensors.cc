// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors/safetensors.h"

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/file.h"
#include "framework/core/file_kind.h"
#include "framework/core/json.h"
#include "framework/core/status.h"
#include "train/safetensors/safetensors_header.h"

namespace mirrorflow {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes are copied unchanged");
constexpr uint64_t kLengthBytes = sizeof(uint64_t);

template <typename... Parts>
absl::Status Broken(absl::string_view path, absl::string_view rule, const Parts&... text) {
  return absl::DataLossError(absl::StrCat(path, ": ", rule, ": ", text...));
}

absl::StatusOr<std::string> ReadHeaderText(const InputFile& file) {
  if (file.size() < kLengthBytes) {
    return Broken(file.path(), "HeaderTooSmall", "the file is too short; expected at least ",
                  kLengthBytes, " bytes, got ", file.size());
  }
  uint64_t length;
  MF_RETURN_IF_ERROR(file.Read(0, kLengthBytes, &length));
  if (length > kMaxSafetensorsHeaderBytes) {
    return Broken(file.path(), "HeaderTooLarge",
                  "the header's length is out of range; expected at most ",
                  kMaxSafetensorsHeaderBytes, ", got ", length);
  }
  if (length > file.size() - kLengthBytes) {
    return Broken(file.path(), "InvalidHeaderLength", "the file ends in the header; expected ",
                  kLengthBytes + length, " bytes or more, got ", file.size());
  }
  std::string header(length, '\0');
  MF_RETURN_IF_ERROR(file.Read(kLengthBytes, length, &header[0]));
  return header;
}

// Rejects bytes other than 0 and 1, which are undefined behaviour in a C++ bool.
absl::Status CheckBools(const std::string& name, const Tensor& tensor) {
  for (size_t i = 0; i < tensor.bytes(); ++i) {
    if (std::to_integer<int>(tensor.raw()[i]) > 1) {
      return absl::DataLossError(absl::StrCat("InvalidBool: tensor ", JsonQuote(name), ", element ",
                                              i, "; expected 0 or 1, got ",
                                              std::to_integer<int>(tensor.raw()[i])));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Safetensors> Read(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  MF_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(file));
  const uint64_t data_begin = kLengthBytes + text.size();
  MF_ASSIGN_OR_RETURN(SafetensorsHeader header,
                      Annotate(ParseSafetensorsHeader(text, file.size() - data_begin), path));
  Safetensors contents;
  contents.metadata = std::move(header.metadata);
  for (auto& [name, status] : header.unreadable) {
    contents.unreadable.emplace(name, Annotate(status, path));
  }
  for (SafetensorsEntry& entry : header.entries) {
    MF_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry.dtype, entry.shape));
    MF_RETURN_IF_ERROR(file.Read(data_begin + entry.begin, tensor.bytes(), tensor.raw()));
    if (entry.dtype == DT_BOOL) {
      MF_RETURN_IF_ERROR(Annotate(CheckBools(entry.name, tensor), path));
    }
    contents.tensors.emplace(std::move(entry.name), std::move(tensor));
  }
  return contents;
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Create(const Safetensors& contents) {
  SafetensorsFile file;
  MF_ASSIGN_OR_RETURN(const std::string text,
                      FormatSafetensorsHeader(contents.tensors, contents.metadata, &file.tensors_));
  const uint64_t length = text.size();
  file.header_.assign(reinterpret_cast<const char*>(&length), kLengthBytes);
  file.header_ += text;
  return file;
}

uint64_t SafetensorsFile::bytes() const {
  uint64_t bytes = header_.size();
  for (const Tensor* tensor : tensors_) bytes += tensor->bytes();
  return bytes;
}

std::vector<absl::string_view> SafetensorsFile::pieces() const {
  std::vector<absl::string_view> pieces = {header_};
  for (const Tensor* tensor : tensors_) {
    pieces.emplace_back(reinterpret_cast<const char*>(tensor->raw()), tensor->bytes());
  }
  return pieces;
}

absl::Status WriteSafetensors(absl::string_view path, const Safetensors& contents) {
  MF_ASSIGN_OR_RETURN(const SafetensorsFile file,
                      Annotate(SafetensorsFile::Create(contents), path));
  return WriteFileAtomically(path, file.pieces());
}

absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view path) {
  static constexpr FileKind kKinds[] = {FileKind::kSafetensors};
  return ExplainFile(Read(path), path, {"a safetensors file", FileReader::Use::kVariables, kKinds});
}

}  // namespace mirrorflow
