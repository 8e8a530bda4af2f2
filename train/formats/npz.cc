// SPDX-License-Identifier: Apache-2.0
#include "train/formats/npz.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/file.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "train/formats/npy.h"
#include "train/formats/npy_header.h"
#include "train/formats/zip.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kSuffix = ".npy";

absl::StatusOr<Tensor> ReadEntry(const InputFile& file, const ZipEntry& entry) {
  MF_ASSIGN_OR_RETURN(const std::unique_ptr<ZipEntryReader> reader,
                      ZipEntryReader::Open(file, entry));
  MF_ASSIGN_OR_RETURN(Tensor tensor, ReadNpyStream(entry.size, [&](size_t size, void* out) {
                        return reader->Read(size, out);
                      }));
  MF_RETURN_IF_ERROR(reader->Finish());
  return tensor;
}

using Arrays = std::map<std::string, Tensor>;

absl::StatusOr<Arrays> ReadAll(
    absl::string_view path,
    absl::FunctionRef<absl::StatusOr<Tensor>(const InputFile&, const ZipEntry&)> read) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  const absl::StatusOr<std::vector<ZipEntry>> entries = ReadZipDirectory(file);
  if (!entries.ok()) return Annotate(entries.status(), path);
  Arrays arrays;
  for (const ZipEntry& entry : *entries) {
    absl::StatusOr<Tensor> tensor =
        absl::DataLossError("the entry has an invalid name; expected NAME.npy");
    if (absl::EndsWith(entry.name, kSuffix) && entry.name.size() > kSuffix.size()) {
      tensor = read(file, entry);
    }
    if (!tensor.ok()) {
      return Annotate(tensor.status(), absl::StrCat(path, ": '", Printable(entry.name), "'"));
    }
    arrays[std::string(absl::StripSuffix(entry.name, kSuffix))] = *std::move(tensor);
  }
  return arrays;
}

}  // namespace

absl::StatusOr<Arrays> ReadNpz(absl::string_view path) { return ReadAll(path, ReadEntry); }

absl::StatusOr<Arrays> MapNpz(absl::string_view path) {
  std::shared_ptr<const MappedFile> mapping;
  return ReadAll(path, [&](const InputFile& file, const ZipEntry& entry) {
    if (!entry.deflated) {
      absl::StatusOr<Tensor> mapped = MapNpyPart(file, entry.offset, entry.size, &mapping);
      if (!mapped.ok() || mapped->has_value()) return mapped;
    }
    return ReadEntry(file, entry);
  });
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
