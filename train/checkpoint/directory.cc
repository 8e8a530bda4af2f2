// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/directory.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/failpoint.h"
#include "framework/core/file_kind.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kTemporaryPrefix = ".step-";
constexpr absl::string_view kTemporarySuffix = ".tmp";
// The suffix of a complete checkpoint while a new checkpoint of the same step replaces it.
constexpr absl::string_view kReplacedSuffix = ".old";

Failpoint begin_failpoint("checkpoint/begin");
Failpoint rename_failpoint("checkpoint/rename");
Failpoint replace_failpoint("checkpoint/replace");
Failpoint fsync_failpoint("checkpoint/fsync_parent");
Failpoint remove_failpoint("checkpoint/remove");
Failpoint removed_failpoint("checkpoint/removed");

std::string NameOf(int64_t step) { return absl::StrFormat("%s%09d", kPrefix, step); }

FileReader CheckpointFolder() {
  static constexpr FileKind kKinds[] = {FileKind::kCheckpointFolder};
  return {"a checkpoint directory", FileReader::Use::kVariables, kKinds};
}

// Removes a directory. Its name must be one that readers ignore.
absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return SystemError(error.value(), absl::StrCat(path, ": cannot remove"));
}

}  // namespace

std::string CheckpointPath(absl::string_view directory, int64_t step) {
  return absl::StrCat(directory, "/", NameOf(step));
}

absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error == std::errc::no_such_file_or_directory) return steps;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename();
    int64_t step;
    const bool is_checkpoint = absl::StartsWith(name, kPrefix) &&
                               absl::SimpleAtoi(name.substr(kPrefix.size()), &step) && step >= 0 &&
                               name == NameOf(step);
    if (is_checkpoint) steps.push_back(step);
  }
  if (error) {
    const absl::Status status =
        SystemError(error.value(), absl::StrCat(directory, ": cannot list"));
    return ExplainFile(status, directory, CheckpointFolder());
  }
  if (steps.empty()) {
    MF_RETURN_IF_ERROR(
        Annotate(CheckFileKind(KindOfFile(directory), CheckpointFolder()), directory));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::StatusOr<std::unique_ptr<CheckpointDirectory>> CheckpointDirectory::Open(
    const std::string& path, const DirectoryLockOptions& lock_options) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    const absl::Status status = SystemError(error.value(), absl::StrCat(path, ": cannot create"));
    return ExplainFile(status, path, CheckpointFolder());
  }
  MF_RETURN_IF_ERROR(ListCheckpoints(path).status());
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError(errno, absl::StrCat(path, ": cannot open"));
  std::unique_ptr<CheckpointDirectory> directory(new CheckpointDirectory(path, fd));
  MF_ASSIGN_OR_RETURN(directory->lock_, DirectoryLock::Acquire(path, lock_options));
  MF_RETURN_IF_ERROR(directory->RemoveLeftovers());
  return directory;
}

CheckpointDirectory::~CheckpointDirectory() { close(fd_); }

absl::StatusOr<std::string> CheckpointDirectory::TemporaryName(int64_t step,
                                                               absl::string_view suffix) const {
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random) {
    return SystemError(errno, "getrandom");
  }
  return absl::StrFormat("%s/.%s.%016x%s", path_, NameOf(step), random, suffix);
}

absl::Status CheckpointDirectory::RemoveLeftovers() const {
  std::error_code error;
  std::vector<std::string> leftovers, replaced;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename();
    const bool is_step = absl::StartsWith(name, kTemporaryPrefix);
    const bool is_ours = is_step || absl::StartsWith(name, DirectoryLock::kTemporaryPrefix);
    if (is_ours && absl::EndsWith(name, kTemporarySuffix)) leftovers.push_back(name);
    if (is_step && absl::EndsWith(name, kReplacedSuffix)) replaced.push_back(name);
  }
  if (error) return SystemError(error.value(), absl::StrCat(path_, ": cannot list"));
  for (const std::string& name : replaced) {
    const std::string old = absl::StrCat(path_, "/", name);
    const std::string step = absl::StrCat(path_, "/", name.substr(1, name.find('.', 1) - 1));
    if (access(step.c_str(), F_OK) == 0) {
      leftovers.push_back(name);
    } else if (rename(old.c_str(), step.c_str()) != 0) {
      return SystemError(errno, absl::StrCat(old, ": cannot rename"));
    }
  }
  for (const std::string& name : leftovers) {
    MF_RETURN_IF_ERROR(RemoveAll(absl::StrCat(path_, "/", name)));
  }
  return absl::OkStatus();
}

