// SPDX-License-Identifier: Apache-2.0
#include "train/npz.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/file.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "train/npy.h"
#include "train/zip.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kSuffix = ".npy";

absl::StatusOr<Tensor> ReadEntry(const InputFile& file, const ZipEntry& entry) {
  if (!absl::EndsWith(entry.name, kSuffix) || entry.name.size() == kSuffix.size()) {
    return absl::DataLossError("the entry has an invalid name; expected NAME.npy");
  }
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<ZipEntryReader> reader,
                      ZipEntryReader::Open(file, entry));
  MF_ASSIGN_OR_RETURN(Tensor tensor, ReadNpyStream(entry.size, [&](size_t size, void* out) {
                        return reader->Read(size, out);
                      }));
  MF_RETURN_IF_ERROR(reader->Finish());
  return tensor;
}

absl::StatusOr<std::map<std::string, Tensor>> ReadAll(const InputFile& file) {
  MF_ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, ReadZipDirectory(file));
  std::map<std::string, Tensor> arrays;
  for (const ZipEntry& entry : entries) {
    absl::StatusOr<Tensor> tensor = ReadEntry(file, entry);
    if (!tensor.ok()) {
      return Annotate(tensor.status(), absl::StrCat("'", Printable(entry.name), "'"));
    }
    arrays[std::string(absl::StripSuffix(entry.name, kSuffix))] = *std::move(tensor);
  }
  return arrays;
}

}  // namespace

absl::StatusOr<std::map<std::string, Tensor>> ReadNpz(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  absl::StatusOr<std::map<std::string, Tensor>> arrays = ReadAll(file);
  if (!arrays.ok()) return Annotate(arrays.status(), path);
  return arrays;
}

absl::Status WriteNpz(absl::string_view path, const std::map<std::string, Tensor>& arrays) {
  std::vector<std::string> headers;
  std::vector<ZipMember> members;
  headers.reserve(arrays.size());  // members point into its elements
  for (const auto& [name, tensor] : arrays) {
    absl::StatusOr<std::string> header = NpyHeader(tensor);
    if (!header.ok()) return Annotate(header.status(), absl::StrCat(path, ": '", name, "'"));
    headers.push_back(*std::move(header));
    members.push_back(
        {absl::StrCat(name, kSuffix),
         {headers.back(),
          absl::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes())}});
  }
  return WriteZip(path, members);
}

}  // namespace mirrorflow
