// SPDX-License-Identifier: Apache-2.0
#include "train/data/file_dataset.h"

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "framework/core/crc32c.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

namespace fs = std::filesystem;

// Returns the file's name without the directory, which can differ between the hosts of a cluster.
std::string BaseName(const std::string& path) { return fs::path(path).filename().string(); }

}  // namespace

std::string IdentityOfNames(const std::vector<std::string>& names) {
  uint32_t crc = 0;
  for (const std::string& name : names) crc = Crc32c(absl::StrCat(name, "\n"), crc);
  return absl::StrCat(names.size(), names.size() == 1 ? " file" : " files", " with checksum ",
                      absl::Hex(crc, absl::kZeroPad8));
}

std::string IdentityOfFiles(const std::vector<std::string>& paths,
                            const std::vector<std::string>& named) {
  const std::set<absl::string_view> by_user(named.begin(), named.end());
  std::vector<std::string> texts;
  uintmax_t total = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    if (!error) total += size;
    // Omit names that the user passed: they can differ between hosts, as temporary names do.
    const std::string name = by_user.contains(path) ? "" : BaseName(path);
    texts.push_back(absl::StrCat(name, " ", error ? 0 : size));
  }
  return absl::StrCat(IdentityOfNames(texts), " and ", total, " bytes");
}

// A source's list of files, which is created when it is first needed.
class FileDataset::FileList {
 public:
  explicit FileList(ListFiles list) : list_(std::move(list)) {}

  const absl::StatusOr<Paths>& paths() {
    MutexLock lock(&mu_);
    if (!paths_) paths_ = list_();
    return *paths_;
  }

 private:
  const ListFiles list_;
  Mutex mu_;
  std::optional<absl::StatusOr<Paths>> paths_ ABSL_GUARDED_BY(mu_);
};

FileDataset::FileDataset(std::string description, bool batched, std::shared_ptr<FileList> files,
                         MakeRows make)
    : DatasetBase(std::move(description), batched),
      files_(std::move(files)),
      make_(std::move(make)) {}

std::shared_ptr<const FileDataset> FileDataset::Create(Paths named, ListFiles list,
                                                       ReadFiles read) {
  const auto files = std::make_shared<FileList>(std::move(list));
  auto make = [files, named = std::move(named),
               read = std::move(read)](const FileShard& shard) -> absl::StatusOr<RowPipeline> {
    MF_ASSIGN_OR_RETURN(const Paths all, files->paths());
    Paths own;
    for (size_t i = shard.worker; i < all.size(); i += shard.num_workers) own.push_back(all[i]);
    MF_ASSIGN_OR_RETURN(RowPipeline rows, read(own));
    rows.shard = shard;
    rows.files = IdentityOfFiles(own, named);
    return rows;
  };
  return std::shared_ptr<const FileDataset>(
      new FileDataset("FromFiles()", /*batched=*/false, files, std::move(make)));
}

std::shared_ptr<const DatasetBase> FileDataset::Then(RowStage stage) const {
  std::string description = stage.Describe(ToString());
  const bool makes_batches = stage.makes_batches;
  auto make = [input = shared_from_this(), stage = std::move(stage)](const FileShard& shard) {
    return stage.ApplyTo(input->RowsOf(shard));
  };
  return std::shared_ptr<const FileDataset>(
      new FileDataset(std::move(description), batched() || makes_batches, files_, std::move(make)));
}

const absl::StatusOr<RowPipeline>& FileDataset::RowsOf(const FileShard& shard) const {
  MutexLock lock(&mu_);
  for (const auto& [of, rows] : made_) {
    if (of == shard) return rows;
  }
  return made_.emplace_back(shard, make_(shard)).second;
}

absl::StatusOr<FileBatches> FileDataset::OpenFiles(int64_t epoch, const FileShard& shard) const {
  MF_ASSIGN_OR_RETURN(const Paths paths, files_->paths());
  if (std::ssize(paths) < shard.num_workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset: AutoShardPolicy FILE: fewer files than workers; expected at least ",
                     shard.num_workers, " files, got ", paths.size()));
  }
  const absl::StatusOr<RowPipeline>& rows = RowsOf(shard);
  MF_RETURN_IF_ERROR(rows.status());
  if (!rows->batched) {
    return absl::InvalidArgumentError(
        "dataset: AutoShardPolicy FILE: call Batch() first; expected batches, got rows");
  }
  std::vector<std::string> names;  // without sizes: a worker may have only its own files
  for (const std::string& path : paths) names.push_back(BaseName(path));
  MF_ASSIGN_OR_RETURN(auto source, rows->MakeIterator(epoch, {}, nullptr));
  return FileBatches{std::move(source), rows->drop_remainder, IdentityOfNames(names)};
}

}  // namespace mirrorflow
