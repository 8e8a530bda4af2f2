// SPDX-License-Identifier: Apache-2.0
#include "train/formats/npz.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/file.h"
#include "framework/core/file_kind.h"
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

// An npz file whose directory has been read.
class Archive {
 public:
  static absl::StatusOr<Archive> Open(absl::string_view path) {
    MF_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
    MF_ASSIGN_OR_RETURN(std::vector<ZipEntry> entries, Annotate(ReadZipDirectory(file), path));
    Archive archive(std::move(file));
    for (ZipEntry& entry : entries) {
      absl::string_view name = entry.name;
      if (!absl::ConsumeSuffix(&name, kSuffix) || name.empty()) continue;
      std::string key(name);
      archive.arrays_.emplace(std::move(key), std::move(entry));
    }
    if (archive.arrays_.empty() && !entries.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": no array; expected a member ",
                                                     "NAME.npy, got ", entries.size(),
                                                     " other members"));
    }
    return archive;
  }

  const std::map<std::string, ZipEntry>& arrays() const { return arrays_; }

  absl::StatusOr<Tensor> Read(const ZipEntry& entry) const {
    return Named(entry, ReadEntry(file_, entry));
  }
  // Returns an array, which shares `mapping` if possible.
  absl::StatusOr<Tensor> Map(const ZipEntry& entry,
                             std::shared_ptr<const MappedFile>* mapping) const {
    if (!entry.deflated && entry.readable.ok()) {
      absl::StatusOr<Tensor> mapped = MapNpyPart(file_, entry.offset, entry.size, mapping);
      if (!mapped.ok() || mapped->has_value()) return Named(entry, std::move(mapped));
    }
    return Read(entry);
  }

 private:
  explicit Archive(InputFile file) : file_(std::move(file)) {}

  absl::StatusOr<Tensor> Named(const ZipEntry& entry, absl::StatusOr<Tensor> tensor) const {
    return Annotate(std::move(tensor),
                    absl::StrCat(file_.path(), ": '", Printable(entry.name), "'"));
  }

  InputFile file_;
  std::map<std::string, ZipEntry> arrays_;  // by name
};

absl::StatusOr<Archive> OpenArchive(absl::string_view path) {
  // The names in a damaged archive may be unreadable, so accept a plain zip file as a damaged npz
  // file.
  static constexpr FileKind kDamaged[] = {FileKind::kNpz, FileKind::kZip};
  static constexpr FileKind kWhole[] = {FileKind::kNpz};
  absl::StatusOr<Archive> archive = Archive::Open(path);
  if (archive.ok()) return archive;
  const bool is_damaged = absl::IsDataLoss(archive.status());
  return ExplainFile(archive.status(), path,
                     {"an npz file", FileReader::Use::kData,
                      is_damaged ? absl::Span<const FileKind>(kDamaged) : kWhole});
}

}  // namespace

absl::StatusOr<std::vector<std::string>> NpzNames(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(const Archive archive, OpenArchive(path));
  std::vector<std::string> names;
  for (const auto& [name, entry] : archive.arrays()) names.push_back(name);
  return names;
}

absl::StatusOr<Arrays> ReadNpz(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(const Archive archive, OpenArchive(path));
  Arrays arrays;
  for (const auto& [name, entry] : archive.arrays()) {
    MF_ASSIGN_OR_RETURN(arrays[name], archive.Read(entry));
  }
  return arrays;
}

absl::StatusOr<std::vector<Tensor>> MapNpz(absl::string_view path,
                                           const std::vector<std::string>& names) {
  MF_ASSIGN_OR_RETURN(const Archive archive, OpenArchive(path));
  std::shared_ptr<const MappedFile> mapping;
  std::vector<Tensor> arrays;
  for (const std::string& name : names) {
    const auto found = archive.arrays().find(name);
    if (found == archive.arrays().end()) {
      std::vector<std::string> known;
      for (const auto& [other, entry] : archive.arrays()) known.push_back(other);
      return absl::NotFoundError(absl::StrCat(path, ": no such array; expected one of ",
                                              known.size(), " names, got '", Printable(name), "'",
                                              DidYouMean(name, known)));
    }
    MF_ASSIGN_OR_RETURN(arrays.emplace_back(), archive.Map(found->second, &mapping));
  }
  return arrays;
}

absl::StatusOr<std::map<std::string, absl::Status>> CheckNpz(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(const Archive archive, OpenArchive(path));
  std::shared_ptr<const MappedFile> mapping;
  std::map<std::string, absl::Status> statuses;
  for (const auto& [name, entry] : archive.arrays()) {
    statuses[name] = archive.Map(entry, &mapping).status();
  }
  return statuses;
}

absl::Status WriteNpz(absl::string_view path, const std::map<std::string, Tensor>& arrays) {
  std::vector<std::string> headers;
  std::vector<ZipMember> members;
  headers.reserve(arrays.size());  // `members` refer to the elements, so they must not move
  for (const auto& [name, tensor] : arrays) {
    MF_ASSIGN_OR_RETURN(headers.emplace_back(),
                        Annotate(NpyHeader(tensor), absl::StrCat(path, ": '", name, "'")));
    members.push_back(
        {absl::StrCat(name, kSuffix),
         {headers.back(),
          absl::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes())}});
  }
  return WriteZip(path, members);
}

}  // namespace mirrorflow
