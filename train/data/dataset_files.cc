// SPDX-License-Identifier: Apache-2.0
//
// The part of Dataset that divides the files of a source among workers.
#include <deque>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/crc32c.h"
#include "framework/core/status.h"
#include "train/data/dataset.h"

namespace mirrorflow {
namespace {

namespace fs = std::filesystem;

using Paths = std::vector<std::string>;

// The files of a source, listed when they are needed first.
class FileList {
 public:
  explicit FileList(std::function<absl::StatusOr<Paths>()> list) : list_(std::move(list)) {}

  const absl::StatusOr<Paths>& paths() {
    std::lock_guard<std::mutex> lock(mu_);
    if (!paths_) paths_ = list_();
    return *paths_;
  }

 private:
  const std::function<absl::StatusOr<Paths>()> list_;
  // std::mutex rather than absl::Mutex: TSan instruments the former, but not Debian's Abseil.
  std::mutex mu_;
  std::optional<absl::StatusOr<Paths>> paths_;  // guarded by mu_
};

// Describes files by a text for each, in this order.
std::string Identity(const std::vector<std::string>& texts) {
  uint32_t crc = 0;
  for (const std::string& text : texts) crc = Crc32c(absl::StrCat(text, "\n"), crc);
  return absl::StrCat(texts.size(), texts.size() == 1 ? " file" : " files", " with checksum ",
                      absl::Hex(crc, absl::kZeroPad8));
}

// The hosts of a cluster may have the files in different directories.
std::string BaseName(const std::string& path) { return fs::path(path).filename().string(); }

// Describes files by their names, because a worker has only its own.
std::string IdentityOfNames(const Paths& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(BaseName(path));
  return Identity(names);
}

}  // namespace

// The datasets of the shares are kept, because they hold what has been read and cached.
class Dataset::Files {
 public:
  using Make = std::function<Dataset(const FileShare&)>;

  Files(std::shared_ptr<FileList> list, Make make)
      : list_(std::move(list)), make_(std::move(make)) {}

  const std::shared_ptr<FileList>& list() const { return list_; }

  const Dataset& Of(const FileShare& share) {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [of, dataset] : made_) {
      if (of == share) return dataset;
    }
    return made_.emplace_back(share, make_(share)).second;
  }

 private:
  const std::shared_ptr<FileList> list_;
  const Make make_;
  std::mutex mu_;
  // Guarded by mu_; a deque does not move its elements.
  std::deque<std::pair<FileShare, Dataset>> made_;
};

Dataset Dataset::FromFiles(Paths named, ListFiles list, ReadFiles read) {
  const auto files = std::make_shared<FileList>(std::move(list));
  Dataset d;
  d.description_ = "FromFiles()";
  d.files_ = std::make_shared<Files>(
      files, [files, named = std::move(named), read = std::move(read)](const FileShare& share) {
        const auto open = [&]() -> absl::StatusOr<Dataset> {
          MF_ASSIGN_OR_RETURN(const Paths all, files->paths());
          Paths own;
          for (size_t i = share.worker; i < all.size(); i += share.num_workers)
            own.push_back(all[i]);
          MF_ASSIGN_OR_RETURN(const Dataset opened, read(own));
          return opened.ReadFrom(own, named);
        };
        return OrError(open());
      });
  return d;
}

Dataset Dataset::ReadFrom(const Paths& paths, const Paths& named) const {
  const std::set<absl::string_view> by_user(named.begin(), named.end());
  std::vector<std::string> texts;
  uintmax_t total = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const uintmax_t size = fs::file_size(path, error);
    if (!error) total += size;
    // A file that the user names may have another name on each host, such as a temporary one.
    const std::string name = by_user.contains(path) ? "" : BaseName(path);
    texts.push_back(absl::StrCat(name, " ", error ? 0 : size));
  }
  Dataset d = *this;
  d.source_files_ = absl::StrCat(Identity(texts), " and ", total, " bytes");
  return d;
}

Dataset Dataset::ReadFromNames(const std::vector<std::string>& names) const {
  Dataset d = *this;
  d.source_files_ = Identity(names);
  return d;
}

Dataset Dataset::Then(std::function<Dataset(const Dataset&, const FileShare&)> stage) const {
  Dataset d;
  d.description_ = description_;
  d.batched_ = batched_;
  d.files_ = std::make_shared<Files>(
      files_->list(), [input = files_, stage = std::move(stage)](const FileShare& share) {
        return stage(input->Of(share), share);
      });
  return d;
}

Dataset Dataset::Then(std::function<Dataset(const Dataset&)> stage) const {
  return Then([stage = std::move(stage)](const Dataset& d, const FileShare&) { return stage(d); });
}

const Dataset& Dataset::Opened() const { return files_ != nullptr ? files_->Of({}) : *this; }

absl::StatusOr<FileBatches> Dataset::OpenFiles(int64_t epoch, const FileShare& share) const {
  if (files_ == nullptr) {
    MF_RETURN_IF_ERROR(status_);
    return absl::InvalidArgumentError(
        "dataset: AutoShardPolicy FILE: expected the rows of FromTFRecords() or FromCsv(), and no "
        "Zip() or Concatenate(), got a dataset without a list of files");
  }
  MF_ASSIGN_OR_RETURN(const Paths paths, files_->list()->paths());
  if (std::ssize(paths) < share.num_workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset: AutoShardPolicy FILE: fewer files than workers; expected at least ",
                     share.num_workers, ", got ", paths.size()));
  }
  const Dataset& d = files_->Of(share);
  MF_RETURN_IF_ERROR(d.status_);
  if (!d.batched_) {
    return absl::InvalidArgumentError(
        "dataset: AutoShardPolicy FILE: expected batches, got rows without Batch()");
  }
  return FileBatches{d.MakeIterator(epoch), d.drop_remainder_, IdentityOfNames(paths)};
}

}  // namespace mirrorflow