absl::Status CheckpointDirectory::Commit(
    int64_t step, absl::FunctionRef<absl::Status(const std::string&)> write) {
  const std::string name = CheckpointPath(path_, step);
  MF_RETURN_IF_ERROR(begin_failpoint.Pass());
  MF_ASSIGN_OR_RETURN(const std::string temporary, TemporaryName(step, kTemporarySuffix));
  if (mkdir(temporary.c_str(), 0777) != 0) {
    return SystemError(errno, absl::StrCat(name, ": cannot create"));
  }
  absl::Cleanup remove_temporary = [&] { RemoveAll(temporary).IgnoreError(); };
  MF_RETURN_IF_ERROR(write(temporary));
  MF_RETURN_IF_ERROR(rename_failpoint.Pass());
  MF_RETURN_IF_ERROR(lock_->Check());
  if (access(name.c_str(), F_OK) == 0) {
    // Exchange the names, so a checkpoint of this step exists at every moment.
    if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE) == 0) {
      return Sync();  // the temporary name now has the old checkpoint
    }
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {
      return ReplaceByTwoRenames(step, temporary);
    }
    return SystemError(errno, absl::StrCat(name, ": cannot replace"));
  }
  if (rename(temporary.c_str(), name.c_str()) != 0) {
    return SystemError(errno, absl::StrCat(name, ": cannot rename"));
  }
  return Sync();
}

absl::Status CheckpointDirectory::ReplaceByTwoRenames(int64_t step,
                                                      const std::string& temporary) const {
  const std::string name = CheckpointPath(path_, step);
  MF_ASSIGN_OR_RETURN(const std::string old, TemporaryName(step, kReplacedSuffix));
  if (rename(name.c_str(), old.c_str()) != 0) {
    return SystemError(errno, absl::StrCat(name, ": cannot rename the old checkpoint"));
  }
  // After a crash here, RemoveLeftovers restores the old checkpoint.
  absl::Cleanup bring_back = [&] { (void)!rename(old.c_str(), name.c_str()); };
  MF_RETURN_IF_ERROR(replace_failpoint.Pass());
  MF_RETURN_IF_ERROR(lock_->Check());
  if (rename(temporary.c_str(), name.c_str()) != 0) {
    return SystemError(errno, absl::StrCat(name, ": cannot rename"));
  }
  std::move(bring_back).Cancel();
  MF_RETURN_IF_ERROR(Sync());
  return Discard(step, old);
}

absl::Status CheckpointDirectory::Sync() const {
  MF_RETURN_IF_ERROR(fsync_failpoint.Pass());
  // EINVAL: the file system cannot sync directories.
  if (fsync(fd_) == 0 || errno == EINVAL) return absl::OkStatus();
  return SystemError(errno, absl::StrCat(path_, ": cannot fsync"));
}

absl::Status CheckpointDirectory::Abandon(int64_t step) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(path_));
  abandoned_.clear();
  abandoned_.insert(std::upper_bound(steps.begin(), steps.end(), step), steps.end());
  return absl::OkStatus();
}

absl::Status CheckpointDirectory::RemoveObsolete(int64_t step, int keep) {
  abandoned_.erase(step);  // a new checkpoint has replaced the abandoned one
  for (; !abandoned_.empty(); abandoned_.erase(abandoned_.begin())) {
    MF_RETURN_IF_ERROR(Remove(*abandoned_.begin()));
  }
  MF_ASSIGN_OR_RETURN(std::vector<int64_t> steps, ListCheckpoints(path_));
  steps.erase(std::upper_bound(steps.begin(), steps.end(), step), steps.end());
  const auto num_obsolete = static_cast<int64_t>(steps.size()) - keep;
  for (int64_t i = 0; i < num_obsolete; ++i) MF_RETURN_IF_ERROR(Remove(steps[i]));
  return absl::OkStatus();
}

absl::Status CheckpointDirectory::Remove(int64_t step) const {
  const std::string name = CheckpointPath(path_, step);
  MF_RETURN_IF_ERROR(remove_failpoint.Pass());
  MF_RETURN_IF_ERROR(lock_->Check());
  return Discard(step, name);
}

absl::Status CheckpointDirectory::Discard(int64_t step, const std::string& path) const {
  MF_ASSIGN_OR_RETURN(const std::string temporary, TemporaryName(step, kTemporarySuffix));
  if (rename(path.c_str(), temporary.c_str()) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return SystemError(errno, absl::StrCat(path, ": cannot remove"));
  }
  MF_RETURN_IF_ERROR(removed_failpoint.Pass());
  return RemoveAll(temporary);
}

}  // namespace mirrorflow
